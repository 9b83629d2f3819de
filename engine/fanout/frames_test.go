package fanout

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// framesOf returns frames of the given sizes, each of its own letter, and all of
// them joined.
func framesOf(sizes ...int) (batch []byte, frames [][]byte) {
	for i, n := range sizes {
		frames = append(frames, bytes.Repeat([]byte{'a' + byte(i)}, n))
	}
	return bytes.Join(frames, nil), frames
}

// The frames that the kernel took, and one more, are accepted; the rest of that
// one is owed, and nothing else.
func TestSendFrames(t *testing.T) {
	f := func(room, accepted int, owed int64) {
		t.Helper()
		s := &fullSocket{room: room}
		var o Output
		o.Init(s)
		batch, frames := framesOf(3, 1, 5)
		if got := o.SendFrames(batch, frames); got != accepted || o.OwedBytes() != owed {
			t.Fatalf("room %d: %d accepted and %d owed, want %d and %d", room, got, o.OwedBytes(), accepted, owed)
		}
		if o.TakenBytes() != int64(min(room, len(batch))) {
			t.Errorf("room %d: %d bytes taken", room, o.TakenBytes())
		}
		if owed > 0 {
			if got := o.SendFrames(batch, frames); got != 0 {
				t.Errorf("room %d: %d were accepted while bytes are owed", room, got)
			}
		}
		clear(batch) // it was borrowed
		s.room = 100
		if !o.Flush() || o.OwedBytes() != 0 {
			t.Errorf("room %d: %d bytes are left", room, o.OwedBytes())
		}
		if want := bytes.Join(frames[:accepted], nil); !bytes.Equal(s.got.Bytes(), want) {
			t.Errorf("room %d: %q came, want %q", room, s.got.Bytes(), want)
		}
	}
	f(0, 1, 3)
	f(1, 1, 2)
	f(2, 1, 1)
	f(3, 2, 1)
	f(4, 3, 5)
	f(5, 3, 4)
	f(8, 3, 1)
	f(9, 3, 0)
	f(20, 3, 0)
}

// What is urgent follows the frame that is half written, and goes before one of
// which nothing was taken.
func TestSendFramesUrgent(t *testing.T) {
	for room, want := range map[int]string{0: "!aaab", 1: "aaa!b", 2: "aaa!b", 3: "aaa!b", 4: "aaab!"} {
		s := &fullSocket{room: room}
		var o Output
		o.Init(s)
		batch, frames := framesOf(3, 1)
		accepted := o.SendFrames(batch, frames)
		o.SendUrgent([]byte("!"))
		s.room = 100
		o.Flush()
		if accepted < len(frames) {
			o.SendFrames(frames[accepted], frames[accepted:])
		}
		if got := s.got.String(); got != want {
			t.Errorf("room %d: %q, want %q", room, got, want)
		}
	}
}

// A send of nothing does nothing, and one to a dead output is swallowed whole.
func TestSendFramesEdges(t *testing.T) {
	s := &fullSocket{room: 10}
	var o Output
	o.Init(s)
	if n := o.SendFrames(nil, nil); n != 0 || s.got.Len() != 0 {
		t.Errorf("%d of no frames were accepted", n)
	}
	broken := &brokenSocket{}
	o = Output{}
	o.Init(broken)
	batch, frames := framesOf(3, 4)
	for range 2 {
		if n := o.SendFrames(batch, frames); n != 2 || !o.Dead() || o.OwedBytes() != 0 {
			t.Errorf("%d accepted, dead %v, %d owed", n, o.Dead(), o.OwedBytes())
		}
	}
	if broken.writes != 1 {
		t.Errorf("%d writes to a socket that failed", broken.writes)
	}
}

type brokenSocket struct {
	fullSocket
	writes int
}

func (s *brokenSocket) Write([]byte) (int, error) {
	s.writes++
	return 0, errors.New("reset")
}

// Whatever room there is, repeated sends give all frames in order.
func TestSendFramesAnyRoom(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sizes := make([]int, 1+rnd.IntN(20))
		for i := range sizes {
			sizes[i] = 1 + rnd.IntN(50)
		}
		batch, frames := framesOf(sizes...)
		s := &fullSocket{}
		var o Output
		o.Init(s)
		sent, start := 0, 0
		for steps := 0; sent < len(frames) || o.OwedBytes() > 0; steps++ {
			if steps > 10_000 {
				t.Fatalf("seed %d: no end", seed)
			}
			s.room = rnd.IntN(60)
			if !o.Flush() {
				continue
			}
			n := o.SendFrames(batch[start:], frames[sent:])
			for _, f := range frames[sent : sent+n] {
				start += len(f)
			}
			sent += n
			if owed := o.OwedBytes(); n > 0 && owed > int64(len(frames[sent-1])) {
				t.Fatalf("seed %d: %d bytes are owed", seed, owed)
			}
		}
		if !bytes.Equal(s.got.Bytes(), batch) {
			t.Fatalf("seed %d: %q, want %q", seed, s.got.Bytes(), batch)
		}
	}
}

// A send that the kernel takes whole allocates nothing.
func TestSendFramesAllocates(t *testing.T) {
	s := &countingSocket{}
	var o Output
	o.Init(s)
	batch, frames := framesOf(100, 200, 300)
	if n := testing.AllocsPerRun(100, func() { o.SendFrames(batch, frames) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type countingSocket struct{ bytes int64 }

func (s *countingSocket) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	return len(p), nil
}
func (s *countingSocket) WantWritable() {}
