package aepws

import (
	"fmt"
	"testing"

	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// feedBench is a feed of one loop whose sockets count bytes and keep none.
type feedBench struct {
	*feedRig
	event eventlog.Event
	next  int64
}

// newFeedBench makes sessions of one subscription each.
func newFeedBench(t testing.TB, sessions int, filter func(i int) string) *feedBench {
	x := &feedBench{feedRig: newFeedRig(t, feedConfig{})}
	for i := range sessions {
		n := x.open()
		n.Forget = true
		n.ask(filter(i))
	}
	x.run()
	x.event = x.stored(eventOf{id: "evt_01JZ0000000000000000000000", source: "agent:7", size: 200})
	x.next = 1
	return x
}

// deliver commits count events at once, and serves them.
func (x *feedBench) deliver(count int) {
	batch := make([]eventlog.Stored, count)
	for i := range batch {
		batch[i] = eventlog.Stored{Seq: x.next, StoredAt: x.clock.Now(), Event: x.event}
		x.next++
	}
	x.hub.committed(batch)
	l := x.loops[0]
	for l.Turn(0) {
	}
}

// BenchmarkFeedPass serves events of 400 bytes to 10,000 live subscriptions that
// get the same bytes; ns/delivery is per event and subscription.
func BenchmarkFeedPass(b *testing.B) {
	for _, mode := range []string{"best_effort", "at_least_once"} {
		for _, events := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/events=%d", mode, events), func(b *testing.B) {
				b.ReportAllocs()
				const sessions = 10_000
				filter := fmt.Sprintf(`{"types":"*","delivery_mode":%q}`, mode)
				x := newFeedBench(b, sessions, func(int) string { return filter })
				for b.Loop() {
					x.deliver(events)
					if mode != "best_effort" {
						b.StopTimer()
						x.acknowledgeAll()
						b.StartTimer()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(sessions*events), "ns/delivery")
			})
		}
	}
}

// acknowledgeAll empties all windows.
func (x *feedBench) acknowledgeAll() {
	for _, n := range x.lines {
		for _, s := range n.kept.list {
			if s.owing != nil {
				s.owing.window.end()
				s.owing.window.ended = false
			}
		}
	}
}

// BenchmarkFeedMatch delivers one event that one of many distinct filters
// selects: the cost must not grow with their number.
func BenchmarkFeedMatch(b *testing.B) {
	for _, filters := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint("filters=", filters), func(b *testing.B) {
			b.ReportAllocs()
			x := newFeedBench(b, filters, func(i int) string { return fmt.Sprintf(`{"source":"agent:%d"}`, i) })
			for b.Loop() {
				x.deliver(1)
			}
		})
	}
}

// BenchmarkFeedReplay replays 10,000 events of the tail to one connection.
func BenchmarkFeedReplay(b *testing.B) {
	b.ReportAllocs()
	const events = 10_000
	x := newFeedBench(b, 0, nil)
	x.deliver(events)
	for b.Loop() {
		n := x.open()
		n.Forget = true
		n.subscribe(fromNothing)
		if n.Written < events*400 {
			b.Fatalf("%d bytes of a replay", n.Written)
		}
		n.Reset()
		x.run()
		x.lines = x.lines[:0]
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

// BenchmarkFeedLaggards lets 5,000 best_effort subscriptions fall behind by 50
// events each, and then take them all.
func BenchmarkFeedLaggards(b *testing.B) {
	b.ReportAllocs()
	const sessions, events = 5000, 50
	x := newFeedBench(b, sessions, func(int) string { return all })
	for b.Loop() {
		for _, n := range x.lines {
			n.Stall()
		}
		for range events / 10 {
			x.deliver(10)
		}
		for _, n := range x.lines {
			n.Room(simloop.Unlimited)
		}
		x.run()
		if len(x.hub.feeds[0].behind) != 0 {
			b.Fatal("a laggard did not come back")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(sessions*events), "ns/delivery")
}

// TestFeedPassAllocations: a pass allocates for its events and nothing for its
// subscriptions.
func TestFeedPassAllocations(t *testing.T) {
	few := newFeedBench(t, 10, func(int) string { return all })
	many := newFeedBench(t, 2000, func(int) string { return all })
	few.deliver(64)
	many.deliver(64)
	a := testing.AllocsPerRun(50, func() { few.deliver(64) })
	b := testing.AllocsPerRun(50, func() { many.deliver(64) })
	if b > a+3 {
		t.Errorf("a pass over 10 subscriptions makes %v allocations, over 2,000 %v", a, b)
	}
}
