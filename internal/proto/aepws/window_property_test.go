package aepws

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// slowWindow is what a window must do, told plainly: every event has its own
// attempt and its own due moment.
type slowWindow struct {
	plan     *retryPlan
	events   []slowEvent
	last     int64
	now      time.Duration
	letterAt time.Duration
	unmade   uint64
	ended    bool
}

type slowEvent struct {
	number  int64
	id      uint64
	attempt int
	due     time.Duration
}

func (m *slowWindow) dueAfter(attempt int) time.Duration {
	now := (m.now + dueTick - 1) / dueTick * dueTick
	return now + time.Duration(m.plan.delays[attempt])*dueTick
}

func (m *slowWindow) sent(number int64, id uint64, now time.Duration, used int) error {
	switch {
	case m.ended:
		return errWindowEnded
	case number <= m.last:
		return errWindowOrder
	case used == m.plan.unacked:
		return errWindowFull
	}
	m.now = max(m.now, now)
	m.last = number
	m.events = append(m.events, slowEvent{number, id, 1, m.dueAfter(1)})
	return nil
}

func (m *slowWindow) find(id uint64, number int64) int {
	return slices.IndexFunc(m.events, func(e slowEvent) bool {
		return e.id == id && (number == 0 || number == e.number)
	})
}

func (m *slowWindow) remove(i int) bool {
	if i < 0 {
		return false
	}
	m.events = slices.Delete(m.events, i, i+1)
	return true
}

func (m *slowWindow) dead(e slowEvent) overdue {
	sent := e.due - time.Duration(m.plan.delays[e.attempt])*dueTick
	return overdue{number: e.number, dead: true, attempt: e.attempt, sentAt: min(sent, m.now)}
}

func (m *slowWindow) letter() bool {
	if m.now >= m.letterAt {
		m.letterAt = m.now + time.Second
		return true
	}
	m.unmade++
	return false
}

func (m *slowWindow) reject(id uint64, number int64, now time.Duration) (o overdue, found, made bool) {
	m.now = max(m.now, now)
	i := m.find(id, number)
	if i < 0 {
		return overdue{}, false, false
	}
	o = m.dead(m.events[i])
	m.remove(i)
	return o, true, m.letter()
}

// due takes the overdue ones by their numbers, as many as there is room for.
func (m *slowWindow) due(now time.Duration, room int) []overdue {
	m.now = max(m.now, now)
	var list []overdue
	for i := 0; i < len(m.events) && len(list) < room; {
		e := &m.events[i]
		switch {
		case e.due > m.now:
			i++
		case e.attempt == m.plan.attempts:
			o := m.dead(*e)
			m.remove(i)
			if m.letter() {
				list = append(list, o)
			}
		default:
			e.attempt++
			e.due = m.dueAfter(e.attempt)
			list = append(list, overdue{number: e.number, attempt: e.attempt, sentAt: m.now})
			i++
		}
	}
	return list
}

func (m *slowWindow) next() (at time.Duration, ok bool) {
	for _, e := range m.events {
		if !ok || e.due < at {
			at, ok = e.due, true
		}
	}
	return at, ok
}

// checkWindows holds the windows of a budget to W1 and W2: their lists and the
// free list have each slot once, and the table each slot of a window.
func checkWindows(t testing.TB, seed any, b *budget, windows ...*window) {
	t.Helper()
	seen := make(map[uint16]bool, len(b.slots))
	visit := func(slot uint16) {
		if seen[slot] || slot == 0 || int(slot) > len(b.slots) {
			t.Fatalf("seed %v: slot %d is in two lists, or there is none", seed, slot)
		}
		seen[slot] = true
	}
	used := 0
	for _, w := range windows {
		count, started := 0, 0
		attempt, tail := maxAttempts+1, uint16(0)
		var before unacked
		for slot := w.head; slot != 0; slot = b.at(slot).next {
			visit(slot)
			e := *b.at(slot)
			n := 1 + slices.Index(w.starts[:], slot)
			switch {
			case n > 0 && n < attempt:
				attempt = n
				started++
			case n > 0 || count == 0 || e.due < before.due:
				t.Fatalf("seed %v: W1: %+v before %+v, attempts %d before %d", seed, before, e, attempt, n)
			}
			if e.number <= before.number || e.prev != tail || w.attempt(slot) != attempt || b.find(e.key, e.number) != slot {
				t.Fatalf("seed %v: W1: %+v before %+v, sent %d times", seed, before, e, attempt)
			}
			before, tail = e, slot
			count++
		}
		for _, slot := range w.starts {
			if slot != 0 {
				started--
			}
		}
		if count != w.count || tail != w.tail || started != 0 {
			t.Fatalf("seed %v: %d in the list, %+v", seed, count, *w)
		}
		used += count
	}
	for slot := b.free; slot != 0; slot = b.at(slot).next {
		visit(slot)
	}
	filed := 0
	for _, slot := range b.table {
		if slot != 0 {
			filed++
		}
	}
	if used != b.used || used != filed || used > b.plan.unacked || cap(b.slots) > b.plan.unacked ||
		len(seen) != len(b.slots) || len(b.table) > max(32, 4*cap(b.slots)) {
		t.Fatalf("seed %v: W2: %d used, budget says %d of %d, %d slots, %d in lists, %d in the table of %d",
			seed, used, b.used, b.plan.unacked, len(b.slots), len(seen), filed, len(b.table))
	}
}

