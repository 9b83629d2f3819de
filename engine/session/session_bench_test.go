package session

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

const fullBuffer = 10_000 // the default of AEP_BUFFER

// benchEntries returns entries that are ready to put, so that a benchmark
// counts no allocation but the buffers' own.
func benchEntries(n int, session func(i int) string, seq func(i int) int64) ([]stream.Entry, []Key) {
	entries, keys := make([]stream.Entry, n), make([]Key, n)
	for i := range entries {
		entries[i] = stream.Entry{Session: session(i), Sequence: stream.Sequence{Seq: seq(i)}, Sequenced: true}
		keys[i] = keyOf(uint64(i))
	}
	return entries, keys
}

func oneSession(int) string { return "s" }

func ascending(i int) int64 { return int64(i) }

// smallLog has a short window, so that the buffers alone retain entries.
func smallLog() *stream.Log { return stream.NewLog(1024, math.MaxInt64) }

// putAll measures puts of fresh entries in batches, after the first warm ones.
func putAll(b *testing.B, cfg Config, batch, warm int, session func(int) string, seq func(int) int64) {
	b.ReportAllocs()
	puts := 0
	for b.Loop() {
		b.StopTimer()
		entries, keys := benchEntries(warm+batch, session, seq)
		bufs := New(cfg, smallLog())
		for i := range warm {
			bufs.Put(&entries[i], keys[i])
		}
		b.StartTimer()
		for i := warm; i < len(entries); i++ {
			bufs.Put(&entries[i], keys[i])
		}
		puts += batch
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(puts), "ns/put")
}

// BenchmarkPut has the shapes of R470. The allocations are per batch of 50,000
// (in order) or 10,000.
func BenchmarkPut(b *testing.B) {
	cfg := Config{EventsPerSession: fullBuffer, Sessions: 500}
	random := rand.New(rand.NewPCG(1, 1))
	hundred := make([]string, 100)
	for i := range hundred {
		hundred[i] = fmt.Sprint("session-", i)
	}
	b.Run("in order, trimming, 50000", func(b *testing.B) {
		putAll(b, cfg, 50_000, fullBuffer, oneSession, ascending)
	})
	b.Run("in order, 100 sessions of 100, 50000", func(b *testing.B) {
		putAll(b, Config{EventsPerSession: 100, Sessions: 500}, 50_000, fullBuffer,
			func(i int) string { return hundred[i%100] }, ascending)
	})
	b.Run("in order, byte bound, 50000", func(b *testing.B) {
		putAll(b, Config{EventsPerSession: fullBuffer, Sessions: 500, Bytes: 1000 * SlotBytes}, 50_000, fullBuffer,
			func(i int) string { return hundred[i%100] }, ascending)
	})
	b.Run("into nothing, 50000", func(b *testing.B) {
		putAll(b, Config{Sessions: 500}, 50_000, 0, oneSession, ascending)
	})
	b.Run("ascending batch 10000", func(b *testing.B) {
		putAll(b, cfg, 10_000, 0, oneSession, ascending)
	})
	b.Run("descending batch 10000", func(b *testing.B) {
		putAll(b, cfg, 10_000, 0, oneSession, func(i int) int64 { return int64(10_000 - i) })
	})
	b.Run("descending batch 10000, full buffer below", func(b *testing.B) {
		putAll(b, cfg, 10_000, fullBuffer, oneSession, func(i int) int64 { return int64((i/fullBuffer)*100_000 - i) })
	})
	b.Run("random batch 10000", func(b *testing.B) {
		putAll(b, cfg, 10_000, 0, oneSession, func(int) int64 { return random.Int64N(1 << 40) })
	})
	b.Run("random, trimming, 10000", func(b *testing.B) {
		putAll(b, cfg, 10_000, fullBuffer, oneSession, func(int) int64 { return random.Int64N(1 << 40) })
	})
	b.Run("new session each time, 10000", func(b *testing.B) {
		putAll(b, cfg, 10_000, 1000, func(i int) string { return fmt.Sprint(i) }, ascending)
	})
}

// BenchmarkPutParallel: writers of different sessions.
func BenchmarkPutParallel(b *testing.B) {
	bufs := New(Config{EventsPerSession: 1000, Sessions: 500}, smallLog())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		rnd := rand.Uint64()
		session := fmt.Sprint(rnd)
		for n := int64(0); pb.Next(); n++ {
			e := &stream.Entry{Session: session, Sequence: stream.Sequence{Seq: n}, Sequenced: true}
			bufs.Put(e, keyOf(rnd+uint64(n)<<1))
		}
	})
}

