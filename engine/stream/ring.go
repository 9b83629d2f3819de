package stream

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// MaxKinds is the number of kinds of frames that a ring tells apart.
const MaxKinds = 8

// MaxBootBytes bounds the frames of the boot phase (F40).
const MaxBootBytes = 1 << 30

// Errors of Publish. The ring is unchanged after any of them.
var (
	ErrBootFull  = errors.New("stream: the frames published while booting pass 1 GiB")
	ErrNumber    = errors.New("stream: number is not above the last one")
	ErrKind      = errors.New("stream: kind of frame is out of range")
	ErrNoBytes   = errors.New("stream: frame has no bytes")
	ErrListening = errors.New("stream: the ring is listening already")
)

// Frame is encoded bytes ready for the wire, with its number. Immutable.
type Frame struct {
	Bytes []byte // shared, immutable (S3)
	Seq   int64  // ascending, not dense
	Pos   Pos    // dense
	Kind  uint8  // below MaxKinds
}

// Bounds is how much a ring holds when no stream needs more (F29). Both are
// at least one.
type Bounds struct {
	Frames int
	Bytes  int64
}

// Ring holds one copy of each published frame, bounded by frames and bytes,
// and further, up to twice each bound, while an open stream has yet to send
// the frame (F29 to F31).
//
// Frames have dense positions (S1); oldest <= next. Publishing takes mu.
// Readers never lock, so that publishing waits for no consumer (F36): a frame
// is published by storing next after it, and a frame that goes is announced
// by storing gone and oldest before its slot is emptied.
type Ring struct {
	// Immutable after construction.
	bounds    Bounds
	bootLimit int64

	// Guarded by mu.
	mu        sync.Mutex
	pins      []*Pin
	last      int64 // L: the highest number assigned or skipped
	outdated  int64 // E: the highest number a consumer may have missed
	resume    int64 // L of a clean stop whose cursor is live (F27), or 0
	booting   bool
	bootEnd   Pos   // the boot frames are below it
	bootBytes int64 // held of boot frames

	// Atomic, written under mu.
	next   atomic.Uint64
	oldest atomic.Uint64
	bytes  atomic.Int64
	gone   [MaxKinds]atomic.Uint64 // the last position of a kind that went
	window atomic.Pointer[window]
}

// NewRing returns an empty ring in its boot phase. Bounds below one count as
// one.
func NewRing(b Bounds) *Ring {
	r := &Ring{
		bounds:    Bounds{Frames: max(b.Frames, 1), Bytes: max(b.Bytes, 1)},
		bootLimit: MaxBootBytes,
		booting:   true,
	}
	r.next.Store(1)
	r.oldest.Store(1)
	r.window.Store(&window{})
	return r
}

// Start sets the numbers of this start, before the first frame: every number
// up to last is taken, and a consumer may have missed all of them. A cursor
// equal to resume, if that is not 0, has missed nothing (F27).
func (r *Ring) Start(last, resume int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.outdated, r.resume = last, last, resume
}

// Skip marks the numbers up to last as taken without frames. A cursor on one
// of them but the last is told that it is outdated.
func (r *Ring) Skip(last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, last)
}

// Publish appends a frame and lets go what is past the bounds. The bytes are
// transferred and immutable from here on. Any goroutine; it never waits for a
// reader.
func (r *Ring) Publish(seq int64, kind uint8, frame []byte) (Pos, error) {
	switch {
	case kind >= MaxKinds:
		return 0, fmt.Errorf("%w: %d", ErrKind, kind)
	case len(frame) == 0:
		return 0, ErrNoBytes
	}
	f := &Frame{Bytes: frame, Seq: seq, Kind: kind}
	size := int64(len(frame))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case seq <= r.last:
		return 0, fmt.Errorf("%w: %d after %d", ErrNumber, seq, r.last)
	case r.booting && r.bytes.Load()+size > r.bootLimit:
		return 0, ErrBootFull
	}
	p := Pos(r.next.Load())
	f.Pos = p
	r.putLocked(p, f)
	r.last = seq
	r.bytes.Add(size)
	if r.booting {
		r.bootBytes += size
		r.bootEnd = p + 1
	}
	r.next.Store(uint64(p) + 1)
	if !r.booting {
		r.trimBootLocked()
		r.trimLocked()
	}
	return p, nil
}