// windowTrial runs the same operations on the windows of a session and on their
// models.
type windowTrial struct {
	t       testing.TB
	seed    any
	pick    func(n int) int
	b       *budget
	windows [3]*window
	models  [3]*slowWindow
	now     time.Duration

	again, letters int // how much the trial has seen
}

func newWindowTrial(t testing.TB, seed any, pick func(n int) int) *windowTrial {
	plan := newPlan(t, retryPolicy{
		ackTimeout: time.Duration(1+pick(20)) * 40 * time.Millisecond,
		backoff:    time.Duration(pick(20)) * 30 * time.Millisecond,
		multiplier: []float64{1, 1.5, 2, 10}[pick(4)],
		maxBackoff: time.Duration(pick(3)) * time.Second,
		attempts:   1 + pick(maxAttempts),
		unacked:    1 + pick(40),
	})
	tr := &windowTrial{t: t, seed: seed, pick: pick, b: newBudget(plan)}
	for i := range tr.windows {
		tr.renew(i)
	}
	return tr
}

func (tr *windowTrial) renew(i int) {
	tr.windows[i], tr.models[i] = newWindow(tr.b), &slowWindow{plan: tr.b.plan}
}

// same compares two answers of window i.
func same[T comparable](tr *windowTrial, i int, what string, got, want T) {
	tr.t.Helper()
	if got != want {
		tr.t.Fatalf("seed %v: window %d: %s: got %v, want %v", tr.seed, i, what, got, want)
	}
}

// step runs one operation.
func (tr *windowTrial) step() {
	i := tr.pick(len(tr.windows))
	w, m := tr.windows[i], tr.models[i]
	tr.now += []time.Duration{0, 7 * time.Millisecond, 60 * time.Millisecond, 400 * time.Millisecond}[tr.pick(4)]
	now := tr.now
	if tr.pick(8) == 0 {
		now -= time.Second // which counts as standing still
	}
	switch op := tr.pick(20); {
	case op < 8:
		number, id, used := m.last+int64(tr.pick(4)), uint64(tr.pick(12)), 0
		for _, m := range tr.models {
			used += len(m.events)
		}
		same(tr, i, "sent", w.sent(number, id, now), m.sent(number, id, now, used))
	case op < 12:
		id, number := tr.aim(m)
		same(tr, i, "ack", w.ack(id, number), m.remove(m.find(id, number)))
	case op == 12:
		id, number := tr.aim(m)
		o, found, made := w.reject(id, number, now)
		wantO, wantFound, wantMade := m.reject(id, number, now)
		same(tr, i, "rejected", o, wantO)
		same(tr, i, "reject found", found, wantFound)
		same(tr, i, "reject made", made, wantMade)
	case op < 19:
		tr.due(i, now)
	case tr.pick(8) == 0:
		w.end()
		m.events, m.ended = nil, true
		if tr.pick(2) == 0 {
			tr.renew(i)
		}
	default:
		tr.b.trim()
	}
	at, ok := tr.windows[i].next()
	wantAt, wantOK := tr.models[i].next()
	same(tr, i, "next", at, wantAt)
	same(tr, i, "next ever", ok, wantOK)
	same(tr, i, "unmade", tr.windows[i].unmade, tr.models[i].unmade)
	checkWindows(tr.t, tr.seed, tr.b, tr.windows[:]...)
}

// aim names an event: mostly one that is there.
func (tr *windowTrial) aim(m *slowWindow) (id uint64, number int64) {
	id, number = uint64(tr.pick(12)), m.last-int64(tr.pick(6))
	if len(m.events) > 0 && tr.pick(4) > 0 {
		e := m.events[tr.pick(len(m.events))]
		id, number = e.id, e.number
	}
	if tr.pick(2) == 0 {
		number = 0
	}
	return id, number
}

func (tr *windowTrial) due(i int, now time.Duration) {
	room := 1 + tr.pick(6)
	got := tr.windows[i].due(now, make([]overdue, 0, room))
	want := tr.models[i].due(now, room)
	if !slices.Equal(got, want) {
		tr.t.Fatalf("seed %v: window %d: due: got %+v, want %+v", tr.seed, i, got, want)
	}
	for _, o := range got {
		if o.dead {
			tr.letters++
		} else {
			tr.again++
		}
	}
}

// TestWindowProperty: any order of operations on the windows of one session
// gives what the model gives, and W1 and W2 hold after each.
func TestWindowProperty(t *testing.T) {
	var again, letters int
	seeds(400, func(seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		tr := newWindowTrial(t, seed, rnd.IntN)
		for range 400 {
			tr.step()
		}
		again, letters = again+tr.again, letters+tr.letters
	})
	if *seedFlag == 0 && (again < 5000 || letters < 1000) {
		t.Errorf("only %d redeliveries and %d dead letters seen", again, letters)
	}
}

// FuzzWindow plays the picks of the input.
func FuzzWindow(f *testing.F) {
	for seed := range uint64(8) {
		data := make([]byte, 500)
		rnd := rand.New(rand.NewPCG(seed, 6))
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		rest := data
		tr := newWindowTrial(t, "fuzz", func(n int) int {
			if len(rest) == 0 {
				return 0
			}
			b := int(rest[0])
			rest = rest[1:]
			return b % n
		})
		for len(rest) > 0 {
			tr.step()
		}
	})
}

// TestUnackedSize: the bound of B60 in bytes, and no pointers in a slot.
func TestUnackedSize(t *testing.T) {
	if size := unsafe.Sizeof(unacked{}); size != 24 {
		t.Errorf("an unacknowledged event takes %d bytes", size)
	}
}
