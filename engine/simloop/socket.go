package simloop

import (
	"errors"
	"net/netip"

	"github.com/sluice-relay/sluice/engine/loop"
)

// ErrReset is what writing to a socket fails with that the peer has reset.
var ErrReset = errors.New("simloop: connection reset by peer")

// ErrClosed is what writing to a socket fails with that was closed here.
var ErrClosed = errors.New("simloop: write to a closed socket")

// Unlimited is the room of a kernel that takes everything.
const Unlimited = -1

// Socket is a simulated socket: a kernel with room for so many bytes, and a
// peer that receives what the kernel took at once. It implements
// loop.Transport.
type Socket struct {
	// Forget makes the socket count what it takes and keep none of it.
	Forget bool
	// Written and Writes count bytes and calls.
	Written int64
	Writes  int
	// Short counts the calls of Write that were not taken whole.
	Short int
	// Misuse counts calls that a transport must not get: Write after an error
	// or after closing.
	Misuse int
	// Closed, Aborted and Finished tell how the connection was ended here.
	Closed, Aborted, Finished bool
	// Streams tells that StreamBuffers was called.
	Streams bool

	loop     *Loop
	handler  loop.Handler
	room     int
	unacked  int
	received []byte
	want     bool
	broken   error
	told     bool // OnClose was called
	queued   bool // in loop.pending
}

// NewSocket returns a socket of l whose kernel has room for room bytes, or
// Unlimited. Its events go to h.
func (l *Loop) NewSocket(room int, h loop.Handler) *Socket {
	return &Socket{loop: l, handler: h, room: room}
}

// Room adds n bytes to what the kernel takes; Unlimited lifts the limit, and
// any room after that is counted from nothing.
func (s *Socket) Room(n int) {
	switch {
	case n < 0:
		s.room = Unlimited
	case s.room < 0:
		s.room = n
	default:
		s.room += n
	}
	s.note()
}

// Stall takes away what room is left.
func (s *Socket) Stall() { s.room = 0 }

// Received returns what the peer has received: shared until the next write.
func (s *Socket) Received() []byte { return s.received }

// Ack makes the peer acknowledge n bytes.
func (s *Socket) Ack(n int) { s.unacked = max(s.unacked-n, 0) }

// Reset is the peer's reset: writing fails from now on, and the loop hears of
// it with its next poll.
func (s *Socket) Reset() {
	if s.broken == nil {
		s.broken = ErrReset
		s.note()
	}
}

// Gone tells whether the connection has ended, on either side.
func (s *Socket) Gone() bool { return s.broken != nil }

// Write implements loop.Transport.
func (s *Socket) Write(p []byte) (int, error) {
	s.Writes++
	if s.broken != nil {
		s.Misuse += boolInt(s.broken == ErrClosed || s.told)
		return 0, s.broken
	}
	n := len(p)
	if s.room >= 0 {
		n = min(n, s.room)
		s.room -= n
	}
	s.Short += boolInt(n < len(p))
	s.Written += int64(n)
	if !s.Forget {
		s.unacked += n
		s.received = append(s.received, p[:n]...)
	}
	return n, nil
}

// WantWritable implements loop.Transport.
func (s *Socket) WantWritable() {
	s.want = true
	s.note()
}

// UnackedBytes implements loop.Transport.
func (s *Socket) UnackedBytes() int { return s.unacked }

// CloseWrite implements loop.Transport.
func (s *Socket) CloseWrite() { s.Finished = true }

// Close implements loop.Transport.
func (s *Socket) Close() {
	s.Closed = true
	s.end()
}

// Abort implements loop.Transport.
func (s *Socket) Abort() {
	s.Aborted = true
	s.end()
}

// State names how the connection was ended here: open, fin (half closed), closed
// or reset.
func (s *Socket) State() string {
	switch {
	case s.Aborted:
		return "reset"
	case s.Closed:
		return "closed"
	case s.Finished:
		return "fin"
	}
	return "open"
}

func (s *Socket) end() {
	s.broken = ErrClosed
	s.note()
}

// StreamBuffers implements loop.Transport.
func (s *Socket) StreamBuffers() { s.Streams = true }

// RemoteAddr implements loop.Transport.
func (s *Socket) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }

// LocalAddr implements loop.Transport.
func (s *Socket) LocalAddr() netip.AddrPort { return netip.AddrPort{} }

// note queues the socket if it has an event to deliver.
func (s *Socket) note() {
	event := s.broken != nil && !s.told || s.want && s.room != 0
	if event && !s.queued {
		s.queued = true
		s.loop.pending = append(s.loop.pending, s)
	}
}

// deliver calls the handler.
func (s *Socket) deliver() {
	switch {
	case s.broken != nil:
		if !s.told {
			s.told = true
			s.handler.OnClose(s.closeReason())
		}
	case s.want && s.room != 0:
		s.want = false
		s.handler.OnWritable()
	}
}

// closeReason is nil for an end that came from here.
func (s *Socket) closeReason() error {
	if s.broken == ErrClosed {
		return nil
	}
	return s.broken
}

func boolInt(v bool) int {
	if v {
		return 1
	}
	return 0
}
