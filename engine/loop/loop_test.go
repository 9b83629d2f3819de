package loop_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/simloop"
)

var errRefused = errors.New("refused")

func newLoop() (*simloop.Loop, *simloop.Clock) {
	clock := simloop.NewClock()
	return simloop.NewLoop(0, clock), clock
}

// drainer is work as the loop sees it.
type drainer func(deadline time.Time) bool

func (d drainer) Drain(deadline time.Time) bool { return d(deadline) }

// TestDoorbell: one turn is asked for per burst of rings.
func TestDoorbell(t *testing.T) {
	l, _ := newLoop()
	for range 100 {
		l.Ring()
	}
	if l.Executes != 1 {
		t.Errorf("%d executes for one burst", l.Executes)
	}
	l.Turn(0)
	if l.Turn(0) {
		t.Error("a second turn without a ring")
	}
	l.Ring()
	if l.Executes != 2 || l.Turns() != 1 {
		t.Errorf("%d executes, %d turns", l.Executes, l.Turns())
	}
}

// TestDoorbellOrder: a turn clears the flag before it looks for work, so that
// work which is made visible while it looks asks for another turn. With the two
// lines in Turn turned round the ring below finds the flag set, and the work is
// lost until somebody else rings.
func TestDoorbellOrder(t *testing.T) {
	l, _ := newLoop()
	work, done := 1, 0
	l.AddDrainer(drainer(func(time.Time) bool {
		done += work
		work = 0
		if done == 1 { // another goroutine, after this one has looked
			work = 1
			l.Ring()
		}
		return false
	}))
	l.Ring()
	if !l.Run(10) || done != 2 {
		t.Errorf("%d of 2 pieces of work done", done)
	}
}

// TestDoorbellRefused: a loop that cannot be woken any more is fatal, unless it
// is stopping; a later ring tries again.
func TestDoorbellRefused(t *testing.T) {
	l, _ := newLoop()
	l.Refuse = errRefused
	l.Ring()
	if !errors.Is(l.Fatal, errRefused) {
		t.Fatalf("fatal: %v", l.Fatal)
	}
	l.Refuse = nil
	l.Ring()
	if !l.Turn(0) {
		t.Error("the flag was left set")
	}

	l, _ = newLoop()
	l.SetStopping()
	l.Refuse = errRefused
	l.Ring()
	if l.Fatal != nil {
		t.Errorf("fatal while stopping: %v", l.Fatal)
	}
}

