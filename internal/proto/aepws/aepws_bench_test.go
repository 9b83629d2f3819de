package aepws

import (
	"fmt"
	"testing"
	"time"
)

// readySession returns a session that is READY, and inputs of its steady state.
func readySession(t testing.TB) (session, []*input) {
	s := play(t, session{settings: testSettings(false)}, opening)
	return s, []*input{
		{kind: inDomain, eventTenant: []byte("x"), eventSource: []byte("agent:a")},
		{kind: inAcknowledge},
		{kind: inHeartbeat},
		{kind: inPong},
		{kind: inTick},
	}
}

// idOf spreads numbers as a hash does.
func idOf(number int64) uint64 {
	x := uint64(number) * 0xbf58476d1ce4e5b9
	return (x ^ x>>32) * 0x94d049bb133111eb
}

// cycle lets a window that holds so many events take one more and have one
// acknowledged.
type cycle struct {
	w    *window
	next int64
	held int64
}

func newCycle(t testing.TB, held int) *cycle {
	c := &cycle{w: newWindow(newBudget(newPlan(t, testPolicy()))), held: int64(held)}
	for range held - 1 {
		c.next++
		_ = c.w.sent(c.next, idOf(c.next), 0)
	}
	return c
}

func (c *cycle) oldest() bool {
	c.next++
	return c.w.sent(c.next, idOf(c.next), 0) == nil && c.w.ack(idOf(c.next-c.held+1), 0)
}

func (c *cycle) newest() bool {
	c.next++
	return c.w.sent(c.next, idOf(c.next), 0) == nil && c.w.ack(idOf(c.next), 0)
}

// TestSteadyStateAllocs: nothing of a READY session or a filled window allocates.
func TestSteadyStateAllocs(t *testing.T) {
	f := func(name string, run func()) {
		t.Helper()
		if n := testing.AllocsPerRun(1000, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	s, inputs := readySession(t)
	do := make([]action, 0, 8)
	f("session", func() {
		for _, in := range inputs {
			s, do = s.step(in, s.now+100*time.Millisecond, do[:0])
		}
	})
	if s.state != stateReady {
		t.Errorf("session is %v", s.state)
	}

	c := newCycle(t, 1000)
	f("oldest", func() { c.oldest() })
	f("newest", func() { c.newest() })
	list := make([]overdue, 0, 64)
	now := time.Duration(0)
	f("due", func() {
		now += 100 * time.Millisecond
		list = c.w.due(now, list[:0])
		c.w.next()
		c.oldest()
	})

	d := newDirectory[int](10)
	key := sessionKey{"x", "s1"}
	d.open(key, 1, 1)
	f("directory", func() { d.open(key, 1, 2); d.close(key, 2); d.open(key, 1, 1) })
}

func BenchmarkSession(b *testing.B) {
	s, inputs := readySession(b)
	do := make([]action, 0, 8)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s, do = s.step(inputs[i%len(inputs)], s.now+time.Millisecond, do[:0])
	}
	if s.state != stateReady {
		b.Fatal(s.state)
	}
}

// BenchmarkWindow sends one event and acknowledges one, the oldest or the newest.
func BenchmarkWindow(b *testing.B) {
	for _, held := range []int{1, 100, 1000} {
		f := func(name string, run func(c *cycle) bool) {
			b.Run(fmt.Sprintf("%s/held=%d", name, held), func(b *testing.B) {
				c := newCycle(b, held)
				b.ReportAllocs()
				for b.Loop() {
					if !run(c) {
						b.Fatal("not taken")
					}
				}
			})
		}
		f("oldest", (*cycle).oldest)
		f("newest", (*cycle).newest)
	}
}

// BenchmarkDue lets 1,000 events be redelivered, 64 at a time.
func BenchmarkDue(b *testing.B) {
	policy := testPolicy()
	policy.attempts = maxAttempts
	w := newWindow(newBudget(newPlan(b, policy)))
	list := make([]overdue, 0, 64)
	b.ReportAllocs()
	n, number, now := 0, int64(0), time.Duration(0)
	for b.Loop() {
		if w.count < 1000 {
			for w.count < 1000 {
				number++
				_ = w.sent(number, idOf(number), now)
			}
		}
		if list = w.due(now, list[:0]); len(list) == 0 {
			now, _ = w.next()
		}
		n += len(list)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(n, 1)), "ns/event")
}

// BenchmarkEnd ends a subscription with 1,000 unacknowledged events.
func BenchmarkEnd(b *testing.B) {
	budget := newBudget(newPlan(b, testPolicy()))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		w := newWindow(budget)
		for n := range int64(1000) {
			_ = w.sent(n+1, idOf(n+1), 0)
		}
		b.StartTimer()
		w.end()
	}
}

func BenchmarkDirectory(b *testing.B) {
	d := newDirectory[int](20_000)
	keys := make([]sessionKey, 10_000)
	for i := range keys {
		keys[i] = sessionKey{"", fmt.Sprintf("sess_%026d", i)}
		d.open(keys[i], 1, i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := keys[i%len(keys)]
		if !d.close(key, i%len(keys)) {
			b.Fatal("not held")
		}
		d.open(key, 1, i%len(keys))
	}
}
