package serve

import (
	"math"
	"net/netip"
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
)

// StreamHandler is a protocol's side of a connection that receives events. All
// methods are called on the connection's loop.
type StreamHandler interface {
	fanout.Owner

	// OnTimer answers Peer.SetTimer.
	OnTimer()
	// OnDrained answers Peer.NotifyDrained: nothing is owed any more.
	OnDrained()
	// Stalled tells that the peer has taken nothing for StallTimeout (R424), or
	// for what SetStallTimeout says.
	Stalled()
	// OnShutdown tells that the relay is going down.
	OnShutdown()
	// OnClose tells that the peer is gone, or its connection about to close. It
	// is called once, last.
	OnClose()
}

// SocketHandler is a StreamHandler that also receives messages.
type SocketHandler interface {
	StreamHandler

	// OnText takes one text message: borrowed until return.
	OnText(text []byte)
	// OnBinary takes one binary message: borrowed until return.
	OnBinary(data []byte)
	// Overloaded tells that there is no memory for the peer's input (R46). It
	// closes the socket.
	Overloaded()
}

// ControlHandler is a SocketHandler that looks at what the connection answers by
// itself. The methods are called on the loop.
type ControlHandler interface {
	SocketHandler

	// OnPong tells that a Pong has come, asked for or not.
	OnPong()
	// OnPeerClose tells the code of the peer's Close frame, 0 for one without. The
	// connection answers it; OnClose follows. A close that the handler began by
	// itself is not told.
	OnPeerClose(code int)
	// OnFault tells that the peer broke the framing. It returns a frame that goes
	// out before the Close frame with the error's code, shared from then on, nil
	// for none. OnClose follows.
	OnFault(err *wsframe.Error) (last []byte)
}

// Peer is the protocol's view of a connection that receives events: an SSE
// stream or a WebSocket. Loop only. After the handler's OnClose its methods do
// nothing.
type Peer struct {
	c       *Conn
	handler StreamHandler
	chunked bool // SSE over HTTP/1.1
	goesOn  bool // the connection serves requests after the stream
	drain   bool // NotifyDrained was called
	gone    bool
	// patience is the stall timeout in milliseconds, 0 for StallTimeout.
	patience int32
	// The member is last: what a delivery by SendFrames looks at stands together.
	member fanout.Member
}

func (c *Conn) newPeer(h StreamHandler, finite bool) *Peer {
	p := &Peer{c: c, handler: h}
	c.w.set.InitMember(&p.member, &c.out, h, finite)
	c.peer = p
	return p
}

// Member returns the peer's delivery state.
func (p *Peer) Member() *fanout.Member { return &p.member }

// Worker returns the worker of the connection's loop.
func (p *Peer) Worker() *Worker { return p.c.w }

// Now returns the loop's time.
func (p *Peer) Now() time.Time { return p.c.w.loop.Now() }

// RemoteAddr returns the peer's address.
func (p *Peer) RemoteAddr() netip.AddrPort { return p.c.tr.RemoteAddr() }

// Chunked tells whether an SSE stream is sent as HTTP chunks.
func (p *Peer) Chunked() bool { return p.chunked }

// Gone tells whether OnClose was called.
func (p *Peer) Gone() bool { return p.gone }

// Send sends a frame behind everything that is queued. frame is shared from now
// on.
func (p *Peer) Send(frame []byte) {
	if !p.gone {
		p.c.out.Send(frame)
		p.c.afterSend()
	}
}

// SendFrames writes a batch of whole frames, if nothing is owed: see
// fanout.Output.SendFrames. A handler that was not accepted all of them calls
// NotifyDrained and goes on when nothing is owed any more. All are accepted when
// the peer is gone.
func (p *Peer) SendFrames(batch []byte, frames [][]byte) (accepted int) {
	if p.gone {
		return len(frames)
	}
	accepted = p.c.out.SendFrames(batch, frames)
	p.c.afterSend()
	return accepted
}

// QueuedBytes returns what is accepted for the peer and not taken by the kernel.
func (p *Peer) QueuedBytes() int64 { return p.member.QueuedBytes() }

// Owes tells whether the kernel has not taken all that was sent. It looks at
// less memory than QueuedBytes, which counts what waits for a pass as well.
func (p *Peer) Owes() bool { return p.c.out.OwedBytes() > 0 }

// TakenBytes returns how many bytes the kernel has taken so far.
func (p *Peer) TakenBytes() int64 { return p.c.out.TakenBytes() }

