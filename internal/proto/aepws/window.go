package aepws

import (
	"errors"
	"time"
)

// Errors of sent. Nothing has changed then.
var (
	errWindowFull  = errors.New("too many unacknowledged events")
	errWindowOrder = errors.New("number does not come after the last one sent")
	errWindowEnded = errors.New("subscription has ended")
)

// window is what one at_least_once or replayable subscription was sent and has
// not acknowledged (B57, B58, B60): a list in the budget's slots, ascending by
// number. An event goes through as many attempts as the plan has, each with the
// same delay for all events, so those of the same attempt are neighbours, the
// ones with more attempts before them (W1), and the first of each attempt is due
// first: one look at each attempt says what is next.
//
// Every operation on one event takes constant time. Moments are durations since
// the relay's start, or any moment after it; time that runs backwards counts as
// standing still. Owned by the loop.
type window struct {
	budget *budget // immutable
	salt   uint64  // immutable

	head, tail uint16              // slots + 1; 0: empty
	starts     [maxAttempts]uint16 // the first of those sent i+1 times; 0: none
	count      int
	last       int64         // highest number sent
	now        time.Duration // the latest moment seen
	letterAt   time.Duration // the next dead letter may be made from here on
	unmade     uint64        // dead letters that were not made (B58)
	ended      bool
}

// newWindow returns the empty window of a subscription of the budget's session.
func newWindow(b *budget) *window {
	b.windows++
	return &window{budget: b, salt: b.windows * 0x9e3779b97f4a7c15}
}

// key returns what an event is found by: the windows of a session share a
// table, and the same event may be in several.
func (w *window) key(id uint64) uint64 { return id ^ w.salt }

// overdue is what has to follow an event that was not acknowledged.
type overdue struct {
	number int64
	// dead tells that event.dead_lettered follows, after attempt sendings. Else
	// event.redelivered follows, and the event with this attempt.
	dead    bool
	attempt int
	sentAt  time.Duration // of the last sending, up to dueTick late
}

// sent notes that the event with a number and the hash of its id has been given
// to the connection at now. Numbers ascend from 1. Ids are the publishers', so
// the hash has to be seeded. errWindowFull tells that delivery has to pause
// until one is acknowledged.
func (w *window) sent(number int64, id uint64, now time.Duration) error {
	switch {
	case w.ended:
		return errWindowEnded
	case number <= w.last:
		return errWindowOrder
	case w.budget.full():
		return errWindowFull
	}
	w.now = max(w.now, now)
	slot := w.budget.take(unacked{number: number, key: w.key(id), due: w.dueAfter(1), prev: w.tail})
	if w.tail == 0 {
		w.head = slot
	} else {
		w.budget.at(w.tail).next = slot
	}
	if w.starts[0] == 0 {
		w.starts[0] = slot
	}
	w.tail, w.last = slot, number
	w.count++
	return nil
}

// ack takes an acknowledgement of the event whose id has this hash: the one with
// that number, or with number 0 the oldest. It tells whether there was one; late,
// double and unknown ones change nothing (B59). An event that must not be sent
// again because it has expired (B61) is acknowledged by the caller.
func (w *window) ack(id uint64, number int64) bool {
	slot := w.find(id, number)
	if slot == 0 {
		return false
	}
	w.remove(slot)
	return true
}

// reject takes event.rejected of the subscriber, which is final at once (B58);
// the event is found as by ack. made tells that o is to become a dead letter;
// otherwise it is only counted.
func (w *window) reject(id uint64, number int64, now time.Duration) (o overdue, found, made bool) {
	w.now = max(w.now, now)
	slot := w.find(id, number)
	if slot == 0 {
		return overdue{}, false, false
	}
	o = w.deadLetter(slot)
	w.remove(slot)
	return o, true, w.letter()
}

