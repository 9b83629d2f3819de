package serve

import (
	"net/netip"
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
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
	// Stalled tells that the peer has taken nothing for StallTimeout (R424).
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

// Peer is the protocol's view of a connection that receives events: an SSE
// stream or a WebSocket. Loop only. After the handler's OnClose its methods do
// nothing.
type Peer struct {
	c       *Conn
	handler StreamHandler
	member  fanout.Member
	chunked bool // SSE over HTTP/1.1
	goesOn  bool // the connection serves requests after the stream
	drain   bool // NotifyDrained was called
	gone    bool
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

// EndStream ends an SSE stream in an orderly way: with the last chunk where it
// is chunked, and with the connection unless it goes on.
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
