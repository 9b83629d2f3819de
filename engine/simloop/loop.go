package simloop

import (
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
)

// Loop is a real loop on a simulated reactor: a queue of turns that were asked
// for, a queue of functions that hop over a goroutine, and sockets with
// something to tell.
type Loop struct {
	*loop.Loop

	// Executes counts how often the doorbell was answered by queueing a turn.
	Executes int
	// Refuse, when set, is what the next attempts to queue a turn fail with.
	Refuse error
	// Fatal is what the loop gave up with.
	Fatal error

	clock   *Clock
	queued  int
	hops    []func()
	pending []*Socket // with an event that was not delivered
}

// NewLoop returns a loop on clock.
func NewLoop(id int, clock *Clock) *Loop {
	l := &Loop{clock: clock}
	l.Loop = loop.New(id, clock, func(err error) { l.Fatal = err })
	l.Bind(l.execute)
	l.BindHop(func(f func()) { l.hops = append(l.hops, f) })
	return l
}

func (l *Loop) execute() error {
	if l.Refuse != nil {
		return l.Refuse
	}
	l.Executes++
	l.queued++
	return nil
}

// Rung tells whether a turn is due: asked for, or about to be over a hop.
func (l *Loop) Rung() bool { return l.queued > 0 || len(l.hops) > 0 }

// Busy tells whether the loop has anything to do.
func (l *Loop) Busy() bool { return l.Rung() || len(l.pending) > 0 }

// Turn runs one turn if one is due, and tells whether it did. budget is how
// many looks at the clock the turn has, the one at its beginning not counted:
// at the last of them its time is up. Zero or less is no limit.
func (l *Loop) Turn(budget int) bool {
	hops := l.hops
	l.hops = nil
	for _, f := range hops {
		f()
	}
	if l.queued == 0 {
		return false
	}
	l.queued--
	if budget > 0 {
		n := time.Duration(budget)
		l.clock.SetLook((loop.PassBudget + n - 1) / n)
	}
	l.Loop.Turn()
	l.clock.SetLook(0)
	l.clock.Fire()
	return true
}

// Poll delivers the events of the loop's sockets, as the reactor does between
// turns, and returns how many there were.
func (l *Loop) Poll() (events int) {
	pending := l.pending
	l.pending = nil
	for _, s := range pending {
		s.queued = false
		s.deliver()
	}
	return len(pending)
}

// Run polls and turns until nothing is left to do or steps have been taken. It
// tells whether nothing is left.
func (l *Loop) Run(steps int) bool {
	for ; steps > 0 && l.Busy(); steps-- {
		l.Poll()
		l.Turn(0)
	}
	return !l.Busy()
}