// due appends to list what is overdue at now, ascending by number, as far as its
// capacity goes; what does not fit is due at once. The events in it count as
// sent again, so it is called only when they can be. At most one dead letter a
// second is in the lists, the others are counted in unmade.
func (w *window) due(now time.Duration, list []overdue) []overdue {
	w.now = max(w.now, now)
	tick := uint32(w.now / dueTick)
	for n := w.budget.plan.attempts; n >= 1; n-- {
		for slot := w.starts[n-1]; slot != 0 && w.budget.at(slot).due <= tick; slot = w.starts[n-1] {
			if len(list) == cap(list) {
				return list
			}
			if n < w.budget.plan.attempts {
				list = append(list, w.again(slot, n+1))
				continue
			}
			o := w.deadLetter(slot)
			w.remove(slot)
			if w.letter() {
				list = append(list, o)
			}
		}
	}
	return list
}

// next returns when due has something to give, and whether it ever will.
func (w *window) next() (at time.Duration, ok bool) {
	for _, slot := range w.starts[:w.budget.plan.attempts] {
		if slot == 0 {
			continue
		}
		if due := time.Duration(w.budget.at(slot).due) * dueTick; !ok || due < at {
			at, ok = due, true
		}
	}
	return at, ok
}

// end forgets all; nothing more is sent, due or acknowledged. It takes time for
// each event that is unacknowledged: about 20 us for 1,000.
func (w *window) end() {
	for slot := w.head; slot != 0; {
		next := w.budget.at(slot).next
		w.budget.put(slot)
		slot = next
	}
	w.head, w.tail, w.count, w.ended = 0, 0, 0, true
	w.starts = [maxAttempts]uint16{}
}

// find returns the slot of an event; 0 is none.
func (w *window) find(id uint64, number int64) uint16 {
	if w.count == 0 {
		return 0
	}
	return w.budget.find(w.key(id), number)
}

// again makes the first event of its attempt the last of the next attempt, n; in
// the list it is that already (W1).
func (w *window) again(slot uint16, n int) overdue {
	w.unstart(slot)
	e := w.budget.at(slot)
	e.due = w.dueAfter(n)
	if w.starts[n-1] == 0 {
		w.starts[n-1] = slot
	}
	return overdue{number: e.number, attempt: n, sentAt: w.now}
}

// remove takes a slot out of the list.
func (w *window) remove(slot uint16) {
	w.unstart(slot)
	e := w.budget.at(slot)
	if e.prev == 0 {
		w.head = e.next
	} else {
		w.budget.at(e.prev).next = e.next
	}
	if e.next == 0 {
		w.tail = e.prev
	} else {
		w.budget.at(e.next).prev = e.prev
	}
	w.count--
	w.budget.put(slot)
}

// unstart lets the next event of the same attempt be the first of them, if slot
// is that. The next in the list is of another attempt if it is the first there.
func (w *window) unstart(slot uint16) {
	next, first := w.budget.at(slot).next, -1
	for i, start := range w.starts[:w.budget.plan.attempts] {
		switch start {
		case 0:
		case slot:
			first = i
		case next:
			next = 0
		}
	}
	if first >= 0 {
		w.starts[first] = next
	}
}

// attempt returns how often an event was sent: it is in the part of the list
// that begins with the highest number up to its own.
func (w *window) attempt(slot uint16) int {
	number, from, n := w.budget.at(slot).number, int64(0), 0
	for i, start := range w.starts[:w.budget.plan.attempts] {
		if start == 0 {
			continue
		}
		if begin := w.budget.at(start).number; begin <= number && begin > from {
			from, n = begin, i+1
		}
	}
	return n
}

// dueAfter returns when the n-th sending is overdue if it is now.
func (w *window) dueAfter(n int) uint32 {
	return ticksUp(w.now) + w.budget.plan.delays[n]
}

// deadLetter returns the end of an event.
func (w *window) deadLetter(slot uint16) overdue {
	e, n := w.budget.at(slot), w.attempt(slot)
	sent := time.Duration(e.due-w.budget.plan.delays[n]) * dueTick
	return overdue{number: e.number, dead: true, attempt: n, sentAt: min(sent, w.now)}
}

// letter tells whether a dead letter may be made now (B58), and counts the
// others.
func (w *window) letter() bool {
	if w.now < w.letterAt {
		w.unmade++
		return false
	}
	w.letterAt = w.now + letterEvery
	return true
}
