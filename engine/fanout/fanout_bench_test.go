package fanout_test

import (
	"fmt"
	"testing"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

// bench is an engine of one loop whose sockets count bytes and keep none.
type bench struct {
	*simloop.Engine
	seq   int64
	spare []*stream.Entry // of session s0, not yet appended
}

func newBench(limits fanout.Limits) *bench {
	return &bench{Engine: simloop.New(simloop.Config{
		Limits:  limits,
		Buffers: session.Config{EventsPerSession: 20_000, Sessions: 20_000},
	})}
}

// connect makes members of one subscription each.
func (b *bench) connect(t testing.TB, members, room int, filter func(i int) string) (conns []*simloop.Conn) {
	for i := range members {
		c := b.Connect(fmt.Sprint("c", i), 0, simloop.Unlimited, false)
		c.Socket.Forget = true
		c.Subscribe(subscription(t, "a", filter(i)), fanout.Plan{})
		conns = append(conns, c)
	}
	settle(t, b.Engine)
	for _, c := range conns {
		c.Socket.Stall()
		c.Socket.Room(room)
	}
	return conns
}

func everything(int) string { return "all" }

// stock makes entries ahead, so that what is measured is their delivery.
func (b *bench) stock(n int) {
	for len(b.spare) < n {
		b.seq++
		b.spare = append(b.spare, event("s0", b.seq).Entry())
	}
}

// deliver appends n entries to the log alone and serves them.
func (b *bench) deliver(n int) {
	for _, e := range b.spare[:n] {
		b.Log.Append(e)
	}
	b.spare = b.spare[n:]
	l := b.Loops[0]
	l.Ring()
	for l.Turn(0) {
	}
}

// TestPassAllocations: serving a pass allocates nothing, whatever the number of
// members and events.
func TestPassAllocations(t *testing.T) {
	for _, events := range []int{1, 64} {
		b := newBench(fanout.Limits{})
		b.connect(t, 1000, simloop.Unlimited, everything)
		b.stock(1000 * events)
		b.deliver(events)
		before := b.Sets[0].Stats().Deliveries
		n := testing.AllocsPerRun(100, func() { b.deliver(events) })
		if got := b.Sets[0].Stats().Deliveries - before; got != int64(101*1000*events) {
			t.Fatalf("%d deliveries", got)
		}
		if n != 0 {
			t.Errorf("%d events to 1,000 members: %v allocations", events, n)
		}
	}
}

// BenchmarkPass serves one pass to a group of 1,000 members. Frames are 100
// bytes; ns/delivery is per event and member.
func BenchmarkPass(b *testing.B) {
	for _, events := range []int{1, 64} {
		b.Run(fmt.Sprint("events=", events), func(b *testing.B) {
			b.ReportAllocs()
			const members = 1000
			x := newBench(fanout.Limits{})
			x.connect(b, members, simloop.Unlimited, everything)
			for b.Loop() {
				if len(x.spare) < events {
					b.StopTimer()
					x.stock(64 * events)
					b.StartTimer()
				}
				x.deliver(events)
			}
			b.SetBytes(int64(members * events * 100))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(members*events), "ns/delivery")
		})
	}
}

// BenchmarkMatch delivers one event that one of many distinct filters selects:
// the cost must not grow with their number.
func BenchmarkMatch(b *testing.B) {
	for _, filters := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint("filters=", filters), func(b *testing.B) {
			b.ReportAllocs()
			x := newBench(fanout.Limits{})
			x.connect(b, filters, simloop.Unlimited, func(i int) string { return fmt.Sprint("session:s", i) })
			for b.Loop() {
				if len(x.spare) == 0 {
					b.StopTimer()
					x.stock(1000)
					b.StartTimer()
				}
				x.deliver(1)
			}
		})
	}
}

// BenchmarkLagEnqueue gives passes of 64 events to 100 members that lag: what
// is queued is references.
func BenchmarkLagEnqueue(b *testing.B) {
	b.ReportAllocs()
	const members, events = 100, 64
	limits := fanout.Limits{SoftBytes: 1 << 40, HardBytes: 1 << 40}
	x := newBench(limits)
	conns := x.connect(b, members, 0, everything)
	passes := 0
	for b.Loop() {
		if len(x.spare) < events {
			b.StopTimer()
			x.stock(16 * events)
			b.StartTimer()
		}
		if passes++; passes%256 == 0 {
			b.StopTimer()
			for _, c := range conns {
				c.Socket.Room(simloop.Unlimited)
			}
			settle(b, x.Engine)
			for _, c := range conns {
				c.Socket.Stall()
			}
			b.StartTimer()
		}
		x.deliver(events)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(members*events), "ns/record")
}

// BenchmarkResume replays 10,000 events of one session to one connection.
func BenchmarkResume(b *testing.B) {
	b.ReportAllocs()
	const events = 10_000
	x := newBench(fanout.Limits{})
	for i := range int64(events) {
		x.Append(event("s0", i))
	}
	plan := fanout.Plan{From: []fanout.From{{Session: "s0", After: stream.Sequence{Seq: -1}}}}
	for b.Loop() {
		c := x.Connect("c", 0, simloop.Unlimited, false)
		c.Socket.Forget = true
		c.Subscribe(subscription(b, "a", "session:s0"), plan)
		settle(b, x.Engine)
		if c.Socket.Written < events*100 {
			b.Fatalf("%d bytes of a replay", c.Socket.Written)
		}
		c.Close()
		settle(b, x.Engine)
		x.Conns = x.Conns[:0]
	}
	b.SetBytes(events * 100)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

// BenchmarkLaggards lets 5,000 members fall behind by 50 events each, in five
// passes, and then take them all.
func BenchmarkLaggards(b *testing.B) {
	b.ReportAllocs()
	const members, events = 5000, 50
	x := newBench(fanout.Limits{})
	conns := x.connect(b, members, 0, everything)
	for b.Loop() {
		x.stock(events)
		for range events / 10 {
			x.deliver(10)
		}
		for _, c := range conns {
			c.Socket.Room(simloop.Unlimited)
		}
		settle(b, x.Engine)
		for _, c := range conns {
			if !c.Member.Live() {
				b.Fatal("a laggard did not come back")
			}
			c.Socket.Stall()
		}
	}
	b.SetBytes(members * events * 100)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(members*events), "ns/delivery")
}