// full returns a buffer with fullBuffer entries in order.
func full(b testing.TB) (*Buffers, *stream.Log) {
	b.Helper()
	log := smallLog()
	bufs := New(Config{EventsPerSession: fullBuffer, Sessions: 500}, log)
	entries, keys := benchEntries(fullBuffer, oneSession, ascending)
	for i := range entries {
		bufs.Put(&entries[i], keys[i])
	}
	return bufs, log
}

// BenchmarkResume starts at random positions of a full buffer (R471): the
// start alone, and with the first 100 entries.
func BenchmarkResume(b *testing.B) {
	bufs, log := full(b)
	dst := make([]*stream.Entry, 0, fullBuffer)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 100, fullBuffer} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				after := rnd.Int64N(fullBuffer)
				if n == fullBuffer {
					after = -1
				}
				r, _, _ := bufs.Start("s", stream.Sequence{Seq: after}, log.Next())
				if n > 0 {
					bufs.Next(&r, dst, n, math.MaxInt)
				}
			}
		})
	}
	// All of the buffer is live: nothing of it is owed.
	b.Run("all live", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bufs.Start("s", stream.Sequence{Seq: -1}, 2)
		}
	})
}

// BenchmarkRetained reports what a full buffer retains per entry on top of the
// entries, and what an idle session of one entry does.
func BenchmarkRetained(b *testing.B) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name    string
		entries int
		limit   int
		session func(int) string
		seq     func(int) int64
	}{
		{"in order, 10000", fullBuffer, fullBuffer, oneSession, ascending},
		{"sliding, 10000", 8 * fullBuffer, fullBuffer, oneSession, ascending},
		{"random, 10000", fullBuffer, fullBuffer, oneSession, func(int) int64 { return random.Int64N(1 << 40) }},
		{"100 each", 500 * 100, 100, func(i int) string { return fmt.Sprint(i % 500) }, ascending},
		{"1 each", 10_000, 1, func(i int) string { return fmt.Sprint(i) }, ascending},
	} {
		b.Run(c.name, func(b *testing.B) {
			var perEntry float64
			for b.Loop() {
				entries, keys := benchEntries(c.entries, c.session, c.seq)
				bufs := New(Config{EventsPerSession: c.limit, Sessions: 20_000}, smallLog())
				before := heap()
				for i := range entries {
					bufs.Put(&entries[i], keys[i])
				}
				perEntry = (float64(heap()) - float64(before)) / float64(bufs.Events())
				runtime.KeepAlive(entries)
				runtime.KeepAlive(keys)
			}
			b.ReportMetric(perEntry, "B/entry")
		})
	}
}

// TestAllocations: in the steady state a put allocates only a chunk now and
// then, less than one allocation in 100 puts; a resume and its windows nothing.
func TestAllocations(t *testing.T) {
	bufs, log := full(t)
	const puts = 50_000
	entries, keys := benchEntries(puts, oneSession, ascending)
	for i := range entries {
		entries[i].Seq += fullBuffer
		keys[i] = keyOf(uint64(fullBuffer + i))
	}
	if got := testing.AllocsPerRun(1, func() {
		for i := range entries[:puts/2] {
			bufs.Put(&entries[0], keys[0])
			entries, keys = entries[1:], keys[1:]
			_ = i
		}
	}); got > puts/2/100 {
		t.Errorf("%v allocations in %d puts in order", got, puts/2)
	}
	if bufs.Events() != fullBuffer {
		t.Fatalf("%d events held", bufs.Events())
	}
	dup := make([]stream.Entry, 102)
	for i := range dup {
		dup[i] = stream.Entry{Session: "s", Sequence: stream.Sequence{Seq: fullBuffer + puts - 1}}
	}
	if got := testing.AllocsPerRun(100, func() {
		bufs.Put(&dup[0], keyOf(fullBuffer+puts-1))
		dup = dup[1:]
	}); got != 0 {
		t.Errorf("%v allocations for a duplicate", got)
	}
	dst := make([]*stream.Entry, 0, 64)
	if got := testing.AllocsPerRun(100, func() {
		r, _, _ := bufs.Start("s", stream.Sequence{Seq: fullBuffer + puts/2}, log.Next())
		for done := false; !done; {
			_, _, _, done = bufs.Next(&r, dst, 64, math.MaxInt)
		}
	}); got != 0 {
		t.Errorf("%v allocations for a resume", got)
	}
}