// Listening ends the boot phase, once. The frames held stay, and the bounds
// apply on top of them (F41).
func (r *Ring) Listening() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.booting {
		return ErrListening
	}
	r.booting = false
	return nil
}

// Tick lets go the frames past the bounds that no stream needs any more. Its
// owner calls it at least once a second (F33). Boot frames go at publishing
// only (F41).
func (r *Ring) Tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.booting {
		r.trimLocked()
	}
}

// trimBootLocked lets at most two boot frames go when the frames since are
// past the bounds, which is the same as all frames being past (boot frames
// held + bounds) (F41).
func (r *Ring) trimBootLocked() {
	for range 2 {
		if !r.bootHeldLocked() || !r.pastLocked(1) {
			return
		}
		if !r.pastLocked(2) && r.neededLocked() <= Pos(r.oldest.Load()) {
			return
		}
		r.evictLocked()
	}
}

// trimLocked applies the plain bounds once no boot frame is held. The newest
// frame always stays (F29).
func (r *Ring) trimLocked() {
	if r.bootHeldLocked() || !r.pastLocked(1) {
		return
	}
	needed := r.neededLocked()
	for r.next.Load()-r.oldest.Load() > 1 && r.pastLocked(1) {
		if !r.pastLocked(2) && needed <= Pos(r.oldest.Load()) {
			return
		}
		r.evictLocked()
	}
}

func (r *Ring) bootHeldLocked() bool { return Pos(r.oldest.Load()) < r.bootEnd }

// pastLocked reports whether the frames held, boot frames apart, pass so many
// times either bound.
func (r *Ring) pastLocked(times int64) bool {
	first := max(r.oldest.Load(), uint64(r.bootEnd))
	return int64(r.next.Load()-first) > times*int64(r.bounds.Frames) ||
		r.bytes.Load()-r.bootBytes > times*r.bounds.Bytes
}

// neededLocked returns the lowest position that an open stream has yet to
// send, as of each loop's last pass (F31).
func (r *Ring) neededLocked() Pos {
	needed := Pos(math.MaxUint64)
	for _, p := range r.pins {
		needed = min(needed, Pos(p.min.Load()))
	}
	return needed
}

// evictLocked lets the oldest frame go.
func (r *Ring) evictLocked() {
	p := Pos(r.oldest.Load())
	w := r.window.Load()
	s := w.at(p)
	slot := &s.frames[p%segmentFrames]
	f := slot.Load()
	r.gone[f.Kind].Store(uint64(p))
	r.oldest.Store(uint64(p) + 1)
	slot.Store(nil)
	size := int64(len(f.Bytes))
	r.bytes.Add(-size)
	if p < r.bootEnd {
		r.bootBytes -= size
	}
	r.outdated = max(r.outdated, f.Seq)
	r.resume = 0
	if (p+1)%segmentFrames == 0 {
		r.window.Store(&window{first: w.first + 1, segments: w.segments[1:]})
	}
}

// Next returns the position that the next frame will get. Any goroutine.
func (r *Ring) Next() Pos { return Pos(r.next.Load()) }

// Oldest returns the first position held, or Next when nothing is held. Any
// goroutine.
func (r *Ring) Oldest() Pos { return Pos(r.oldest.Load()) }

// Held returns how many frames and bytes of frames are held. Any goroutine.
func (r *Ring) Held() (frames int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.next.Load() - r.oldest.Load()), r.bytes.Load()
}

// Numbers returns the highest number taken and the highest that a consumer
// may have missed: L and E of section 4. Any goroutine.
func (r *Ring) Numbers() (last, outdated int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.outdated
}
