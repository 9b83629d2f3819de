package serve

import (
	"testing"
	"unsafe"
)

// TestSizes pins what a connection costs at rest (C7). The bounds are size
// classes of the allocator: one byte more costs the step to the next.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, most uintptr
	}{
		{"Conn", unsafe.Sizeof(Conn{}), 208},
		{"Peer, its member included", unsafe.Sizeof(Peer{}), 192},
		{"socket", unsafe.Sizeof(socket{}), 48},
	} {
		if c.got > c.most {
			t.Errorf("%s has %d bytes, at most %d", c.name, c.got, c.most)
		}
	}
}

// TestRestHoldsNothing: after a request, and between the messages of a socket, a
// connection has given back all that it used (C7).
func TestRestHoldsNothing(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	if c := s.conn(); c.parser != nil || c.x != nil || c.held != nil || c.owes != nil {
		t.Errorf("after the upgrade: parser %v, exchange %v, held %v, progress %v", c.parser, c.x, c.held, c.owes)
	}
	frame := textFrame("message") + pingFrame("ping")
	for i := range frame { // cut at every byte, with the rest behind it
		s.send(frame[:i])
		s.send(frame[i:])
		if k := s.conn().socket; k.reader != nil || k.input != nil || k.pongs != nil {
			t.Fatalf("cut at %d: reader %v, input %v, pongs %v", i, k.reader, k.input, k.pongs)
		}
	}
	p.peer.Hold()
	s.send(frame)
	if s.conn().socket.input == nil {
		t.Error("nothing is held")
	}
	p.peer.Release()
	if k := s.conn().socket; k.reader != nil || k.input != nil {
		t.Errorf("after Release: reader %v, input %v", k.reader, k.input)
	}
	if n := r.worker.cfg.Budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes of the budget are taken", n)
	}
}
