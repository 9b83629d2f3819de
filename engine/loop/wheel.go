package loop

import (
	"math/bits"
	"time"
)

const (
	wheelSlots = 512
	// WheelTick is the resolution of timers.
	WheelTick = 50 * time.Millisecond
)

// Timer is one deadline on a loop's wheel. It is embedded in what it belongs
// to; the zero value with Fire set is ready. Owned by the loop.
type Timer struct {
	// Fire is called on the loop when the timer is due. It may schedule the
	// timer again.
	Fire func()

	when       int64 // tick
	slot       int32 // index + 1, 0 when not scheduled, slotDue about to fire
	prev, next *Timer
}

// Scheduled tells whether the timer is waiting.
func (t *Timer) Scheduled() bool { return t.slot > 0 }

// Wheel holds timers in slots of WheelTick. Scheduling and cancelling are
// constant time; a timer further away than one turn of the wheel stays in its
// slot for more rounds. Timers fire late by at most one tick, never early.
type Wheel struct {
	start time.Time
	at    int64 // tick up to which timers have fired
	slots [wheelSlots]*Timer
	used  [wheelSlots / 64]uint64
	count int
	due   []*Timer // scratch of fireSlot
}

func (w *Wheel) init(now time.Time) { w.start = now }

// tick returns the first tick that is not before t.
func (w *Wheel) tick(t time.Time) int64 {
	return int64((t.Sub(w.start) + WheelTick - 1) / WheelTick)
}

// Schedule sets t to fire at when, or at once if that is past.
func (w *Wheel) Schedule(t *Timer, when time.Time) {
	w.Cancel(t)
	t.when = max(w.tick(when), w.at+1)
	s := int(t.when % wheelSlots)
	t.slot = int32(s + 1)
	t.prev, t.next = nil, w.slots[s]
	if t.next != nil {
		t.next.prev = t
	}
	w.slots[s] = t
	w.used[s/64] |= 1 << (s % 64)
	w.count++
}

// Cancel stops t. A timer that is not scheduled is left alone.
func (w *Wheel) Cancel(t *Timer) {
	if t.slot <= 0 {
		t.slot = 0
		return
	}
	s := int(t.slot - 1)
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		w.slots[s] = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	if w.slots[s] == nil {
		w.used[s/64] &^= 1 << (s % 64)
	}
	t.prev, t.next, t.slot = nil, nil, 0
	w.count--
}

// Next returns when the next slot in use comes up, the zero time when there is
// none. A timer that needs more rounds makes this early, never late.
func (w *Wheel) Next() time.Time {
	if w.count == 0 {
		return time.Time{}
	}
	from := int((w.at + 1) % wheelSlots)
	for i := 0; i <= len(w.used); i++ {
		word := (from/64 + i) % len(w.used)
		b := w.used[word]
		if i == 0 {
			b &= ^uint64(0) << (from % 64)
		}
		if i == len(w.used) {
			b &= 1<<(from%64) - 1
		}
		if b != 0 {
			s := word*64 + bits.TrailingZeros64(b)
			ahead := int64((s - from + wheelSlots) % wheelSlots)
			return w.start.Add(time.Duration(w.at+1+ahead) * WheelTick)
		}
	}
	return time.Time{}
}

// Advance fires what is due at now through run.
func (w *Wheel) Advance(now time.Time, run func(func())) {
	to := int64(now.Sub(w.start) / WheelTick)
	if to-w.at > wheelSlots {
		// The clock jumped by more than a round: each slot is looked at once.
		w.fireAll(to, run)
		return
	}
	for w.at < to {
		w.at++
		if s := int(w.at % wheelSlots); w.slots[s] != nil {
			w.fireSlot(s, w.at, run)
		}
	}
}

func (w *Wheel) fireAll(to int64, run func(func())) {
	w.at = to
	for s := range w.slots {
		w.fireSlot(s, to, run)
	}
}

// slotDue marks a timer that was taken out of its slot and is about to fire.
const slotDue = -1

// fireSlot fires the timers of slot s that are due at tick to. Due timers are
// unlinked first: what they schedule does not fire in the same call, and one
// that a neighbour cancels or moves does not fire at all.
func (w *Wheel) fireSlot(s int, to int64, run func(func())) {
	due := w.due[:0]
	for t := w.slots[s]; t != nil; {
		next := t.next
		if t.when <= to {
			w.Cancel(t)
			t.slot = slotDue
			due = append(due, t)
		}
		t = next
	}
	w.due = nil // a nested call must not reuse it
	for i, t := range due {
		due[i] = nil
		if t.slot == slotDue {
			t.slot = 0
			run(t.Fire)
		}
	}
	w.due = due[:0]
}
