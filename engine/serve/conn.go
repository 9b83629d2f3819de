package serve

import (
	"net/netip"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
)

type phase uint8

const (
	phaseHTTP   phase = iota // requests and answers
	phaseStream              // an SSE stream
	phaseSocket              // WebSocket
	phaseFlush               // no more input counts; closed when nothing is owed
	phaseLinger              // FIN is out; input is dropped until the peer closes
	phaseGone                // closed
)

// Conn is one connection. It implements loop.Handler. Owned by its loop.
//
// Tens of thousands of them are idle: what is needed only while something
// happens is behind a pointer that is nil at rest (C7).
type Conn struct {
	// Immutable after construction.
	w  *Worker
	tr loop.Transport

	// Owned by the loop. A delivery looks at out and phase.
	out     fanout.Output
	phase   phase
	busy    bool // input is being worked off: answers do not resume it
	told    bool // of the shutdown
	counted bool // by the Gate, for client
	opened  instant
	parser  *http1.Parser // nil while nothing of a request has come
	x       *Exchange     // the request under way
	held    *heldInput
	peer    *Peer
	socket  *socket
	owes    *progress // of the output; nil when nothing is owed

	timer loop.Timer
	due   [dueKinds]instant // 0 for none

	client *netip.Addr // whom a trusted proxy names, nil for the peer itself
	prev   *Conn
	next   *Conn
}

// outlet is the connection as its output sees it: whenever bytes come to be
// owed, also by a pass of the fan-out core that asks nobody here, their progress
// is watched (R424).
type outlet Conn

// Write implements fanout.Sink.
func (o *outlet) Write(p []byte) (int, error) { return o.tr.Write(p) }

// WantWritable implements fanout.Sink.
func (o *outlet) WantWritable() {
	o.tr.WantWritable()
	(*Conn)(o).watchStall()
}

func (c *Conn) link() {
	w := c.w
	c.opened = w.instantAt(w.loop.Now())
	if c.next = w.first; c.next != nil {
		c.next.prev = c
	}
	w.first = c
	w.conns.Add(1)
}

func (c *Conn) unlink() {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		c.w.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	c.w.conns.Add(-1)
}

// OnData implements loop.Handler.
func (c *Conn) OnData(p []byte) {
	c.w.loop.ReadMail()
	c.w.reading = true
	defer c.w.inputDone()
	switch {
	case c.out.Dead():
		// Nothing can be answered any more; what is held would be overtaken.
	case c.phase == phaseHTTP:
		c.feedHTTP(p)
	case c.phase == phaseSocket:
		c.feedSocket(p)
	case c.phase == phaseStream:
		// Behind a replay that ends the connection goes on; input after a live
		// stream began means nothing (R49).
		if c.peer != nil && c.peer.goesOn {
			c.hold(p)
		}
	}
}

// OnWritable implements loop.Handler.
func (c *Conn) OnWritable() {
	if c.phase == phaseGone {
		return
	}
	defer c.contain()
	c.flush()
}

// flush writes what is owed and goes on with whatever waited for that.
func (c *Conn) flush() {
	if c.peer != nil {
		c.peer.member.Writable()
	} else {
		c.out.Flush()
	}
	c.afterWrite()
}

// afterWrite looks at what a change of the output means for the connection.
func (c *Conn) afterWrite() {
	owed := c.owed()
	if owed > 0 {
		c.watchStall()
		if c.owes != nil {
			c.owes.repay(c.out.TakenBytes())
		}
	} else {
		c.clearDeadline(dueStall)
		c.dropProgress()
	}
	switch {
	case c.out.Dead():
		// The transport has failed; its loop reports the close.
	case c.phase == phaseFlush && owed == 0:
		c.finish()
	case c.phase == phaseHTTP && owed <= owedAnswer:
		c.resume()
	case c.peer != nil && owed == 0:
		c.peer.drained()
	}
}

// owed returns the bytes accepted for the peer and not taken by the kernel.
func (c *Conn) owed() int64 {
	if c.peer != nil {
		return c.peer.member.QueuedBytes()
	}
	return c.out.OwedBytes()
}

// OnClose implements loop.Handler.
func (c *Conn) OnClose(error) {
	c.gone()
	c.unlink()
}

// gone drops all that the connection holds. What others count of it goes at
// once (R281, R334). It is done once.
func (c *Conn) gone() {
	if c.phase == phaseGone {
		return
	}
	c.phase = phaseGone
	c.w.loop.Cancel(&c.timer)
	c.out.Kill()
	c.dropHeld()
	if x := c.x; x != nil {
		c.x = nil
		x.lost()
		c.w.freeExchange(x)
	}
	if p := c.peer; p != nil {
		c.peer = nil
		p.closed()
	}
	if c.socket != nil {
		c.releaseSocket()
	}
	c.countNobody()
	c.dropParser()
	c.dropProgress()
}

// closeAfterFlush closes once the peer has what it is owed.
func (c *Conn) closeAfterFlush() {
	if c.phase >= phaseFlush {
		return
	}
	c.phase = phaseFlush
	c.dropHeld()
	if c.socket != nil {
		c.releaseSocket()
	}
	c.clearDeadline(dueHead)
	c.clearDeadline(dueBody)
	c.clearDeadline(dueIdle)
	if c.owed() == 0 {
		c.finish()
		return
	}
	c.watchProgress().flushedAt = c.out.TakenBytes()
	c.hasten(dueClose, FlushTimeout)
}

// finish sends a FIN and keeps reading for a while, so that a peer which is
// still sending does not get a reset before it has read the answer (R76).
func (c *Conn) finish() {
	if c.socket != nil && c.socket.shaken {
		c.close() // both sides have said that there is nothing to come
		return
	}
	c.phase = phaseLinger
	c.tr.CloseWrite()
	if c.socket != nil { // the handshake's patience holds on (R428, R462)
		c.hasten(dueClose, shortLinger)
		return
	}
	if c.w.stopping {
		c.setDeadline(dueClose, shortLinger)
		return
	}
	c.setDeadline(dueClose, LingerTimeout)
}

// abort resets the connection.
func (c *Conn) abort() {
	if c.phase == phaseGone {
		return
	}
	c.tr.Abort()
	c.gone()
}

// close closes the connection at once; what the kernel has is still sent.
func (c *Conn) close() {
	if c.phase == phaseGone {
		return
	}
	c.tr.Close()
	c.gone()
}

// shutdown implements Worker.Shutdown for one connection.
func (c *Conn) shutdown() {
	defer c.contain()
	c.told = true
	switch {
	case c.peer != nil:
		c.peer.handler.OnShutdown()
	case c.socket != nil && c.socket.closing:
		c.hasten(dueClose, stoppingClose)
	case c.phase != phaseHTTP:
	case c.x != nil && c.x.responded: // the rest of its body is of no use
		c.x.keepAlive = false
		c.x.settle()
	case c.x != nil && c.inBody():
		c.x.windowBytes = 0
		c.setDeadline(dueBody, stoppingHead)
	case c.x != nil:
	case c.inHead():
		c.hasten(dueHead, stoppingHead)
	default:
		c.closeAfterFlush()
	}
}
