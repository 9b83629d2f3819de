package serve

import (
	"errors"
	"time"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

const (
	// socketShare is the part of the budget that the input of one held socket
	// may take: a fourth.
	socketShare = 4
	// pongsOwed is how many pongs may wait for a peer that does not read; more
	// are left out (RFC 6455 section 5.5.3).
	pongsOwed = 16
	// CloseTimeout is how long a peer may take to finish the closing handshake
	// (R462); BackpressureTimeout the same for one that did not read (R428).
	CloseTimeout        = 2 * time.Second
	BackpressureTimeout = 5 * time.Second
)

// socket is the WebSocket state of a connection.
type socket struct {
	reader  *wsframe.Reader // nil between messages
	limit   int64           // of the next messages, in bytes
	input   *unread         // nil when all input was handled
	pongs   *pongs          // nil when none is owed
	heardAt instant
	whole   bool // messages come in one frame each
	holding bool
	closing bool // our Close frame is out or owed
	shaken  bool // the peer's Close has come
}

// unread is input that was not handed over yet.
type unread struct {
	held  []byte
	taken int64 // of the budget, for these and an unfinished message
}

// pongs are those that may still be owed: each is out once the output has taken
// so many bytes.
type pongs struct {
	outAt [pongsOwed]int64
	count int
}

// SetLimit bounds the next messages (R332). WebSocket only.
func (p *Peer) SetLimit(bytes int64) {
	if s := p.c.socket; s != nil {
		s.limit = bytes
		if s.reader != nil {
			s.reader.Limit = bytes
		}
	}
}

// LastHeard returns when anything last arrived, also what Hold made wait, to
// within loop.WheelTick and never too early. WebSocket only.
func (p *Peer) LastHeard() time.Time { return p.c.w.timeOf(p.c.socket.heardAt) }

// takeHeld returns what was held, which is not held any more.
func (s *socket) takeHeld() []byte {
	if s.input == nil {
		return nil
	}
	held := s.input.held
	s.input.held = nil
	return held
}

// hold keeps more input, which follows what is held. Into an empty place it goes
// without a copy when it is the caller's to give.
func (s *socket) hold(p []byte, given bool) {
	if len(p) == 0 {
		return
	}
	if s.input == nil {
		s.input = new(unread)
	}
	if given && len(s.input.held) == 0 {
		s.input.held = p
		return
	}
	s.input.held = append(s.input.held, p...)
}

// Hold stops the handing over of messages until Release. Input that comes
// meanwhile waits, at most a quarter of the budget of it (R46). WebSocket only.
func (p *Peer) Hold() {
	if s := p.c.socket; s != nil && !p.gone {
		s.holding = true
	}
}

// Release goes on with messages after Hold. It must not be called from an
// OnText or OnBinary, not even another connection's: the message lies in memory
// that all share.
func (p *Peer) Release() {
	c, s := p.c, p.c.socket
	if p.gone || s == nil || !s.holding {
		return
	}
	s.holding = false
	rest := c.readFrames(s.takeHeld(), &c.w.frames)
	if c.phase != phaseSocket {
		return
	}
	s.hold(rest, true) // no copy: a handler may hold again at each message
	c.chargeSocket()
}

// CloseSocket begins the closing handshake: a Close frame goes out behind what
// is owed, and the peer has patience to answer it before it is cut. The handler
// gets OnClose now. WebSocket only.
func (p *Peer) CloseSocket(code int, reason string, patience time.Duration) {
	if p.gone {
		return
	}
	c := p.c
	c.socket.closing = true
	c.peer = nil
	p.closed() // replies that waited go out first
	c.out.Send(wsframe.AppendClose(nil, code, reason))
	c.setDeadline(dueClose, patience)
	c.afterWrite()
	if c.socket.holding {
		c.skipHeld()
	}
}

// skipHeld reads what was held up to the peer's Close frame; messages have
// nobody left who takes them. It has a scratch of its own, since it may run
// while another connection's message is being handled.
func (c *Conn) skipHeld() {
	s := c.socket
	held := s.takeHeld()
	s.holding = false
	if len(held) == 0 {
		return
	}
	c.readFrames(held, new(wsframe.Scratch))
	if c.phase == phaseSocket {
		c.chargeSocket()
	}
}

// feedSocket works off input as WebSocket frames.
func (c *Conn) feedSocket(p []byte) {
	s := c.socket
	s.heardAt = c.w.instantAt(c.w.loop.Now())
	rest := c.readFrames(p, &c.w.frames)
	if c.phase != phaseSocket {
		return
	}
	s.hold(rest, false)
	c.chargeSocket()
}

// readFrames handles the messages in p and returns what is left of it when the
// handler holds. Not holding means that nothing is held.
func (c *Conn) readFrames(p []byte, frames *wsframe.Scratch) (rest []byte) {
	s := c.socket
	for len(p) > 0 && c.phase == phaseSocket && !s.holding {
		if s.reader == nil {
			s.reader = c.w.readers.get()
			s.reader.Limit, s.reader.Whole = s.limit, s.whole
		}
		n, msg, err := s.reader.Feed(p, frames)
		p = p[n:]
		if err != nil {
			c.failSocket(err)
			return nil
		}
		if msg.Complete() {
			c.onMessage(msg)
		}
	}
	if s.reader != nil && s.reader.AtRest() {
		c.dropReader()
	}
	return p
}

func (c *Conn) dropReader() {
	if s := c.socket; s.reader != nil {
		c.w.readers.put(s.reader)
		s.reader = nil
	}
}

// chargeSocket settles what the socket holds with the budget (R46).
func (c *Conn) chargeSocket() {
	s := c.socket
	var held, part, taken int64
	if s.input != nil {
		held, taken = int64(len(s.input.held)), s.input.taken
	}
	if s.reader != nil {
		part = int64(s.reader.HeldBytes())
	}
	now := held + part
	if held > c.w.cfg.Budget.limit/socketShare || now > taken && !c.w.cfg.Budget.Take(now-taken) {
		c.w.stats.OverLimit++
		if c.peer != nil {
			c.peer.socketHandler().Overloaded()
		} else {
			c.closeWith(1013, "")
		}
		return
	}
	if now < taken {
		c.w.cfg.Budget.Give(taken - now)
	}
	switch {
	case now == 0:
		s.input = nil
	case s.input == nil:
		s.input = &unread{taken: now}
	default:
		s.input.taken = now
	}
}

// releaseSocket gives up all input: none counts any more.
func (c *Conn) releaseSocket() {
	s := c.socket
	if s.input != nil {
		c.w.cfg.Budget.Give(s.input.taken)
		s.input = nil
	}
	c.dropReader()
}

// socketHandler returns the handler of a peer that is a WebSocket: Upgrade took
// no other.
func (p *Peer) socketHandler() SocketHandler { return p.handler.(SocketHandler) }

// controlHandler returns the handler as a ControlHandler, nil when it is none or
// the peer is gone.
func (c *Conn) controlHandler() ControlHandler {
	if c.peer == nil {
		return nil
	}
	h, _ := c.peer.handler.(ControlHandler)
	return h
}

func (c *Conn) onMessage(msg wsframe.Message) {
	switch msg.Op {
	case wsframe.OpPing:
		c.pong(msg.Payload)
	case wsframe.OpPong:
		if h := c.controlHandler(); h != nil {
			defer c.contain()
			h.OnPong()
		}
	case wsframe.OpClose:
		c.onPeerClose(msg.Code)
	case wsframe.OpText:
		if c.peer != nil {
			defer c.contain()
			c.peer.socketHandler().OnText(msg.Payload)
		}
	case wsframe.OpBinary:
		if c.peer != nil {
			defer c.contain()
			c.peer.socketHandler().OnBinary(msg.Payload)
		}
	}
}

// pong answers a ping. Pongs go before other frames that wait, in order, so one
// is out at the latest when all is that was owed at its time.
func (c *Conn) pong(payload []byte) {
	if c.peer == nil {
		return
	}
	s := c.socket
	if s.pongs != nil && s.pongs.forget(c.out.TakenBytes()) == pongsOwed {
		return
	}
	c.peer.Urgent(wsframe.AppendPong(nil, payload))
	owed := c.out.OwedBytes()
	if owed == 0 {
		s.pongs = nil
		return
	}
	if s.pongs == nil {
		s.pongs = new(pongs)
	}
	s.pongs.add(c.out.TakenBytes() + owed)
}

// forget drops the pongs that are out and returns how many are not.
func (q *pongs) forget(takenBytes int64) int {
	sent := 0
	for sent < q.count && q.outAt[sent] <= takenBytes {
		sent++
	}
	q.count = copy(q.outAt[:], q.outAt[sent:q.count])
	return q.count
}

func (q *pongs) add(outAt int64) {
	q.outAt[q.count] = outAt
	q.count++
}

// onPeerClose answers a Close with a Close, or ends a handshake that this side
// began.
func (c *Conn) onPeerClose(code int) {
	c.socket.shaken = true
	c.tellPeerClose(code)
	if c.phase == phaseGone {
		return
	}
	if !c.socket.closing {
		c.sendClose(code, "", nil)
	}
	c.closeAfterFlush()
	c.afterWrite()
}

// tellPeerClose tells the handler of the peer's Close frame.
func (c *Conn) tellPeerClose(code int) {
	if h := c.controlHandler(); h != nil {
		defer c.contain()
		h.OnPeerClose(code)
	}
}

// tellFault tells the handler that the peer broke the framing, and returns what
// it has to say before the Close frame.
func (c *Conn) tellFault(err *wsframe.Error) (last []byte) {
	if h := c.controlHandler(); h != nil {
		defer c.contain()
		last = h.OnFault(err)
	}
	return last
}

// failSocket ends a connection that broke the protocol: only this one suffers
// (R333).
func (c *Conn) failSocket(err error) {
	c.w.stats.ProtocolErrors++
	code := 1002
	var last []byte
	var e *wsframe.Error
	if errors.As(err, &e) {
		code = e.CloseCode()
		if last = c.tellFault(e); c.phase == phaseGone {
			return
		}
	}
	c.closeSaying(last, code, "")
}

// closeWith sends a Close frame and closes without waiting for an answer.
func (c *Conn) closeWith(code int, reason string) { c.closeSaying(nil, code, reason) }

// closeSaying is closeWith with a frame before the Close, nil for none.
func (c *Conn) closeSaying(last []byte, code int, reason string) {
	if !c.socket.closing {
		c.sendClose(code, reason, last)
	}
	c.closeAfterFlush()
	c.afterWrite()
}

// sendClose drops what is owed, finishes the frame that is partly written, and
// sends last, unless it is nil, and a Close.
func (c *Conn) sendClose(code int, reason string, last []byte) {
	if p := c.peer; p != nil {
		c.peer = nil
		p.closed()
	}
	c.socket.closing = true
	c.out.DropUnsent()
	c.out.Send(last)
	c.out.Send(wsframe.AppendClose(nil, code, reason))
}
