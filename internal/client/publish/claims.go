package publish

import "container/list"

const (
	// maxClaims bounds the sessions whose last event is kept: the contract's
	// default of AEP_MAX_SESSIONS.
	maxClaims = 500
	// maxClaimText is the longest event that is kept: any relay takes one of
	// that length (R332).
	maxClaimText = 64 << 10
	// maxClaimBytes bounds these events together.
	maxClaimBytes = 8 << 20
)

// claims has the last event of each session that was sent. A claim ends with
// its connection (R146) and is made again by any event of its session, also by
// one that the relay has (R145); so these are sent first on a new connection.
// Beyond its bounds the session longest without an event is forgotten.
type claims struct {
	order *list.List // of *claim, the oldest first
	of    map[string]*list.Element
	bytes int
}

type claim struct {
	session string
	text    []byte
}

func newClaims() *claims {
	return &claims{order: list.New(), of: map[string]*list.Element{}}
}

// add keeps text, borrowed, as the last event of a session.
func (c *claims) add(session string, text []byte) {
	if len(text) > maxClaimText {
		return
	}
	e, known := c.of[session]
	if !known {
		e = c.order.PushBack(&claim{session: session})
		c.of[session] = e
	}
	held := e.Value.(*claim)
	c.bytes += len(text) - len(held.text)
	held.text = append(held.text[:0], text...)
	c.order.MoveToBack(e)
	for c.bytes > maxClaimBytes || c.order.Len() > maxClaims {
		oldest := c.order.Front()
		gone := oldest.Value.(*claim)
		c.bytes -= len(gone.text)
		delete(c.of, gone.session)
		c.order.Remove(oldest)
	}
}

// batch returns the events as a batch, the oldest first.
func (c *claims) batch() *batch {
	b := new(batch)
	for e := c.order.Front(); e != nil; e = e.Next() {
		text := e.Value.(*claim).text
		b.lines = append(b.lines, line{start: len(b.body), end: len(b.body) + len(text)})
		b.body = append(append(b.body, text...), '\n')
	}
	return b
}
