package fanout

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
)

// fullSocket takes nothing until room is given.
type fullSocket struct {
	room int
	got  bytes.Buffer
}

func (s *fullSocket) Write(p []byte) (int, error) {
	n := min(s.room, len(p))
	s.room -= n
	s.got.Write(p[:n])
	return n, nil
}
func (s *fullSocket) WantWritable()              {}
func (s *fullSocket) UnackedBytes() int          { return 0 }
func (s *fullSocket) CloseWrite()                {}
func (s *fullSocket) Close()                     {}
func (s *fullSocket) Abort()                     {}
func (s *fullSocket) StreamBuffers()             {}
func (s *fullSocket) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }
func (s *fullSocket) LocalAddr() netip.AddrPort  { return netip.AddrPort{} }

// TestR426SmallFrames: half a million small frames for a peer that does not read
// are put together: a handful of segments, not one each, and in order.
func TestR426SmallFrames(t *testing.T) {
	const count = 500_000
	s := &fullSocket{}
	var o Output
	o.Init(s)
	var want bytes.Buffer
	for i := range count {
		f := fmt.Appendf(nil, "[pong %d]", i)
		want.Write(f)
		o.SendUrgent(f)
	}
	if most := want.Len()/ownBytes + 2; len(o.owed.segs) > most {
		t.Errorf("%d segments for %d frames, want at most %d", len(o.owed.segs), count, most)
	}
	held := 0
	for _, g := range o.owed.segs {
		held += cap(g.b.bytes) + 4*cap(g.b.ends)
	}
	if held > 3*want.Len() {
		t.Errorf("%d bytes are held for %d", held, want.Len())
	}
	if o.OwedBytes() != int64(want.Len()) {
		t.Errorf("%d bytes owed, want %d", o.OwedBytes(), want.Len())
	}
	s.room = want.Len()
	for range len(o.owed.segs)/writesAtOnce + 1 {
		o.Flush() // bounded each time (L1)
	}
	if !bytes.Equal(s.got.Bytes(), want.Bytes()) {
		t.Error("the frames did not arrive as they were sent")
	}
	if o.owed != nil || o.OwedBytes() != 0 {
		t.Error("memory was not given back")
	}
}

// TestR426FrameBoundaries: frames that were put together are still cut at their
// ends.
func TestR426FrameBoundaries(t *testing.T) {
	for room := range 30 {
		s := &fullSocket{room: 1}
		var o Output
		o.Init(s)
		for _, f := range []string{"[first]", "[a]", "[bb]", "[ccc]"} {
			o.Send([]byte(f))
		}
		s.room = room
		o.Flush()
		o.SendUrgent([]byte("[urgent]"))
		o.DropUnsent()
		o.Send([]byte("[closing]"))
		s.room = 1000
		o.Flush()
		rest := s.got.Bytes()
		for _, f := range []string{"[first]", "[a]", "[bb]", "[ccc]"} {
			if !bytes.HasPrefix(rest, []byte(f)) {
				break
			}
			rest = rest[len(f):]
		}
		if got := string(rest); got != "[closing]" && got != "[urgent][closing]" {
			t.Errorf("with room for %d after the first octet: %q", room, s.got.Bytes())
		}
	}
}
