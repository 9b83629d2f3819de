package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

// fleet is publishers of a session each, and roamers that follow all of them.
type fleet struct {
	publishers []*faults.Publisher
	roamers    []*faults.Roamer
	sessions   []string
	failure    failure

	stop     chan struct{}
	final    atomic.Bool
	targets  []atomic.Uint64 // events of each session, valid once final
	posting  sync.WaitGroup
	roaming  sync.WaitGroup
	patience time.Duration
}

// newFleet returns n publishers; roamers are added before start.
func newFleet(addr string, n int) *fleet {
	f := &fleet{stop: make(chan struct{}), targets: make([]atomic.Uint64, n), patience: patience}
	for i := range n {
		p := faults.NewPublisher(addr, fmt.Sprintf("fleet%d", i))
		f.publishers = append(f.publishers, p)
		f.sessions = append(f.sessions, p.Session)
	}
	return f
}

// add adds a roamer that follows all sessions.
func (f *fleet) add(addr string, socket bool, r *faults.Rand) *faults.Roamer {
	c := faults.NewRoamer(addr, socket, r, f.sessions...)
	f.roamers = append(f.roamers, c)
	return c
}

// start runs everybody. publish posts once and waits as long as it likes; it is
// called again and again by one goroutine for each publisher.
func (f *fleet) start(publish func(i int, p *faults.Publisher) error) {
	for i, c := range f.roamers {
		f.roaming.Go(func() {
			if err := c.Run(f.done, f.patience); err != nil {
				f.failure.set(fmt.Errorf("consumer %d: %w", i, err))
			}
		})
	}
	for i, p := range f.publishers {
		f.posting.Go(func() {
			for f.failure.get() == nil {
				select {
				case <-f.stop:
					return
				default:
				}
				if err := publish(i, p); err != nil {
					f.failure.set(fmt.Errorf("publisher: %w", err))
				}
			}
		})
	}
}

// done tells whether a view has everything. A failure anywhere ends all.
func (f *fleet) done(v *faults.View) bool {
	if f.failure.get() != nil {
		return true
	}
	if !f.final.Load() {
		return false
	}
	for i, s := range f.sessions {
		if v.Next(s) < f.targets[i].Load() {
			return false
		}
	}
	return true
}

// end stops the publishers, waits until every consumer has every event that
// was acknowledged, and reports what went wrong.
func (f *fleet) end(tb testing.TB) {
	tb.Helper()
	close(f.stop)
	f.posting.Wait()
	for i, p := range f.publishers {
		f.targets[i].Store(p.Acked() + 1)
	}
	f.final.Store(true)
	// The last event of each session wakes those who have all others.
	for _, p := range f.publishers {
		if f.failure.get() != nil {
			break
		}
		if err := p.Publish(1); err != nil {
			f.failure.set(fmt.Errorf("publisher: %w", err))
		}
	}
	f.roaming.Wait()
	for _, p := range f.publishers {
		p.Close()
	}
	if err := f.failure.get(); err != nil {
		tb.Error(err)
	}
	var events, joins, cuts, resets int64
	for _, c := range f.roamers {
		events += c.Seen()
		joins += c.Joins()
		cuts += c.Cuts()
		resets += c.Gaps()
	}
	tb.Logf("%d events published, %d delivered and checked over %d connections, %d cut by the relay, %d gaps announced",
		f.published(), events, joins, cuts, resets)
}

// published counts the acknowledged events.
func (f *fleet) published() uint64 {
	n := uint64(0)
	for _, p := range f.publishers {
		n += p.Acked()
	}
	return n
}
