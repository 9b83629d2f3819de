package stream

import (
	"math"
	"slices"
	"sync/atomic"
)

// NoCursor stands for the absent cursor: live only (F19).
const NoCursor = -1

// Answer is what a cursor meets (section 4).
type Answer uint8

// The answers. With Future the position is 0 and nothing was registered.
const (
	Live     Answer = iota // F19, or c = L: what is published from now on
	Replay                 // F20, F21: held frames, then live
	Outdated               // F20, F22: told so first, then all held frames, then live
	Future                 // F23: above every number
)

// Pin tells a ring the lowest position that the streams of one loop have yet
// to send. Its methods but Close are for that loop.
type Pin struct {
	ring *Ring

	// Atomic: written by the loop, read at publishing.
	min atomic.Uint64
	_   [40]byte // keeps the pins of two loops off one cache line
}

// Pin registers a loop, which needs nothing yet.
func (r *Ring) Pin() *Pin {
	p := &Pin{ring: r}
	p.None()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pins = append(r.pins, p)
	return p
}

// SetMin says that no stream of the loop needs a frame below pos.
func (p *Pin) SetMin(pos Pos) { p.min.Store(uint64(pos)) }

// None says that no stream of the loop needs any frame.
func (p *Pin) None() { p.min.Store(math.MaxUint64) }

// Close ends the registration. Any goroutine; a second call does nothing.
func (p *Pin) Close() {
	r := p.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pins = slices.DeleteFunc(r.pins, func(q *Pin) bool { return p == q })
}

// Join answers a cursor and gives the position to send from. Choice of the
// position and registration are one step under the ring's lock: the pin covers
// the position when Join returns, so no frame is lost or doubled between
// replay and live (F35). Negative cursors are NoCursor.
//
// A number above E is assigned and held, or was never seen by a consumer of
// this run: a cursor on it is of a run whose numbers were lost.
func (p *Pin) Join(cursor int64) (Pos, Answer) {
	r := p.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	at, answer := r.joinLocked(cursor)
	if answer != Future {
		p.SetMin(min(at, Pos(p.min.Load())))
	}
	return at, answer
}

func (r *Ring) joinLocked(cursor int64) (Pos, Answer) {
	oldest, next := Pos(r.oldest.Load()), Pos(r.next.Load())
	switch {
	case cursor < 0:
		return next, Live
	case cursor > r.last:
		return 0, Future
	case cursor == 0 && r.outdated > 0:
		return oldest, Outdated
	case cursor == r.last:
		return next, Live
	case cursor == 0, cursor == r.outdated:
		return oldest, Replay
	case cursor == r.resume:
		return oldest, Replay
	case cursor < r.outdated:
		return oldest, Outdated
	}
	after, held := r.afterLocked(cursor)
	if !held {
		return oldest, Outdated
	}
	return after, Replay
}
