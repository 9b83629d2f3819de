package simloop

import (
	"slices"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
)

// Clock is a clock that stands still until it is moved. It implements
// loop.Clock for one goroutine.
type Clock struct {
	now    time.Time
	look   time.Duration // by which each look moves it
	timers []*timer      // in the order in which they were set
}

// timer is one AfterFunc that has not fired.
type timer struct {
	clock *Clock
	when  time.Time
	f     func()
}

// NewClock returns a clock that stands at a fixed time.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// Now implements loop.Clock. Inside a turn with a budget each look costs time.
func (c *Clock) Now() time.Time {
	t := c.now
	c.now = c.now.Add(c.look)
	return t
}

// AfterFunc implements loop.Clock: f runs inside Advance or Fire.
func (c *Clock) AfterFunc(d time.Duration, f func()) loop.Stopper {
	t := &timer{clock: c, when: c.now.Add(d), f: f}
	c.timers = append(c.timers, t)
	return t
}

// Stop implements loop.Stopper.
func (t *timer) Stop() bool {
	i := slices.Index(t.clock.timers, t)
	if i < 0 {
		return false
	}
	t.clock.timers = slices.Delete(t.clock.timers, i, i+1)
	return true
}

// SetLook makes each look at the clock move it by d.
func (c *Clock) SetLook(d time.Duration) { c.look = d }

// Advance moves the clock by d and fires the timers that come due on the way,
// in order, each at its own time.
func (c *Clock) Advance(d time.Duration) {
	end := c.now.Add(d)
	for {
		t := c.first(end)
		if t == nil {
			break
		}
		c.now = maxTime(c.now, t.when)
		t.Stop()
		t.f()
	}
	c.now = maxTime(c.now, end)
}

// Fire fires the timers that are due now.
func (c *Clock) Fire() { c.Advance(0) }

// Jump moves the clock by d at once, as a machine does that was suspended.
// Timers that were due meanwhile fire after it.
func (c *Clock) Jump(d time.Duration) {
	c.now = c.now.Add(d)
	c.Fire()
}

// first returns the timer that is due first, and not after end.
func (c *Clock) first(end time.Time) *timer {
	var first *timer
	for _, t := range c.timers {
		if !t.when.After(end) && (first == nil || t.when.Before(first.when)) {
			first = t
		}
	}
	return first
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
