package stream

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"testing"
)

// listening returns a ring that has left its boot phase.
func listening(t testing.TB, frames int, size int64) *Ring {
	t.Helper()
	r := NewRing(Bounds{Frames: frames, Bytes: size})
	if err := r.Listening(); err != nil {
		t.Fatal(err)
	}
	return r
}

// publish publishes frames of so many bytes with the numbers from first to
// last.
func publish(t testing.TB, r *Ring, first, last int64, size int) {
	t.Helper()
	for seq := first; seq <= last; seq++ {
		if _, err := r.Publish(seq, 0, make([]byte, size)); err != nil {
			t.Fatalf("publish %d: %v", seq, err)
		}
	}
}

// numbers reads everything from p on.
func numbers(t testing.TB, r *Ring, p Pos, exclude Kinds) (seqs []int64, err error) {
	t.Helper()
	dst := make([]*Frame, 3)
	for {
		n, next, err := r.Fetch(p, dst, exclude)
		if err != nil {
			return seqs, err
		}
		for _, f := range dst[:n] {
			seqs = append(seqs, f.Seq)
		}
		if n == 0 {
			if next != r.Next() {
				t.Fatalf("nothing more at %d, and next is %d", next, r.Next())
			}
			return seqs, nil
		}
		p = next
	}
}

// wantHeld checks what is held: numbers from first to last, and their bytes.
func wantHeld(t testing.TB, r *Ring, rule string, first, last int64, size int64) {
	t.Helper()
	seqs, err := numbers(t, r, r.Oldest(), 0)
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	if int64(len(seqs)) != last-first+1 || len(seqs) > 0 && (seqs[0] != first || seqs[len(seqs)-1] != last) {
		t.Fatalf("%s: held %v, want %d to %d", rule, seqs, first, last)
	}
	if frames, held := r.Held(); frames != len(seqs) || held != int64(len(seqs))*size {
		t.Fatalf("%s: held counts %d frames, %d bytes, want %d, %d", rule, frames, held, len(seqs), int64(len(seqs))*size)
	}
}

func TestBounds(t *testing.T) {
	r := listening(t, 10, 1<<20)
	publish(t, r, 1, 25, 7)
	wantHeld(t, r, "F29 by frames", 16, 25, 7)
	r = listening(t, 1000, 100)
	publish(t, r, 1, 25, 10)
	wantHeld(t, r, "F29 by bytes, case 16", 16, 25, 10)

	r = listening(t, 10, 100)
	publish(t, r, 1, 3, 10)
	publish(t, r, 4, 4, 500)
	wantHeld(t, r, "F29 larger than the bound, case 17", 4, 4, 500)
	publish(t, r, 5, 5, 10)
	wantHeld(t, r, "case 17, next publish", 5, 5, 10)
}

// Cases 13 to 16: the twice rule by frames and by bytes, and its end.
func TestTwiceRule(t *testing.T) {
	for _, c := range []struct {
		rule   string
		frames int
		bytes  int64
	}{{"frames", 10, 1 << 20}, {"bytes", 1000, 100}} {
		r := listening(t, c.frames, c.bytes)
		pin := r.Pin()
		if p, answer := pin.Join(NoCursor); p != 1 || answer != Live {
			t.Fatalf("joined at %d, %d", p, answer)
		}
		other := r.Pin()
		publish(t, r, 1, 20, 10)
		wantHeld(t, r, c.rule+" F31, case 13", 1, 20, 10)
		r.Tick()
		wantHeld(t, r, c.rule+" F31 at a tick", 1, 20, 10)
		publish(t, r, 21, 21, 10)
		wantHeld(t, r, c.rule+" F31, case 14", 2, 21, 10)
		if _, _, err := r.Fetch(1, make([]*Frame, 1), 0); !errors.Is(err, ErrOverrun) {
			t.Errorf("%s F32: %v", c.rule, err)
		}
		if n, _, err := r.Fetch(2, make([]*Frame, 1), 0); n != 1 || err != nil {
			t.Errorf("%s F32 not before: %d, %v", c.rule, n, err)
		}
		other.SetMin(15)
		pin.None()
		r.Tick()
		wantHeld(t, r, c.rule+" F33 tick, case 15", 12, 21, 10)
		pin.SetMin(12)
		publish(t, r, 22, 23, 10)
		wantHeld(t, r, c.rule+" F31 again", 12, 23, 10)
		pin.Close()
		other.SetMin(14)
		publish(t, r, 24, 24, 10)
		wantHeld(t, r, c.rule+" F33 publish, case 15", 14, 24, 10)
		other.Close()
		other.Close()
		publish(t, r, 25, 25, 10)
		wantHeld(t, r, c.rule+" F33 closed", 16, 25, 10)
	}
}

