package firehose

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

// crowd returns a rig with so many live consumers whose sockets keep nothing.
func crowd(t testing.TB, count, replayFrames int) *loopRig {
	cfg := bounded(replayFrames)
	cfg.Settings.MaxConsumers = count + 1
	r := newLoopRig(t, cfg)
	for range count {
		w := r.subscribe("")
		w.Socket.Forget = true
	}
	if n := len(r.surface.feeds[0].groups[0].members); n != count {
		t.Fatalf("%d are live", n)
	}
	return r
}

// later is a deadline that is never reached.
func (r *loopRig) later() time.Time { return r.clock.Now().Add(time.Hour) }

// A pass, and the catching up of one consumer, allocate nothing.
func TestDeliveryAllocates(t *testing.T) {
	const runs = 50
	r := crowd(t, 100, 100_000)
	old := r.subscribe("")
	old.Stall()
	old.Socket.Forget = true
	r.publish(2, 100)
	c := r.only()
	for range (runs + 3) * batchFrames {
		r.put(KindCommit, 200)
	}
	f := r.surface.feeds[0]
	g := f.groups[0]
	pass := func() { g.begin(); g.serve(r.later()) }
	pass()
	if n := testing.AllocsPerRun(runs, pass); n != 0 {
		t.Errorf("%v allocations in a pass", n)
	}
	r.run()
	old.Room(simloop.Unlimited)
	old.Handler.OnWritable()
	for range 2 {
		f.serveReady(r.later())
	}
	from := c.pos
	if n := testing.AllocsPerRun(runs-5, func() { f.serveReady(r.later()) }); n != 0 {
		t.Errorf("%v allocations in a batch of one that catches up", n)
	}
	if got := int(c.pos - from); got != (runs-4)*batchFrames {
		t.Errorf("it was given %d frames, so that proves nothing", got)
	}
}

// BenchmarkPass is one frame to all who are live on a loop.
func BenchmarkPass(b *testing.B) {
	for _, count := range []int{1000, 10_000} {
		for _, frames := range []int{1, 16} {
			b.Run(fmt.Sprintf("consumers=%d/frames=%d", count, frames), func(b *testing.B) {
				r := crowd(b, count, 1000)
				f := r.surface.feeds[0]
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					b.StopTimer()
					for range frames {
						r.put(KindCommit, 400)
					}
					b.StartTimer()
					f.Drain(r.later())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count*frames), "ns/delivery")
			})
		}
	}
}

// BenchmarkCatchUp is the replay of a full ring by one consumer.
func BenchmarkCatchUp(b *testing.B) {
	for _, size := range []int{400, 4000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			const frames = 10_000
			r := crowd(b, 1, frames)
			for range frames {
				r.put(KindCommit, size)
			}
			r.run()
			w := r.subscribe("")
			w.Socket.Forget = true
			f := r.surface.feeds[0]
			c := f.groups[0].members[1].c
			b.SetBytes(int64(frames * (size + 4)))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				f.remove(c)
				f.add(c, f.ring.Oldest())
				for c.isBehind() {
					f.serveReady(r.later())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*frames), "ns/frame")
		})
	}
}

// BenchmarkManyBehind is the look at consumers that are all behind.
func BenchmarkManyBehind(b *testing.B) {
	const count = 1000
	r := crowd(b, count, 1<<20)
	for _, w := range r.wires {
		w.Stall()
	}
	r.publish(1, 400)
	f := r.surface.feeds[0]
	if len(f.behind) != count {
		b.Fatalf("%d are behind", len(f.behind))
	}
	for _, c := range f.behind {
		c.exclude = stream.KindsOf(KindSync) // the dearer look
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		f.swept = time.Time{}
		f.sweep()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/consumer")
	b.StopTimer()
	for _, c := range f.behind {
		c.exclude = 0
	}
}
