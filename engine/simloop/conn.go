package simloop

import (
	"fmt"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/stream"
)

// Conn is one connection of the scenario protocol: a socket, its output and its
// member, ended the way a WebSocket is ended (R428). It implements
// loop.Handler and fanout.Owner.
type Conn struct {
	Name   string
	Loop   *Loop
	Set    *fanout.Set
	Socket *Socket
	Out    fanout.Output
	Member *fanout.Member

	// Reason, Delivered and QueuedBytes tell of the cut, if there was one.
	Reason      fanout.Cut
	Delivered   []fanout.Position
	QueuedBytes int64
	// Complete tells that a finite member has replayed everything.
	Complete bool
	// Closed tells that the connection is gone.
	Closed bool
	// OnCut, when set, is called first when the member is cut.
	OnCut func(fanout.Cut)

	read int // bytes of what was received that Frames has returned
}

// Connect makes a connection on a loop with a kernel that takes room bytes. Its
// member is finite if it ends with its replay.
func (e *Engine) Connect(name string, loop, room int, finite bool) *Conn {
	c := &Conn{Name: name, Loop: e.Loops[loop], Set: e.Sets[loop]}
	c.Socket = c.Loop.NewSocket(room, c)
	c.Out.Init(c.Socket)
	c.Member = c.Set.NewMember(&c.Out, c, finite)
	e.Conns = append(e.Conns, c)
	return c
}

// Subscribe registers a subscription and acknowledges it.
func (c *Conn) Subscribe(sub *fanout.Sub, plan fanout.Plan) {
	if !c.Ended() {
		c.Member.Subscribe(sub, plan, fmt.Appendf(nil, "[subscribed %s]", sub.ID))
	}
}

// Unsubscribe ends a subscription and acknowledges it.
func (c *Conn) Unsubscribe(id string) {
	if !c.Ended() {
		c.Member.Unsubscribe(id, fmt.Appendf(nil, "[unsubscribed %s]", id))
	}
}

// Reply answers a request that was processed now.
func (c *Conn) Reply(text string) {
	if !c.Ended() {
		c.Member.Reply(fmt.Appendf(nil, "[reply %s]", text))
	}
}

// Urgent sends a frame at the next frame boundary.
func (c *Conn) Urgent(text string) {
	if !c.Ended() {
		c.Member.Urgent(fmt.Appendf(nil, "[urgent %s]", text))
	}
}

// Close ends the connection from this side.
func (c *Conn) Close() {
	if !c.Closed {
		c.Socket.Close()
		c.gone()
	}
}

// Ended tells whether the connection is gone or has said goodbye.
func (c *Conn) Ended() bool { return c.Closed || c.Reason != 0 }

// OnData implements loop.Handler.
func (c *Conn) OnData([]byte) {}

// OnWritable implements loop.Handler.
func (c *Conn) OnWritable() {
	switch {
	case c.Closed:
	case c.Reason != 0:
		c.Out.Flush()
	default:
		c.Member.Writable()
	}
}

// OnClose implements loop.Handler.
func (c *Conn) OnClose(error) { c.gone() }

func (c *Conn) gone() {
	c.Closed = true
	c.Out.Kill()
	c.Member.Close()
}

// AppendGap implements fanout.Owner.
func (c *Conn) AppendGap(dst []byte, s *fanout.Sub, session string, at stream.Sequence) []byte {
	return fmt.Appendf(dst, "[gap %s %s %d:%d]", s.ID, session, at.Epoch, at.Seq)
}

// AppendShed implements fanout.Owner.
func (c *Conn) AppendShed(dst []byte, n int64) []byte {
	return fmt.Appendf(dst, "[shed %d]", n)
}

// Replayed implements fanout.Owner.
func (c *Conn) Replayed() { c.Complete = true }

// Finished implements fanout.Owner.
func (c *Conn) Finished() {}

// Cut implements fanout.Owner: the frame that is partly written is finished,
// the rest is dropped, and a last frame says why (R428).
func (c *Conn) Cut(r fanout.Cut) {
	if c.OnCut != nil {
		c.OnCut(r)
	}
	c.Reason = r
	c.QueuedBytes = c.Member.QueuedBytes()
	c.Delivered = c.Member.Delivered()
	c.Out.DropUnsent()
	c.Out.Send(fmt.Appendf(nil, "[closing %s]", r))
	c.Member.Close()
}

// Frames returns the frames that the peer has received whole since the last
// call. partial is how many bytes it has of one more.
func (c *Conn) Frames() (frames []Frame, partial int, err error) {
	frames, rest, err := ParseFrames(c.Socket.Received()[c.read:])
	for _, f := range frames {
		c.read += f.Bytes
	}
	return frames, len(rest), err
}