func TestJoin(t *testing.T) {
	f := func(rule string, r *Ring, cursor int64, wantPos Pos, want Answer) {
		t.Helper()
		pin := r.Pin()
		defer pin.Close()
		p, answer := pin.Join(cursor)
		if p != wantPos || answer != want {
			t.Errorf("%s: cursor %d: at %d, answer %d; want %d, %d", rule, cursor, p, answer, wantPos, want)
		}
		if pinned := Pos(pin.min.Load()); want != Future && pinned != p || want == Future && pinned != math.MaxUint64 {
			t.Errorf("%s: cursor %d: pinned at %d, position %d", rule, cursor, pinned, p)
		}
	}
	fresh := listening(t, 4, 1<<20)
	f("F20 fresh", fresh, 0, 1, Live)
	f("F19", fresh, NoCursor, 1, Live)
	f("F23", fresh, 1, 0, Future)
	publish(t, fresh, 1, 3, 1)
	f("F20, E is 0", fresh, 0, 1, Replay)
	f("F21, case 37", fresh, 1, 2, Replay)
	f("F21 live, case 4", fresh, 3, 4, Live)
	f("F23, case 5", fresh, 4, 0, Future)
	f("F23, case 37", fresh, 99, 0, Future)
	f("F23, case 3", fresh, math.MaxInt64, 0, Future)
	publish(t, fresh, 4, 8, 1) // 5 to 8 are held at positions 5 to 8
	f("F20, E is 4", fresh, 0, 5, Outdated)
	f("F21, c = E, case 6", fresh, 4, 5, Replay)
	f("F22, c = E-1, case 6", fresh, 3, 5, Outdated)
	f("F21", fresh, 6, 7, Replay)
	fresh.Skip(1000)
	f("F21 after a raise", fresh, 6, 7, Replay)
	f("F21 the last before a raise", fresh, 8, 9, Replay)
	f("F26 a number without a frame", fresh, 500, 5, Outdated)
	f("F21 L", fresh, 1000, 9, Live)

	crashed := NewRing(Bounds{Frames: 4, Bytes: 1 << 20})
	crashed.Start(100, 0)
	f("F20 empty, E above 0, case 7", crashed, 0, 1, Outdated)
	f("F22, case 8", crashed, 50, 1, Outdated)
	publish(t, crashed, 101, 110, 1)
	f("F22 with boot frames, case 8", crashed, 50, 1, Outdated)
	f("F21 c = E", crashed, 100, 1, Replay)

	clean := NewRing(Bounds{Frames: 4, Bytes: 1 << 20})
	clean.Start(1000, 40)
	publish(t, clean, 1001, 1010, 1)
	f("F27, F42, case 9", clean, 40, 1, Replay)
	f("F27 another cursor", clean, 39, 1, Outdated)
	if err := clean.Listening(); err != nil {
		t.Fatal(err)
	}
	publish(t, clean, 1011, 1014, 1)
	f("F27 nothing is gone yet", clean, 40, 1, Replay)
	publish(t, clean, 1015, 1015, 1)
	f("F27 a boot frame is gone", clean, 40, 3, Outdated)
}

// F41: the formula, publish by publish, and case 19.
func TestBootFrames(t *testing.T) {
	r := NewRing(Bounds{Frames: 3, Bytes: 1 << 20})
	publish(t, r, 1, 6, 1)
	if err := r.Listening(); err != nil {
		t.Fatal(err)
	}
	if err := r.Listening(); !errors.Is(err, ErrListening) {
		t.Errorf("F39 again: %v", err)
	}
	r.Tick()
	wantHeld(t, r, "F41 at listening", 1, 6, 1)
	publish(t, r, 7, 9, 1)
	wantHeld(t, r, "F41 boot + bound", 1, 9, 1)
	publish(t, r, 10, 10, 1)
	wantHeld(t, r, "F41 two go", 3, 10, 1)
	r.Tick()
	wantHeld(t, r, "F41 none at a tick", 3, 10, 1)
	pin := r.Pin()
	pin.SetMin(3)
	publish(t, r, 11, 12, 1)
	wantHeld(t, r, "F41 needed, up to twice the plain part", 3, 12, 1)
	publish(t, r, 13, 13, 1)
	wantHeld(t, r, "F41 past twice", 5, 13, 1)
	pin.None()
	publish(t, r, 14, 14, 1)
	wantHeld(t, r, "F41 plain bounds after the last boot frame", 12, 14, 1)

	r = NewRing(Bounds{Frames: 10, Bytes: 1 << 20})
	publish(t, r, 1, 100_000, 20)
	if err := r.Listening(); err != nil {
		t.Fatal(err)
	}
	publish(t, r, 100_001, 100_010, 20)
	pin = r.Pin()
	if p, answer := pin.Join(0); p != 1 || answer != Replay {
		t.Fatalf("case 19: %d, %d", p, answer)
	}
	wantHeld(t, r, "case 19", 1, 100_010, 20)
}

