package loop

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// PassBudget is how long one turn of a loop may work before it gives the
// reactor back to its sockets (L1). Measured: a turn that continued itself
// inside the reactor's queue delayed reads by 700 ms; cut at 1 ms and continued
// behind the sockets it delays them by 2 ms.
const PassBudget = time.Millisecond

// MaxMail bounds the mailbox of a loop.
const MaxMail = 1 << 16

// ErrMailboxFull tells that a loop is too far behind to take more mail.
var ErrMailboxFull = errors.New("loop: mailbox is full")

// Clock tells the time. Now must be monotonic.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f on any goroutine after d, as time.AfterFunc.
	AfterFunc(d time.Duration, f func()) Stopper
}

// Stopper is a timer that can be stopped.
type Stopper interface{ Stop() bool }

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc implements Clock.
func (SystemClock) AfterFunc(d time.Duration, f func()) Stopper { return time.AfterFunc(d, f) }

// Drainer is the work that a loop does on each turn besides its mail and its
// timers: moving entries to sockets. It works until deadline and tells whether
// work is left. Loop only.
type Drainer interface {
	Drain(deadline time.Time) (more bool)
}

// Loop is one reactor goroutine and all that it owns: connections, groups,
// timers, scratch. Fields are grouped by owner.
type Loop struct {
	// Immutable after construction.
	ID    int
	clock Clock
	fatal func(error)

	// Set once before the loop runs.
	onPanic func(loopID int, value any)
	execute func() error // schedules Turn on the loop goroutine
	hop     func(func()) // runs a function on another goroutine

	// Owned by the loop.
	wheel   Wheel
	drain   []Drainer
	mail    []func() // the half being worked off
	mailAt  int
	timerAt time.Time
	timer   Stopper
	stats   Stats

	// Guarded by mu.
	mu    sync.Mutex
	inbox []func()
	room  *sync.Cond // signalled when the inbox was taken

	// Atomic.
	bell     atomic.Int32 // see bellIdle
	stopping atomic.Bool
	turns    atomic.Int64
	turnedAt atomic.Int64 // unix nanoseconds of the last turn
	panics   atomic.Int64
}

// States of a loop's doorbell. A turn is scheduled exactly while it is rung; one
// that is rung during a turn is rung again after it, behind what its sockets have
// to tell, so that neither a loop that rings itself nor a busy publisher keeps
// the reactor from them.
const (
	bellIdle    int32 = iota
	bellRung          // a turn is scheduled
	bellTurning       // a turn runs
	bellAgain         // a turn runs, and work came that it may not have seen
)

// Stats are one loop's counters.
type Stats struct {
	Turns int64
	// Wakes are the turns that were asked for from outside.
	Wakes int64
	// BusyTime is the time spent in turns.
	BusyTime time.Duration
}

// New returns a loop. fatal is called when the loop can no longer be woken,
// unless it is stopping. Bind must be called before the loop is used.
func New(id int, clock Clock, fatal func(error)) *Loop {
	l := &Loop{ID: id, clock: clock, fatal: fatal, hop: func(f func()) { go f() }}
	l.room = sync.NewCond(&l.mu)
	l.wheel.init(clock.Now())
	return l
}

// Bind sets how a turn is scheduled. execute is called by any goroutine, also
// from within a turn, and must make the loop goroutine call Turn soon, but not
// before the reactor has looked at its sockets. It is a doorbell, called once
// per burst. Bind is called once, before the loop is used.
func (l *Loop) Bind(execute func() error) { l.execute = execute }

// BindHop sets how a function gets to another goroutine and so behind what the
// reactor has in front of it: the default starts one. Simulated loops, which
// have a single goroutine, queue it. Before the loop is used.
func (l *Loop) BindHop(hop func(func())) { l.hop = hop }

// AddDrainer adds work to each turn. Before the loop runs, or loop only.
func (l *Loop) AddDrainer(d Drainer) { l.drain = append(l.drain, d) }

// Now returns the clock's time. Any goroutine.
func (l *Loop) Now() time.Time { return l.clock.Now() }

// Ring asks for a turn: one doorbell, rung once per burst. Any goroutine. A turn
// takes the ring before it looks for work, so that work made visible before
// Ring is never missed.
func (l *Loop) Ring() {
	for {
		switch l.bell.Load() {
		case bellIdle:
			if l.bell.CompareAndSwap(bellIdle, bellRung) {
				l.ring()
				return
			}
		case bellTurning:
			if l.bell.CompareAndSwap(bellTurning, bellAgain) {
				return
			}
		default: // a turn that comes will see the work
			return
		}
	}
}

// ring schedules a turn; the bell is rung.
func (l *Loop) ring() {
	if err := l.execute(); err != nil {
		l.bell.Store(bellIdle)
		if !l.stopping.Load() {
			l.fatal(fmt.Errorf("loop %d cannot be woken: %w", l.ID, err))
		}
	}
}

// Stats returns the counters. Loop only.
func (l *Loop) Stats() Stats { return l.stats }

// SetStopping makes failed wakes harmless: the relay is going down.
func (l *Loop) SetStopping() {
	l.stopping.Store(true)
	l.mu.Lock()
	l.room.Broadcast()
	l.mu.Unlock()
}

// Post runs f on the loop. Any goroutine. Functions posted by one goroutine run
// in order. It returns ErrMailboxFull, and drops f, when MaxMail wait.
func (l *Loop) Post(f func()) error {
	l.mu.Lock()
	if len(l.inbox) >= MaxMail {
		l.mu.Unlock()
		return ErrMailboxFull
	}
	l.inbox = append(l.inbox, f)
	l.mu.Unlock()
	l.Ring()
	return nil
}

