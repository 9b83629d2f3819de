package firehose

import (
	"errors"
	"sync"
	"testing"
	"time"
)

var (
	errCrash = errors.New("crashed")
	errDisk  = errors.New("disk is full")
)

// disk is a Marks in memory that can crash before or after any write: from
// then on nothing reaches it until it is opened again.
type disk struct {
	t  testing.TB
	mu sync.Mutex

	state   State
	writes  int
	crashAt int  // the write that crashes, from 1; 0 is none
	lands   bool // whether that write reaches the state
	dead    bool
	fail    error
	gate    chan struct{} // each Reserve takes one of it, if not nil
	inside  bool
}

func (d *disk) Load() (State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state, d.fail
}

// write applies a change, or crashes.
func (d *disk) write(change func(*State)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside {
		d.t.Error("calls of Marks overlap")
	}
	if d.dead {
		return errCrash
	}
	if d.fail != nil {
		return d.fail
	}
	d.writes++
	if d.writes == d.crashAt {
		d.dead = true
		if d.lands {
			change(&d.state)
		}
		return errCrash
	}
	change(&d.state)
	return nil
}

func (d *disk) Reserve(upTo int64) error {
	if d.gate != nil {
		d.mu.Lock()
		d.inside = true
		d.mu.Unlock()
		<-d.gate
		d.mu.Lock()
		d.inside = false
		d.mu.Unlock()
	}
	return d.write(func(s *State) {
		if upTo < s.Reserved {
			d.t.Errorf("reserved %d after %d", upTo, s.Reserved)
		}
		s.Reserved = upTo
	})
}

func (d *disk) EraseClean() error { return d.write(func(s *State) { s.Clean = false }) }

func (d *disk) StoreClean(last, outdated int64, at time.Time) error {
	return d.write(func(s *State) { s.Clean, s.Last, s.Outdated, s.At = true, last, outdated, at })
}

// setFail makes every call fail with err until it is nil.
func (d *disk) setFail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

// reserved returns the recorded number.
func (d *disk) reserved() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Reserved
}

// clock is a time that stands until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 7, 9, 10, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *clock) floor() int64 { return c.now().UnixMilli() * 1024 }
