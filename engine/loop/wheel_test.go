package loop

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var wheelStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWheel() *Wheel {
	w := &Wheel{}
	w.init(wheelStart)
	return w
}

func call(f func()) { f() }

// TestWheelFiresInTime: a timer never fires early, and late by at most one
// tick, however far away it is and however coarsely the wheel is advanced.
func TestWheelFiresInTime(t *testing.T) {
	for _, after := range []time.Duration{
		0, 1, WheelTick - 1, WheelTick, WheelTick + 1, 90 * time.Second,
		wheelSlots * WheelTick, wheelSlots*WheelTick + 1, 3 * wheelSlots * WheelTick, 24 * time.Hour,
	} {
		for _, step := range []time.Duration{time.Millisecond * 7, WheelTick, 11 * WheelTick, time.Hour} {
			w := newWheel()
			now := wheelStart
			fired := time.Time{}
			w.Schedule(&Timer{Fire: func() { fired = now }}, wheelStart.Add(after))
			if step < WheelTick && after > time.Minute {
				step = WheelTick
			}
			for fired.IsZero() && now.Sub(wheelStart) < 50*time.Hour {
				now = now.Add(step)
				w.Advance(now, call)
			}
			late := fired.Sub(wheelStart) - after
			if fired.IsZero() || late < 0 || late > WheelTick+step {
				t.Errorf("due after %v, advanced by %v: fired %v late", after, step, late)
			}
		}
	}
}

// TestWheelNeighbours: timers of one slot may cancel and move each other from
// inside Fire.
func TestWheelNeighbours(t *testing.T) {
	w := newWheel()
	var fired []string
	due := wheelStart.Add(WheelTick)
	timers := map[string]*Timer{}
	for _, name := range []string{"cancels", "cancelled", "moves", "moved", "again", "last"} {
		timers[name] = &Timer{Fire: func() { fired = append(fired, name) }}
	}
	act := func(name string, f func()) {
		note := timers[name].Fire
		timers[name].Fire = func() { note(); f() }
	}
	act("cancels", func() { w.Cancel(timers["cancelled"]) })
	act("moves", func() { w.Schedule(timers["moved"], due.Add(WheelTick)) })
	act("again", func() { w.Schedule(timers["again"], due.Add(2*WheelTick)) })
	// The last one scheduled fires first.
	for _, name := range []string{"last", "again", "moved", "moves", "cancelled", "cancels"} {
		w.Schedule(timers[name], due)
	}
	f := func(after time.Duration, want ...string) {
		t.Helper()
		fired = nil
		w.Advance(wheelStart.Add(after), call)
		if !slices.Equal(fired, want) {
			t.Errorf("after %v: fired %v, want %v", after, fired, want)
		}
	}
	f(WheelTick, "cancels", "moves", "again", "last")
	f(2*WheelTick, "moved")
	f(3*WheelTick, "again")
	if timers["cancelled"].Scheduled() || timers["last"].Scheduled() {
		t.Error("a timer that was cancelled or has fired is scheduled")
	}
	if !timers["again"].Scheduled() {
		t.Error("a timer that scheduled itself is not scheduled")
	}
}

// TestWheelJump: after the clock has jumped by hours everything that is due
// fires at once, each timer once, and what is not due does not.
func TestWheelJump(t *testing.T) {
	w := newWheel()
	now := wheelStart.Add(10 * time.Hour)
	early := 0
	fired := make([]int, 2000)
	for i := range fired {
		w.Schedule(&Timer{Fire: func() { fired[i]++ }}, wheelStart.Add(time.Duration(i)*17*time.Second))
	}
	w.Schedule(&Timer{Fire: func() { early++ }}, now.Add(time.Second))
	w.Advance(now, call)
	for i, n := range fired {
		if n != 1 {
			t.Fatalf("timer %d fired %d times", i, n)
		}
	}
	if early != 0 {
		t.Error("a timer fired early")
	}
	w.Advance(now.Add(time.Second), call)
	if early != 1 {
		t.Error("a timer was lost in the jump")
	}
	w.Advance(now, call) // a clock that goes back is ignored
	if next := w.Next(); !next.IsZero() {
		t.Errorf("an empty wheel comes up at %v", next)
	}
}

// modelTimer is one timer of the naive model.
type modelTimer struct {
	Timer
	due     time.Time
	waiting bool
}

// TestWheelModel compares random schedules, cancels and moves, from outside and
// from inside Fire, with a naive list of deadlines.
func TestWheelModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		w := newWheel()
		now := wheelStart
		timers := make([]modelTimer, 1+rng.IntN(40))
		change := func() {
			m := &timers[rng.IntN(len(timers))]
			if rng.IntN(4) == 0 {
				w.Cancel(&m.Timer)
				m.waiting = false
				return
			}
			span := []time.Duration{time.Second, time.Minute, time.Hour}[rng.IntN(3)]
			m.due, m.waiting = now.Add(time.Duration(rng.Int64N(int64(span)))), true
			w.Schedule(&m.Timer, m.due)
		}
		for i := range timers {
			m := &timers[i]
			m.Fire = func() {
				if !m.waiting || now.Before(m.due) {
					t.Fatalf("seed %d: fired %v before it was due, waiting %v", seed, m.due.Sub(now), m.waiting)
				}
				m.waiting = false
				for range rng.IntN(3) {
					change()
				}
			}
		}
		for range 100 {
			for range rng.IntN(5) {
				change()
			}
			if next, first := w.Next(), earliest(timers); !first.IsZero() && next.After(first.Add(WheelTick)) {
				t.Fatalf("seed %d: the wheel comes up at %v, a timer is due at %v", seed, next, first)
			}
			step := []time.Duration{time.Millisecond, time.Second, 3 * time.Minute}[rng.IntN(3)]
			now = now.Add(time.Duration(rng.Int64N(int64(step))))
			w.Advance(now, call)
			for i := range timers {
				// What was scheduled inside Fire for a time that is past waits
				// for the next tick.
				if m := &timers[i]; m.waiting != m.Scheduled() || m.waiting && now.Sub(m.due) > WheelTick && m.when <= w.at {
					t.Fatalf("seed %d: a timer is %v late, waiting %v", seed, now.Sub(m.due), m.waiting)
				}
			}
		}
	}
}

func earliest(timers []modelTimer) (first time.Time) {
	for i := range timers {
		if m := &timers[i]; m.waiting && (first.IsZero() || m.due.Before(first)) {
			first = m.due
		}
	}
	return first
}

// TestWheelAllocations: deadlines move with every request and must cost
// nothing.
func TestWheelAllocations(t *testing.T) {
	w := newWheel()
	now := wheelStart
	timers := make([]Timer, 100)
	for i := range timers {
		timers[i].Fire = func() {}
	}
	n := testing.AllocsPerRun(100, func() {
		for i := range timers {
			w.Schedule(&timers[i], now.Add(time.Duration(i)*WheelTick))
		}
		now = now.Add(50 * WheelTick)
		w.Advance(now, call)
		_ = w.Next()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWheelMove(b *testing.B) {
	b.ReportAllocs()
	w := newWheel()
	timers := make([]Timer, 10_000)
	i := 0
	for b.Loop() {
		w.Schedule(&timers[i%len(timers)], wheelStart.Add(time.Duration(i%3000)*WheelTick))
		i++
	}
}
