package faults_test

import (
	"sync/atomic"
	"testing"

	"github.com/sluice-relay/sluice/internal/faults"
)

// reader is a consumer that stays, and checks every item.
type reader struct {
	view faults.View
	// each, if set before start, is called with each event.
	each func(text []byte)

	c       *faults.Consumer
	seen    atomic.Uint64 // events
	missing atomic.Uint64 // as the view counts them
	shed    atomic.Uint64 // as the relay told
	ending  atomic.Bool
	failure failure
	done    chan struct{}
}

// newReader returns a reader of a session that has no event yet.
func newReader(session string) *reader {
	r := &reader{done: make(chan struct{})}
	r.view.Expect(session, 0)
	return r
}

// start subscribes.
func (r *reader) start(tb testing.TB, addr string, s faults.Subscription) {
	tb.Helper()
	c, err := faults.OpenConsumer(addr, s)
	must(tb, "reader", err)
	r.c = c
	go r.run()
}

func (r *reader) run() {
	defer close(r.done)
	for {
		it, err := r.c.Next(patience)
		if err != nil && r.ending.Load() {
			return
		}
		if err == nil {
			err = r.view.Take(it)
		}
		if err != nil {
			r.failure.set(err)
			return
		}
		if it.Event != nil {
			r.seen.Add(1)
			if r.each != nil {
				r.each(it.Event)
			}
		}
		r.shed.Store(r.view.Shed)
		r.missing.Store(r.view.Missing)
	}
}

// behind tells whether something is still to come of n events: each was either
// seen or is known to be missing.
func (r *reader) behind(n uint64) bool {
	return r.failure.get() == nil && r.seen.Load()+r.missing.Load() < n
}

// await waits until n events were seen.
func (r *reader) await(tb testing.TB, what string, n uint64) {
	tb.Helper()
	await(tb, what, func() bool { return r.seen.Load() >= n || r.failure.get() != nil })
}

// end closes the connection and reports what was wrong with it.
func (r *reader) end(tb testing.TB) {
	tb.Helper()
	r.ending.Store(true)
	r.c.Close()
	<-r.done
	if err := r.failure.get(); err != nil {
		tb.Errorf("consumer: %v", err)
	}
}
