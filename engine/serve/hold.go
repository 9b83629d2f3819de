package serve

import "github.com/sluice-relay/sluice/codec/http1"

// heldInput is input that waits behind an unfinished answer: at most HeldBytes
// and HeldRequests (R49). A second parser counts the requests.
type heldInput struct {
	bytes  []byte
	taken  int64 // of the budget
	count  http1.Parser
	heads  int
	broken bool // not HTTP: counted no further, refused when its turn comes
}

// hold keeps a copy of p until the answer under way is finished. Too much, or
// too many requests, close the connection.
func (c *Conn) hold(p []byte) {
	if len(p) == 0 {
		return
	}
	h := c.held
	if h == nil {
		h = &heldInput{}
		c.held = h
	}
	if len(h.bytes)+len(p) > HeldBytes || h.countRequests(c.w.heads, p) > HeldRequests || !c.w.cfg.Budget.Take(int64(len(p))) {
		c.w.stats.OverLimit++
		c.abort()
		return
	}
	h.taken += int64(len(p))
	h.bytes = append(h.bytes, p...)
}

// countRequests counts the heads in p, after what it was called with before.
func (h *heldInput) countRequests(s *http1.Scratch, p []byte) int {
	for !h.broken {
		n, step, _, err := h.count.Feed(s, p)
		p = p[n:]
		switch {
		case err != nil:
			h.broken = true
		case step == http1.NeedMore:
			return h.heads
		case step == http1.GotHead:
			h.heads++
		}
	}
	return h.heads
}

func (c *Conn) dropHeld() {
	if c.held != nil {
		c.w.cfg.Budget.Give(c.held.taken)
		c.held = nil
	}
}

// resume works off held input once nothing is in its way.
func (c *Conn) resume() {
	if c.busy || c.phase != phaseHTTP || c.blocked() {
		return
	}
	if c.w.serving {
		// Another connection's request is being served, and answered this one:
		// its head lies in the scratch that the next head would be read into.
		c.w.loop.Later(c.resume)
		return
	}
	if c.held == nil {
		c.feedHTTP(nil)
		return
	}
	p := c.held.bytes
	c.dropHeld()
	c.feedHTTP(p)
}
