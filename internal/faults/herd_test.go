package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

const (
	herdSessions = 50
	herdBefore   = 10 // events of a session before the herd is dropped
	herdAway     = 10 // while it is away
	herdAfter    = 5  // live, after it has come back
)

// herd is consumers that come, are dropped at once and all come back.
type herd struct {
	p       *faults.Process
	seed    uint64
	members []*herdMember
	pubs    []*faults.Publisher
	failure failure
}

// herdMember is one of them.
type herdMember struct {
	session string
	socket  bool
	view    faults.View
	c       *faults.Consumer
	r       *faults.Rand
}

func newHerd(p *faults.Process, seed uint64, n int) *herd {
	h := &herd{p: p, seed: seed}
	for i := range herdSessions {
		h.pubs = append(h.pubs, faults.NewPublisher(p.Addr, fmt.Sprintf("herd%d", i)))
	}
	for i := range n {
		m := &herdMember{session: h.pubs[i%herdSessions].Session, socket: i/herdSessions%2 == 0, r: faults.NewRand(seed, uint64(i))}
		m.view.Expect(m.session, 0)
		h.members = append(h.members, m)
	}
	return h
}

// each does f for each member at once, at most so many at a time.
func (h *herd) each(width int, f func(*herdMember) error) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for _, m := range h.members {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(m); err != nil {
				h.failure.set(fmt.Errorf("consumer of %s: %w", m.session, err))
			}
		})
	}
	wg.Wait()
}

// publish publishes n events to each session.
func (h *herd) publish(n int) {
	for _, p := range h.pubs {
		for range n {
			if err := p.Publish(1); err != nil {
				h.failure.set(err)
				return
			}
		}
	}
}

// join subscribes a member at its position, in one of the ways there are.
func (m *herdMember) join(addr string, resume bool) (err error) {
	s := faults.Subscription{Socket: m.socket, Filter: faults.FilterOf(m.session), BufferBytes: 1 << 10}
	switch next := m.view.Next(m.session); {
	case !resume:
	case !m.socket && m.r.IntN(2) == 0 && next > 0:
		s.LastEventID = fmt.Sprintf("%s:0:%d", m.session, next-1)
	default:
		s.From = m.view.From(m.session)
	}
	m.c, err = faults.OpenConsumer(addr, s)
	return err
}

// read reads until the member stands at next.
func (m *herdMember) read(next uint64) error {
	for m.view.Next(m.session) < next {
		it, err := m.c.Next(patience)
		if err == nil {
			err = m.view.Take(it)
		}
		if err != nil {
			return fmt.Errorf("at %d of %d: %w", m.view.Next(m.session), next, err)
		}
	}
	return nil
}

// leave drops the connection.
func (m *herdMember) leave() {
	if m.c == nil {
		return
	}
	if m.r.IntN(2) == 0 {
		m.c.Reset()
	} else {
		m.c.Close()
	}
}

// TestReconnectHerd: consumers by the thousand are dropped at once and all come
// back at once with their positions, streams and sockets. Each gets each event
// exactly once; others are not disturbed; /healthz answers all the time (R165,
// R192, R425, C48).
func TestReconnectHerd(t *testing.T) {
	p := startRelay(t)
	base := gauges(t, p)
	untouched := startHealthy(t, p.Addr, "untouched", 6, 100)
	h := newHerd(p, newSeed(t), scale(5000, 500))
	h.each(64, func(m *herdMember) error { return m.join(p.Addr, false) })
	h.publish(herdBefore)
	// Not all have read everything when they are dropped.
	h.each(len(h.members), func(m *herdMember) error { return m.read(uint64(m.r.IntN(herdBefore + 1))) })
	if err := h.failure.get(); err != nil {
		t.Fatalf("before the herd: %v", err)
	}

	h.each(len(h.members), func(m *herdMember) error { m.leave(); return nil })
	h.publish(herdAway)
	probe := startProbe(p)
	begin := time.Now()
	var back atomic.Int64
	h.each(len(h.members), func(m *herdMember) error {
		if err := m.join(p.Addr, true); err != nil {
			return err
		}
		err := m.read(herdBefore + herdAway)
		back.Add(1)
		return err
	})
	took := time.Since(begin)
	h.publish(herdAfter)
	h.each(len(h.members), func(m *herdMember) error { return m.read(herdBefore + herdAway + herdAfter) })
	p99 := probe.end(t)
	t.Logf("C48: %d of %d resumed in %v", back.Load(), len(h.members), took)
	if err := h.failure.get(); err != nil {
		t.Error(err)
	}
	untouched.pulse.check(t, "C48: p99 of /healthz", p99, 5*time.Second)
	h.each(len(h.members), func(m *herdMember) error { m.leave(); return nil })
	untouched.end()
	untouched.checkDelay("C48", 5*time.Second)
	for _, pub := range h.pubs {
		pub.Close()
	}
	must(t, "R281, R334: after all left", p.AwaitBaseline(base, patience))
}

// probe asks for /healthz again and again, each time on a connection of its own.
type probe struct {
	stop  chan struct{}
	done  chan struct{}
	took  []time.Duration
	error error
}

func startProbe(p *faults.Process) *probe {
	pr := &probe{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(pr.done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			begin := time.Now()
			if _, err := p.Health(); err != nil {
				pr.error = err
				return
			}
			pr.took = append(pr.took, time.Since(begin))
			select {
			case <-tick.C:
			case <-pr.stop:
				return
			}
		}
	}()
	return pr
}

// end returns the 99th percentile.
func (pr *probe) end(tb testing.TB) time.Duration {
	tb.Helper()
	close(pr.stop)
	<-pr.done
	if pr.error != nil {
		tb.Errorf("/healthz: %v", pr.error)
	}
	p50, p99, most := quantiles(pr.took)
	tb.Logf("/healthz: %d answers, p50 %v, p99 %v, most %v", len(pr.took), p50, p99, most)
	return p99
}
