package faults_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

// healthy is a publisher and consumers that use the relay as it is meant to be
// used, while a test breaks things beside them. Every consumer checks every
// event.
type healthy struct {
	tb        testing.TB
	publisher *faults.Publisher
	rate      int // events per second

	stop      atomic.Bool
	published sync.WaitGroup
	consumers []*reader
	failure   failure
	pulse     *pulse

	mu    sync.Mutex
	delay []time.Duration // from stamp to delivery, of one consumer
}

// startHealthy subscribes n consumers, streams and sockets by turns, and starts
// to publish to session at a rate of events per second.
func startHealthy(tb testing.TB, addr, session string, n, rate int) *healthy {
	tb.Helper()
	h := &healthy{tb: tb, publisher: faults.NewPublisher(addr, session), rate: rate, pulse: startPulse()}
	h.publisher.Stamp = func() int64 { return time.Now().UnixNano() }
	for i := range n {
		r := newReader(session)
		if i == 0 {
			r.each = h.time
		}
		r.start(tb, addr, faults.Subscription{
			Socket: i%2 == 1, Filter: faults.FilterOf(session), BufferBytes: 32 << 10,
		})
		h.consumers = append(h.consumers, r)
	}
	h.published.Go(h.publish)
	return h
}

// time notes how long an event took.
func (h *healthy) time(text []byte) {
	e, err := faults.Unseal(text)
	if err != nil {
		return // the view has told
	}
	h.mu.Lock()
	h.delay = append(h.delay, time.Duration(time.Now().UnixNano()-e.Stamp))
	h.mu.Unlock()
}

// publish posts 20 batches a second.
func (h *healthy) publish() {
	const beats = 20
	tick := time.NewTicker(time.Second / beats)
	defer tick.Stop()
	for !h.stop.Load() {
		if err := h.publisher.Publish(max(1, h.rate/beats)); err != nil {
			h.failure.set(fmt.Errorf("healthy publisher: %w", err))
			return
		}
		<-tick.C
	}
}

// end stops publishing, waits until every consumer has every event that was
// acknowledged, and reports what went wrong.
func (h *healthy) end() {
	h.tb.Helper()
	h.stop.Store(true)
	h.published.Wait()
	defer close(h.pulse.stop)
	h.publisher.Close()
	acked := h.publisher.Acked()
	for _, r := range h.consumers {
		if h.failure.get() == nil {
			r.await(h.tb, "healthy consumer: all acknowledged events", acked)
		}
		r.end(h.tb)
		if n := r.seen.Load(); n != acked && h.failure.get() == nil {
			h.tb.Errorf("R190: healthy consumer has %d events, %d were acknowledged", n, acked)
		}
	}
	if err := h.failure.get(); err != nil {
		h.tb.Error(err)
	}
	p50, p99, most := quantiles(h.delay)
	h.tb.Logf("healthy: %d events to each of %d consumers, p50 %v, p99 %v, most %v", acked, len(h.consumers), p50, p99, most)
	if acked == 0 {
		h.tb.Error("healthy publisher has published nothing")
	}
}

// checkDelay holds the 99th percentile of delivery to a bound that only a relay
// misses which is held up.
func (h *healthy) checkDelay(rule string, bound time.Duration) {
	h.tb.Helper()
	_, p99, _ := quantiles(h.delay)
	h.pulse.check(h.tb, rule+": p99 of the delivery to a healthy consumer", p99, bound)
}

// pulse measures how late this process itself is woken, so that a bound on time
// means something on a machine that is busy with other things.
type pulse struct {
	stop chan struct{}
	most atomic.Int64
}

func startPulse() *pulse {
	p := &pulse{stop: make(chan struct{})}
	go func() {
		const beat = 10 * time.Millisecond
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-tick.C:
			case <-p.stop:
				return
			}
			now := time.Now()
			if late := int64(now.Sub(last) - beat); late > p.most.Load() {
				p.most.Store(late)
			}
			last = now
		}
	}()
	return p
}

// check holds got to the bound, and to twenty times the worst delay of this
// process where that is more.
func (p *pulse) check(tb testing.TB, what string, got, bound time.Duration) {
	tb.Helper()
	own := time.Duration(p.most.Load())
	tb.Logf("%s is %v (this process was held up for up to %v itself)", what, got, own)
	if got > max(bound, 20*own) {
		tb.Errorf("%s is %v, want at most %v", what, got, max(bound, 20*own))
	}
}

// quantiles returns the median, the 99th percentile and the maximum.
func quantiles(d []time.Duration) (p50, p99, most time.Duration) {
	if len(d) == 0 {
		return 0, 0, 0
	}
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2], s[len(s)*99/100], s[len(s)-1]
}
