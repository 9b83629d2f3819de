package serve

import (
	"errors"

	"github.com/sluice-relay/sluice/codec/http1"
)

// feedHTTP works off input as requests. Input that comes while an answer is
// unfinished is held, so that answers leave in request order (R49).
func (c *Conn) feedHTTP(p []byte) {
	if c.busy || c.blocked() || c.held != nil {
		c.hold(p)
		return
	}
	c.busy = true
	rest := c.parse(p)
	c.busy = false
	switch {
	case c.phase == phaseHTTP && len(rest) > 0:
		c.hold(rest)
	case c.phase == phaseHTTP:
		c.watchInput()
	case len(rest) > 0:
		c.OnData(rest) // what was glued to an upgrade
	}
}

// blocked tells whether the next request has to wait.
func (c *Conn) blocked() bool {
	if c.x != nil {
		return c.x.ended // body complete, answer not
	}
	return c.out.OwedBytes() > owedAnswer
}

// parse feeds the parser until the input is used up or has to wait, and returns
// the rest.
func (c *Conn) parse(p []byte) (rest []byte) {
	for c.phase == phaseHTTP && !c.blocked() {
		if c.parser == nil {
			if len(p) == 0 {
				return nil
			}
			c.parser = c.w.parsers.get()
		}
		n, step, data, err := c.parser.Feed(c.w.heads, p)
		p = p[n:]
		if err != nil {
			c.refuseError(err)
			return nil
		}
		switch step {
		case http1.NeedMore:
			return nil
		case http1.GotHead:
			c.begin(c.parser.Head())
		case http1.GotBody:
			c.x.windowBytes += int64(len(data))
			c.x.data(data)
		case http1.GotEnd:
			c.dropParser()
			c.clearDeadline(dueBody)
			if c.x != nil {
				c.x.end()
			}
		}
	}
	return p
}

// dropParser gives the parser back: it holds nothing that counts any more.
func (c *Conn) dropParser() {
	if c.parser != nil {
		c.w.parsers.put(c.parser)
		c.parser = nil
	}
}

// inHead tells whether a head was begun and is not complete.
func (c *Conn) inHead() bool { return c.parser != nil && c.parser.InHead() }

// inBody tells whether some of a body is still to come.
func (c *Conn) inBody() bool { return c.parser != nil && c.parser.InBody() }

// watchInput sets the deadlines that fit what the parser waits for.
func (c *Conn) watchInput() {
	switch {
	case c.inHead():
		c.clearDeadline(dueIdle)
		if c.due[dueHead] == 0 { // counted from the first octet, not per read
			c.setDeadline(dueHead, HeadTimeout)
		}
	case c.x == nil && c.due[dueIdle] == 0:
		c.clearDeadline(dueHead)
		c.setDeadline(dueIdle, IdleTimeout)
	}
}

// begin starts an exchange.
func (c *Conn) begin(h *http1.Head) {
	c.w.stats.Requests++
	c.clearDeadline(dueIdle)
	c.clearDeadline(dueHead)
	x := c.w.exchanges.get()
	x.conn, x.Head = c, h
	x.http10 = h.Minor == 0
	x.keepAlive = h.KeepAlive && !c.w.stopping
	x.expects = h.ExpectContinue
	x.length = h.ContentLength
	x.window, x.leastBytes = BodyWindow, BodyWindowBytes
	x.refusal = c.w.refusalOf(h.Path)
	c.x = x
	if h.ContentLength != 0 {
		c.setDeadline(dueBody, BodyWindow)
	}
	defer c.contain()
	if !c.recount(h) {
		x.refuse(429, tooMany)
		return
	}
	x.note(h)
	c.w.serving = true
	defer c.served()
	c.w.cfg.Handler.Serve(x)
	if c.x == x {
		x.Head = nil
	}
}

func (c *Conn) served() { c.w.serving = false }

// contain turns a panic in a handler into the end of its connection.
func (c *Conn) contain() {
	if r := recover(); r != nil {
		c.w.loop.CountPanic(r)
		c.abort()
	}
}

// refuseError answers what is no HTTP and closes.
func (c *Conn) refuseError(err error) {
	var e *http1.Error
	if !errors.As(err, &e) {
		e = &http1.Error{Status: 400, Reason: "bad request"}
	}
	c.w.stats.Refused++
	c.refuse(e.Status, e.Reason)
}

// refuse answers with a status and closes. An exchange whose answer was begun
// cannot be answered again; its connection is just closed.
func (c *Conn) refuse(status int, reason string) {
	if c.phase != phaseHTTP {
		return
	}
	answered := false
	refusal := c.w.refusalOf(nil)
	if x := c.x; x != nil {
		answered, refusal = x.responded, x.refusal
		c.x = nil
		x.lost()
		c.w.freeExchange(x)
	}
	if !answered {
		c.sendRefusal(refusal, status, reason)
	}
	c.closeAfterFlush()
	c.afterWrite()
}

// refusalOf asks Config.Refusals, and is textRefusal where nobody says otherwise.
func (w *Worker) refusalOf(path []byte) Refusal {
	if f := w.cfg.Refusals; f != nil {
		if refusal := f(path); refusal != nil {
			return refusal
		}
	}
	return textRefusal
}

// sendRefusal sends the answer of a connection that is to be closed.
func (c *Conn) sendRefusal(refusal Refusal, status int, reason string) {
	res := refusal(status, reason)
	c.w.buf = http1.AppendResponse(c.w.buf[:0], &res, c.w.date())
	c.out.SendBorrowed(c.w.buf)
}

// refuse answers an exchange for the connection's reasons.
func (x *Exchange) refuse(status int, reason string) {
	res := x.refusal(status, reason)
	res.NoBody = x.Head != nil && string(x.Head.Method) == "HEAD"
	x.Respond(&res)
}

// textRefusal is a line of text.
func textRefusal(status int, reason string) http1.Response {
	res := http1.Response{Status: status, Fields: textFields, Body: append([]byte(reason), '\n')}
	if status == 429 || status == 503 {
		res.Fields = retryFields
	}
	return res
}

var retryFields = append([]http1.Field{{Name: "Retry-After", Value: "1"}}, textFields...)

var textFields = []http1.Field{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}}
