package faults

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Roamer is a consumer that loses its connection again and again, by its own
// wish or because it was too slow, and comes back where it stood. One goroutine
// runs it; its counters may be asked for by any.
type Roamer struct {
	// Immutable once Run was called.
	Sub      Subscription // From and Filter are made from Sessions
	Sessions []string
	Rand     *Rand
	// StayEvents is how many events it stays for, about; 0 for as long as it is
	// let.
	StayEvents int
	// Pace is asked before each item for how long to wait with it; nil for no
	// wait.
	Pace func() time.Duration
	// OnBoot is called when it meets another run of the relay than before: the
	// view has to forget what that run does not know. Nil if there is only one.
	OnBoot func(v *View, boot string) error

	View View

	addr string
	boot string

	// Atomic.
	seen  atomic.Int64
	joins atomic.Int64
	cuts  atomic.Int64
	gaps  atomic.Int64
}

// NewRoamer returns a consumer of sessions that have no event yet.
func NewRoamer(addr string, socket bool, r *Rand, sessions ...string) *Roamer {
	c := &Roamer{addr: addr, Sessions: sessions, Rand: r, Sub: Subscription{Socket: socket, Filter: FilterOf(sessions...), BufferBytes: 16 << 10}}
	c.View.Sessions = sessions
	for _, s := range sessions {
		c.View.Expect(s, 0)
	}
	return c
}

// Seen returns the number of events seen.
func (c *Roamer) Seen() int64 { return c.seen.Load() }

// Joins returns how often it connected.
func (c *Roamer) Joins() int64 { return c.joins.Load() }

// Cuts returns how often the relay ended its connection.
func (c *Roamer) Cuts() int64 { return c.cuts.Load() }

// Gaps returns how often it was told that a position is exhausted.
func (c *Roamer) Gaps() int64 { return c.gaps.Load() }

// Run reads until done says so, which is asked after each item and each cut. A
// connection that cannot be made is tried again for as long as absent allows.
func (c *Roamer) Run(done func(*View) bool, absent time.Duration) error {
	lost := time.Now()
	for !done(&c.View) {
		if c.joins.Load() > 0 {
			for _, name := range c.Sessions {
				c.View.Lose(name)
			}
		}
		sub := c.Sub
		sub.From = c.View.From(c.Sessions...)
		conn, err := OpenConsumer(c.addr, sub)
		if err != nil {
			if time.Since(lost) > absent {
				return fmt.Errorf("cannot come back for %v: %w", absent, err)
			}
			time.Sleep(20 * time.Millisecond) // pacing
			continue
		}
		c.joins.Add(1)
		if err := c.meet(conn.Boot); err != nil {
			conn.Reset()
			return err
		}
		err = c.stay(conn, done, absent)
		if err != nil {
			conn.Reset()
			return fmt.Errorf("connection %d, socket %v: %w", c.joins.Load(), c.Sub.Socket, err)
		}
		lost = time.Now()
	}
	return nil
}

func (c *Roamer) meet(boot string) error {
	before := c.boot
	c.boot = boot
	switch {
	case before == "" || before == boot:
		return nil
	case c.OnBoot == nil:
		return fmt.Errorf("%w: boot id changed from %s to %s", ErrView, before, boot)
	}
	return c.OnBoot(&c.View, boot)
}

// stay reads one connection to its end and leaves nothing open. The error is
// nil for an end of any kind: only what it was given is judged.
func (c *Roamer) stay(conn *Consumer, done func(*View) bool, patience time.Duration) error {
	left := -1
	if c.StayEvents > 0 {
		left = 1 + c.Rand.IntN(2*c.StayEvents)
	}
	for left != 0 && !done(&c.View) {
		if c.Pace != nil {
			time.Sleep(c.Pace()) // pacing
		}
		it, err := conn.Next(patience)
		if isTimeout(err) {
			return fmt.Errorf("nothing for %v: %w", patience, err)
		}
		if errors.Is(err, errWire) {
			return err
		}
		if err != nil { // the relay has cut it, or is gone
			c.cuts.Add(1)
			conn.Close()
			return nil
		}
		if err := c.View.Take(it); err != nil {
			return err
		}
		c.gaps.Store(int64(c.View.Resets))
		if it.Event != nil {
			c.seen.Add(1)
			left--
		}
	}
	if c.Rand.IntN(2) == 0 {
		conn.Reset()
	} else {
		conn.Close()
	}
	return nil
}
