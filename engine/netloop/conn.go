package netloop

import (
	"errors"
	"io"
	"net/netip"

	"github.com/panjf2000/gnet/v2"

	"github.com/sluice-relay/sluice/engine/loop"
)

// conn is one connection: a loop.Transport towards the engine, and what the
// reactor's events are passed to. It holds no buffer.
type conn struct {
	// Immutable after construction.
	r      *reactor // its loop
	remote netip.AddrPort
	gen    int32 // tells it from other holders of its descriptor number

	// Owned by the loop; opened is also read by the collector once the
	// enrolment is over.
	opened  bool
	doomed  bool // to be closed; nothing is read or written any more
	closed  bool // OnClose has begun; fd is no longer ours (N2)
	aborted bool // the close sends a RST
	shut    bool // a FIN was sent
	armed   bool // WantWritable not yet answered
	watched bool // in the watcher's set
	fd      int
	g       gnet.Conn
	h       loop.Handler
}

// Write implements loop.Transport: write(2), never the reactor's buffer.
func (c *conn) Write(p []byte) (int, error) {
	if c.doomed || c.closed || c.shut {
		return 0, ErrClosed
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := writeSocket(c.fd, p)
	if err != nil {
		c.fail(err)
	}
	return n, err
}

// WantWritable implements loop.Transport.
func (c *conn) WantWritable() {
	if c.doomed || c.closed || c.armed {
		return
	}
	c.armed = true
	if err := c.r.srv.watch.arm(c); err != nil {
		c.fail(err) // better gone than stalled without end
	}
}

// UnackedBytes implements loop.Transport.
func (c *conn) UnackedBytes() int {
	if c.closed {
		return 0
	}
	return unackedBytes(c.fd)
}

// StreamBuffers implements loop.Transport.
func (c *conn) StreamBuffers() {
	if !c.closed {
		setSendBuffer(c.fd, c.r.srv.cfg.SendBufferBytes)
	}
}

// CloseWrite implements loop.Transport.
func (c *conn) CloseWrite() {
	if c.doomed || c.closed || c.shut {
		return
	}
	c.shut = true
	shutdownWrite(c.fd)
}

// Close implements loop.Transport.
func (c *conn) Close() { c.fail(nil) }

// Abort implements loop.Transport. After Close it still turns the close that
// follows into a reset.
func (c *conn) Abort() {
	if c.closed || c.aborted {
		return
	}
	c.aborted = true
	setReset(c.fd)
	if c.r.reasons[c] == nil {
		c.r.reasons[c] = ErrAborted
	}
	c.fail(c.r.reasons[c])
}

// RemoteAddr implements loop.Transport.
func (c *conn) RemoteAddr() netip.AddrPort { return c.remote }

// LocalAddr implements loop.Transport. It is rarely asked for, and then asks the
// kernel; after the end it is the zero value.
func (c *conn) LocalAddr() netip.AddrPort {
	if c.closed {
		return netip.AddrPort{}
	}
	return localAddr(c.fd)
}

// fail has the loop close c, with err for OnClose.
func (c *conn) fail(err error) {
	if c.doomed || c.closed {
		return
	}
	c.doomed = true
	if err != nil {
		c.r.reasons[c] = err
	}
	c.r.doom(c)
}

// open is the reactor's OnOpen.
func (c *conn) open(g gnet.Conn) gnet.Action {
	c.g, c.fd, c.opened = g, g.Fd(), true
	forgetAddrs(g)
	c.r.current = c
	if !c.callAccept() {
		c.Abort()
	}
	c.r.current = nil
	return c.action()
}

// traffic is the reactor's OnTraffic. Everything that was read is handed on, so
// that the reactor's inbound buffer stays empty and is never allocated.
func (c *conn) traffic(g gnet.Conn) gnet.Action {
	p, _ := g.Next(-1)
	if c.doomed {
		return gnet.Close
	}
	if len(p) == 0 {
		return gnet.None
	}
	c.r.current = c
	if !c.callData(p) {
		c.Abort()
	}
	c.r.current = nil
	return c.action()
}

func (c *conn) action() gnet.Action {
	if c.doomed {
		return gnet.Close
	}
	return gnet.None
}

// becameWritable passes on an event of the watcher.
func (c *conn) becameWritable() {
	if c.closed || c.doomed || !c.armed {
		return
	}
	c.armed = false
	if !c.callWritable() {
		c.Abort()
	}
}

// end is the reactor's OnClose; the reactor closes the descriptor after it.
func (c *conn) end(err error) {
	c.closed = true
	s := c.r.srv
	s.watch.remove(c)
	why := c.r.reasons[c]
	delete(c.r.reasons, c)
	if err == nil && why == nil {
		s.settle(c)
	}
	c.callClose(c.reason(why, err))
	s.unplace(c.r) // last: who sees the count fall finds the rest done
	c.h, c.g = nil, nil
}

// reason tells OnClose why. An end that neither side asked for is the server's.
func (c *conn) reason(why, err error) error {
	switch {
	case why != nil:
		return why
	case errors.Is(err, io.EOF):
		return nil
	case err != nil || c.doomed:
		return err
	case c.r.srv.stopping.Load():
		return ErrStopped
	}
	return ErrLoopDied
}

// The calls into the engine: a panic is counted by the loop and contained to
// the connection (R14). ok is false after one.

func (c *conn) callAccept() (ok bool) {
	defer c.r.loop.Recover()
	c.h = c.r.srv.accept(c.r.loop, c)
	return c.h != nil
}

func (c *conn) callData(p []byte) (ok bool) {
	defer c.r.loop.Recover()
	c.h.OnData(p)
	return true
}

func (c *conn) callWritable() (ok bool) {
	defer c.r.loop.Recover()
	c.h.OnWritable()
	return true
}

func (c *conn) callClose(err error) {
	defer c.r.loop.Recover()
	if c.h != nil {
		c.h.OnClose(err)
	}
}