// F40: a boot past its limit fails, and what was held stays.
func TestBootLimit(t *testing.T) {
	if NewRing(Bounds{}).bootLimit != 1<<30 {
		t.Error("F40: the limit is not 1 GiB")
	}
	r := NewRing(Bounds{Frames: 1, Bytes: 1})
	r.bootLimit = 100
	publish(t, r, 1, 10, 10)
	if _, err := r.Publish(11, 0, []byte{1}); !errors.Is(err, ErrBootFull) {
		t.Errorf("got %v", err)
	}
	wantHeld(t, r, "F40", 1, 10, 10)
}

func TestPublishRefuses(t *testing.T) {
	r := listening(t, 4, 100)
	publish(t, r, 5, 5, 1)
	for _, c := range []struct {
		seq   int64
		kind  uint8
		bytes []byte
		want  error
	}{{5, 0, []byte{1}, ErrNumber}, {4, 0, []byte{1}, ErrNumber}, {6, MaxKinds, []byte{1}, ErrKind}, {6, 0, nil, ErrNoBytes}} {
		if _, err := r.Publish(c.seq, c.kind, c.bytes); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	wantHeld(t, r, "after refusals", 5, 5, 1)
}

// Case 27 and F38: excluded kinds are passed over, also when they are gone.
func TestExclude(t *testing.T) {
	r := listening(t, 6000, 1<<30)
	const commit, account = 0, 3
	exclude := KindsOf(commit)
	pin := r.Pin()
	for seq := int64(1); seq <= 5001; seq++ {
		kind := uint8(commit)
		if seq == 3000 {
			kind = account
		}
		if _, err := r.Publish(seq, kind, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := pin.Join(0)
	if seqs, err := numbers(t, r, p, exclude); err != nil || len(seqs) != 1 || seqs[0] != 3000 {
		t.Errorf("case 27: %v, %v", seqs, err)
	}
	if q, err := r.Seek(p, exclude); q != 3000 || err != nil {
		t.Errorf("seek: %d, %v", q, err)
	}
	q, err := r.Seek(3001, exclude)
	if q != r.Next() || err != nil {
		t.Errorf("F38 seek: %d, %v", q, err)
	}
	pin.SetMin(q)
	publish(t, r, 5002, 30_000, 1)
	if frames, _ := r.Held(); frames != 12_000 {
		t.Errorf("held %d", frames)
	}
	if s, err := r.Seek(q, exclude); s != r.Next() || err != nil {
		t.Errorf("F32: only excluded frames are gone: %d, %v", s, err)
	}
	if _, err := r.Seek(3000, exclude); !errors.Is(err, ErrOverrun) {
		t.Errorf("F32: the account is gone: %v", err)
	}
}

// Case 18 and F37: a thousand stalled loops hold no more than twice the
// bounds, in the count and in the heap.
func TestStalledMemory(t *testing.T) {
	const frames, size = 2048, 1024
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	r := listening(t, frames, frames*size)
	for i := range 1000 {
		r.Pin().Join(NoCursor)
		publish(t, r, int64(i*20+1), int64(i*20+20), size)
		if n, held := r.Held(); n > 2*frames || held > 2*frames*size {
			t.Fatalf("F37: %d frames, %d bytes", n, held)
		}
	}
	if n, held := r.Held(); n != 2*frames || held != 2*frames*size {
		t.Errorf("F31: %d frames, %d bytes", n, held)
	}
	if grown := heap() - before; grown > 2*frames*(size+128)+1<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
	runtime.KeepAlive(r)
}

// F18, F30: every reader gets the same bytes, and reading allocates nothing.
func TestFetchShares(t *testing.T) {
	r := listening(t, 100, 1<<20)
	frame := []byte("frame")
	if _, err := r.Publish(1, 0, frame); err != nil {
		t.Fatal(err)
	}
	dst := make([]*Frame, 64)
	if n, _, _ := r.Fetch(1, dst, 0); n != 1 || &dst[0].Bytes[0] != &frame[0] || !bytes.Equal(frame, []byte("frame")) {
		t.Error("F18: not the published bytes")
	}
	publish(t, r, 2, 80, 10)
	if allocs := testing.AllocsPerRun(100, func() { _, _, _ = r.Fetch(1, dst, 0) }); allocs != 0 {
		t.Errorf("Fetch allocates %v", allocs)
	}
}