// Later runs f on the loop after the reactor has looked at its sockets: over a
// goroutine hop, so that work which continues itself starves nobody. Any
// goroutine.
func (l *Loop) Later(f func()) {
	l.hop(func() {
		for l.Post(f) != nil && !l.stopping.Load() {
			l.awaitMail()
		}
	})
}

// awaitMail waits until the mailbox has room, or the loop is stopping.
func (l *Loop) awaitMail() {
	l.mu.Lock()
	for len(l.inbox) >= MaxMail && !l.stopping.Load() {
		l.room.Wait()
	}
	l.mu.Unlock()
}

// Turn works off mail, timers and drainers, for about PassBudget. Loop only;
// called by whoever Bind named. When work is left it continues in another turn,
// and the reactor reads its sockets in between.
func (l *Loop) Turn() {
	if l.bell.Swap(bellTurning) == bellRung { // before any work is looked for
		l.stats.Wakes++
	}
	more := true
	defer func() { l.endTurn(more) }()
	start := l.clock.Now()
	deadline := start.Add(PassBudget)
	more = l.readMail(deadline)
	l.wheel.Advance(start, l.guard)
	for _, d := range l.drain {
		if l.drainOne(d, deadline) {
			more = true
		}
	}
	l.armTimer()
	l.turns.Add(1)
	end := l.clock.Now()
	l.turnedAt.Store(end.UnixNano())
	l.stats.Turns++
	l.stats.BusyTime += end.Sub(start)
}

// endTurn lets the bell rest, or schedules the next turn.
func (l *Loop) endTurn(more bool) {
	if !more && l.bell.CompareAndSwap(bellTurning, bellIdle) {
		return
	}
	l.bell.Store(bellRung)
	l.ring()
}

// ReadMail runs what was posted so far, without a turn. A connection does it
// before it looks at new input, so that mail which was posted before a peer sent
// something takes effect before it. Loop only.
func (l *Loop) ReadMail() {
	if b := l.bell.Load(); b == bellRung || b == bellAgain { // else there is none
		l.readMail(l.clock.Now().Add(PassBudget))
	}
}

// drainOne contains a panic of d: the other drainers still get their turn. What
// d had left waits for the next ring, so that a broken one does not spin.
func (l *Loop) drainOne(d Drainer, deadline time.Time) (more bool) {
	defer l.Recover()
	return d.Drain(deadline)
}

// readMail runs posted functions until deadline and tells whether some are
// left.
func (l *Loop) readMail(deadline time.Time) bool {
	for n := 0; ; n++ {
		if l.mailAt == len(l.mail) {
			clear(l.mail)
			l.mailAt = 0
			l.mu.Lock()
			l.mail, l.inbox = l.inbox, l.mail[:0]
			l.room.Broadcast()
			l.mu.Unlock()
			if len(l.mail) == 0 {
				return false
			}
		}
		if n&31 == 31 && l.clock.Now().After(deadline) {
			return true
		}
		f := l.mail[l.mailAt]
		l.mail[l.mailAt] = nil
		l.mailAt++
		l.guard(f)
	}
}

// Contain runs f and counts a panic in it instead of letting it end the loop.
// Loop only.
func (l *Loop) Contain(f func()) { l.guard(f) }

func (l *Loop) guard(f func()) {
	defer l.Recover()
	f()
}

// Recover counts a panic and swallows it. It is deferred around code that
// belongs to one connection.
func (l *Loop) Recover() {
	if r := recover(); r != nil {
		l.CountPanic(r)
	}
}

// CountPanic counts a panic that the caller has recovered. Any goroutine.
func (l *Loop) CountPanic(value any) {
	l.panics.Add(1)
	if l.onPanic != nil {
		l.onPanic(l.ID, value)
	}
}

// OnPanic makes f be told of each contained panic, on the goroutine that
// panicked. Set before the loop runs.
func (l *Loop) OnPanic(f func(loopID int, value any)) { l.onPanic = f }

// Panics returns how many panics were contained. Any goroutine.
func (l *Loop) Panics() int64 { return l.panics.Load() }

// LastTurn returns when the loop last finished a turn, the zero time if never.
// Any goroutine.
func (l *Loop) LastTurn() time.Time {
	if ns := l.turnedAt.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Turns returns the number of turns. Any goroutine.
func (l *Loop) Turns() int64 { return l.turns.Load() }

// Schedule sets t to fire at when. Loop only.
func (l *Loop) Schedule(t *Timer, when time.Time) {
	l.wheel.Schedule(t, when)
	if due := l.wheel.Next(); l.timer == nil || due.Before(l.timerAt) {
		l.armTimer()
	}
}

// Cancel stops t. Loop only.
func (l *Loop) Cancel(t *Timer) { l.wheel.Cancel(t) }

// armTimer makes the clock ring when the wheel next needs to advance.
func (l *Loop) armTimer() {
	now := l.clock.Now()
	if l.timer != nil && !l.timerAt.After(now) {
		l.timer = nil // it has rung
	}
	due := l.wheel.Next()
	if due.IsZero() {
		return
	}
	if l.timer != nil && !due.Before(l.timerAt) {
		return // an earlier ring is on its way
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timerAt = due
	l.timer = l.clock.AfterFunc(max(due.Sub(now), 0), l.Ring)
}