// TestMailOrder: functions run in the order in which they were posted, those
// posted by them in the same turn.
func TestMailOrder(t *testing.T) {
	l, _ := newLoop()
	var got []int
	post := func(n int, then func()) {
		if err := l.Post(func() {
			got = append(got, n)
			if then != nil {
				then()
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	post(1, func() { post(3, func() { post(4, nil) }) })
	post(2, nil)
	l.Turn(0)
	if want := []int{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !l.Run(1) { // what was posted meanwhile has rung
		t.Error("the loop goes on with nothing to do")
	}
}

// TestMailBound: a mailbox holds MaxMail functions and refuses more by name.
func TestMailBound(t *testing.T) {
	l, _ := newLoop()
	ran := 0
	for i := range loop.MaxMail {
		if err := l.Post(func() { ran++ }); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := l.Post(func() { ran++ }); !errors.Is(err, loop.ErrMailboxFull) {
		t.Fatalf("over the bound: %v", err)
	}
	l.Run(10)
	if ran != loop.MaxMail {
		t.Errorf("%d of %d ran", ran, loop.MaxMail)
	}
	if err := l.Post(func() {}); err != nil {
		t.Error(err)
	}
}

// TestMailBudget: a turn gives the reactor back when its time is up and goes on
// in another one, which is asked for once (L1).
func TestMailBudget(t *testing.T) {
	l, _ := newLoop()
	ran := 0
	for range 1000 {
		_ = l.Post(func() { ran++ })
	}
	executes := l.Executes
	l.Turn(1)
	if ran == 0 || ran > 64 {
		t.Errorf("%d functions in a turn that was over at its first look", ran)
	}
	if l.Executes != executes+1 || !l.Rung() {
		t.Errorf("the next turn was asked for %d times", l.Executes-executes)
	}
	l.Run(1000)
	if ran != 1000 {
		t.Errorf("%d of 1000 ran", ran)
	}
}

// TestTurnOrder: mail, timers, drainers; a drainer with work left gets another
// turn, and one whose loop was rung meanwhile gets no second one for it.
func TestTurnOrder(t *testing.T) {
	l, clock := newLoop()
	var got []string
	left := 2
	for i := range 2 {
		l.AddDrainer(drainer(func(time.Time) bool {
			got = append(got, fmt.Sprint("drain", i))
			left--
			if left == 1 {
				l.Ring()
			}
			return left > 0
		}))
	}
	l.Schedule(&loop.Timer{Fire: func() { got = append(got, "timer") }}, clock.Now().Add(loop.WheelTick))
	clock.Advance(loop.WheelTick)
	_ = l.Post(func() { got = append(got, "mail") })
	l.Turn(0)
	if want := []string{"mail", "timer", "drain0", "drain1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.Turn(0)
	if l.Rung() {
		t.Error("a turn too many")
	}
}

// TestLater: a function that continues itself lets the reactor look at its
// sockets in between, and is not lost when the mailbox is full.
func TestLater(t *testing.T) {
	l, _ := newLoop()
	turns := 0
	var again func()
	again = func() {
		if turns++; turns < 3 {
			l.Later(again)
		}
	}
	l.Later(again)
	for want := 1; want <= 3; want++ {
		if !l.Turn(0) || turns != want {
			t.Fatalf("%d runs, want %d", turns, want)
		}
	}
	if l.Busy() {
		t.Error("the loop goes on with nothing to do")
	}
}

// TestPanics: a panic in mail or in a timer ends neither the turn nor the loop,
// and is counted and told.
func TestPanics(t *testing.T) {
	var told []any
	l, clock := newLoop()
	l.OnPanic(func(_ int, value any) { told = append(told, value) })
	ran := 0
	_ = l.Post(func() { panic("mail") })
	_ = l.Post(func() { ran++ })
	l.Schedule(&loop.Timer{Fire: func() { ran++ }}, clock.Now())
	l.Schedule(&loop.Timer{Fire: func() { panic("timer") }}, clock.Now())
	l.AddDrainer(drainer(func(time.Time) bool { ran++; return false }))
	clock.Advance(loop.WheelTick)
	l.Turn(0)
	l.Contain(func() { panic("contained") })
	if want := []any{"mail", "timer", "contained"}; ran != 3 || !slices.Equal(told, want) || l.Panics() != 3 {
		t.Errorf("%d ran, panics %v (%d)", ran, told, l.Panics())
	}
}

// TestTimers: the clock rings the loop for each timer, in time, whatever was
// scheduled, fired or cancelled before.
func TestTimers(t *testing.T) {
	l, clock := newLoop()
	fired := ""
	timer := func(name string) *loop.Timer {
		return &loop.Timer{Fire: func() { fired += name }}
	}
	f := func(step time.Duration, want string) {
		t.Helper()
		fired = ""
		clock.Advance(step)
		l.Run(100)
		if fired != want {
			t.Errorf("after %v: fired %q, want %q", step, fired, want)
		}
	}
	at := func(d time.Duration) time.Time { return clock.Now().Add(d) }

	l.Schedule(timer("a"), at(10*time.Second))
	l.Schedule(timer("b"), at(time.Second)) // earlier: the ring moves
	f(999*time.Millisecond, "")
	f(time.Millisecond+loop.WheelTick, "b")
	f(9*time.Second, "a")

	// The wheel has run empty, and its last ring is past.
	l.Schedule(timer("c"), at(5*time.Second))
	f(5*time.Second+loop.WheelTick, "c")

	d := timer("d")
	l.Schedule(d, at(time.Second))
	l.Cancel(d)
	f(time.Minute, "")
	l.Schedule(timer("e"), at(time.Hour)) // many rounds of the wheel
	f(59*time.Minute, "")
	f(time.Minute+loop.WheelTick, "e")

	g := timer("g")
	l.Schedule(g, at(time.Second))
	l.Schedule(g, at(3*time.Second)) // later: the old ring finds nothing
	f(2*time.Second, "")
	f(time.Second+loop.WheelTick, "g")

	l.Schedule(timer("h"), at(-time.Hour))
	f(loop.WheelTick, "h")

	l.Schedule(timer("i"), at(3*time.Hour))
	clock.Jump(4 * time.Hour)
	f(0, "i")
}

// TestTimerSchedulesItself: a timer that goes on by itself needs no other ring.
func TestTimerSchedulesItself(t *testing.T) {
	l, clock := newLoop()
	fired := 0
	timer := &loop.Timer{}
	timer.Fire = func() {
		fired++
		l.Schedule(timer, clock.Now().Add(time.Second))
	}
	l.Schedule(timer, clock.Now().Add(time.Second))
	for range 600 {
		clock.Advance(time.Second)
		l.Run(10)
	}
	// Each round may be late by one tick.
	if fired < 570 || fired > 600 {
		t.Errorf("fired %d times in 600 s", fired)
	}
}

// TestLastTurn: a loop tells when it last turned, for the liveness check.
func TestLastTurn(t *testing.T) {
	l, clock := newLoop()
	if !l.LastTurn().IsZero() {
		t.Error("it turned before it was rung")
	}
	l.Ring()
	l.Turn(0)
	if !l.LastTurn().Equal(clock.Now()) || !l.Now().Equal(clock.Now()) {
		t.Errorf("turned at %v, now %v", l.LastTurn(), clock.Now())
	}
}