// Subscribe registers a subscription: see fanout.Member.Subscribe.
func (p *Peer) Subscribe(sub *fanout.Sub, plan fanout.Plan, ack []byte) {
	if !p.gone {
		p.member.Subscribe(sub, plan, ack)
		p.c.afterSend()
	}
}

// Unsubscribe ends a subscription: see fanout.Member.Unsubscribe.
func (p *Peer) Unsubscribe(id string, ack []byte) {
	if !p.gone {
		p.member.Unsubscribe(id, ack)
		p.c.afterSend()
	}
}

// Command sends a frame at the next frame boundary, unless the peer is gone or
// owes so much that this ends it. It tells whether the frame was taken.
func (p *Peer) Command(frame []byte) bool {
	if p.gone || !p.member.Urgent(frame) {
		return false
	}
	p.c.afterSend()
	return true
}

// Reply sends the answer to a request: see fanout.Member.Reply.
func (p *Peer) Reply(frame []byte) {
	if !p.gone {
		p.member.Reply(frame)
		p.c.afterSend()
	}
}

// Urgent sends a frame at the next frame boundary. frame is shared from now on.
func (p *Peer) Urgent(frame []byte) {
	if !p.gone {
		p.member.Urgent(frame)
		p.c.afterSend()
	}
}

// afterSend watches an output that came to owe something.
func (c *Conn) afterSend() {
	if c.phase < phaseFlush && c.owed() > 0 {
		c.watchStall()
	}
}

// SetTimer makes OnTimer be called after d. A later call moves it.
func (p *Peer) SetTimer(d time.Duration) {
	if !p.gone {
		p.c.setDeadline(dueOwner, d)
	}
}

// SetStallTimeout says how long the peer may take nothing of what it is owed
// before Stalled is called, instead of StallTimeout: 1 ms to 24 days. It is
// looked at every RetryInterval, or as often as d if that is shorter.
func (p *Peer) SetStallTimeout(d time.Duration) {
	p.patience = int32(min(max(d.Milliseconds(), 1), math.MaxInt32))
	if c := p.c; !p.gone && c.due[dueStall] != 0 {
		c.hasten(dueStall, c.retryInterval())
	}
}

// retryInterval is how often the progress of the output is looked at.
func (c *Conn) retryInterval() time.Duration { return min(RetryInterval, c.stallTimeout()) }

// stallTimeout is how long the connection's peer may take nothing.
func (c *Conn) stallTimeout() time.Duration {
	if c.peer == nil || c.peer.patience == 0 {
		return StallTimeout
	}
	return time.Duration(c.peer.patience) * time.Millisecond
}

// NotifyDrained makes OnDrained be called once nothing is owed, at once if that
// is so already.
func (p *Peer) NotifyDrained() {
	p.drain = true
	if !p.gone && p.member.QueuedBytes() == 0 {
		p.drained()
	}
}

func (p *Peer) drained() {
	if p.drain && !p.gone {
		p.drain = false
		p.handler.OnDrained()
	}
}

// EndStream ends a stream in an orderly way: with the last chunk where it is
// chunked, and with the connection unless it goes on. A WebSocket is ended so
// without a close frame, as its peer should see a connection that was lost.
func (p *Peer) EndStream() {
	if p.gone {
		return
	}
	c := p.c
	if p.chunked {
		c.out.Send(lastChunk)
	}
	c.peer = nil
	p.closed()
	if !p.goesOn || c.w.stopping {
		c.closeAfterFlush()
		c.afterWrite()
		return
	}
	c.phase = phaseHTTP
	c.setDeadline(dueIdle, IdleTimeout)
	c.afterWrite()
}

var lastChunk = []byte(http1.LastChunk)

// Abort resets the connection.
func (p *Peer) Abort() {
	if !p.gone {
		p.c.abort()
	}
}

// Cut closes the connection at once, in the middle of a frame if need be; what the
// kernel has is still sent.
func (p *Peer) Cut() {
	if !p.gone {
		p.c.close()
	}
}

// DropUnsent forgets what is queued, except for the rest of a frame that is
// partly written.
func (p *Peer) DropUnsent() {
	if !p.gone {
		p.c.out.DropUnsent()
	}
}

// closed ends the peer: what others count of it goes at once.
func (p *Peer) closed() {
	if p.gone {
		return
	}
	p.gone = true
	p.member.Close()
	p.c.clearDeadline(dueOwner)
	p.tellClosed()
}

// tellClosed calls OnClose. A panic there is counted and ends nothing.
func (p *Peer) tellClosed() {
	defer p.c.w.loop.Recover()
	p.handler.OnClose()
}
