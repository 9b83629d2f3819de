package faults_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

const (
	benchHealthy = 200
	benchStalled = 20

	// benchPrefill is more than the kernel's buffers hold, so that the stalled
	// ones owe something from then on; with all that follows it is less than
	// what they would be cut for.
	benchPrefill = 2000 // events
	benchRate    = 100  // events a second, while latency is measured
	benchTime    = 2 * time.Second
	benchIngest  = 4000 // events, as fast as they are taken
	benchBatch   = 20
	benchPad     = 600 // bytes
)

// benchRound is what one relay did.
type benchRound struct {
	p50, p99 time.Duration // from intended send to the healthy consumers
	ingest   float64       // events a second, to the last 202
}

// BenchmarkStalled compares 200 healthy consumers with 20 stalled ones beside
// them to 200 healthy ones alone, by turns in one run. It reports the medians
// of the rounds: p99-ratio should be at most 1.5 and ingest-ratio at least 0.9
// (R425, C42).
func BenchmarkStalled(b *testing.B) {
	var alone, beside []benchRound
	for b.Loop() {
		if len(alone)%2 == 0 { // neither is always the first
			alone = append(alone, runRound(b, 0))
			beside = append(beside, runRound(b, benchStalled))
		} else {
			beside = append(beside, runRound(b, benchStalled))
			alone = append(alone, runRound(b, 0))
		}
	}
	p99 := func(r benchRound) float64 { return float64(r.p99.Microseconds()) / 1000 }
	ingest := func(r benchRound) float64 { return r.ingest }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(medianOf(alone, p99), "p99-ms")
	b.ReportMetric(medianOf(beside, p99), "p99-stalled-ms")
	b.ReportMetric(medianOf(beside, p99)/medianOf(alone, p99), "p99-ratio")
	b.ReportMetric(medianOf(alone, ingest), "ingest/s")
	b.ReportMetric(medianOf(beside, ingest), "ingest-stalled/s")
	b.ReportMetric(medianOf(beside, ingest)/medianOf(alone, ingest), "ingest-ratio")
}

func medianOf(rounds []benchRound, of func(benchRound) float64) float64 {
	var v []float64
	for _, r := range rounds {
		v = append(v, of(r))
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// runRound measures one relay.
func runRound(b *testing.B, stalled int) benchRound {
	b.Helper()
	p, err := spawn()
	must(b, "start", err)
	defer endRelay(b, p)
	for i := range stalled {
		c, err := faults.OpenConsumer(p.Addr, faults.Subscription{Socket: i%2 == 0, RecvBytes: 4 << 10, BufferBytes: 16})
		must(b, "stalled consumer", err)
		defer c.Reset()
	}
	g := startBenchGroup(b, p.Addr)
	pub := faults.NewPublisher(p.Addr, "bench")
	defer pub.Close()
	pub.PadBytes = func(uint64) int { return benchPad }

	for pub.Acked() < benchPrefill {
		must(b, "publish", pub.Publish(benchBatch))
		g.await(b, pub.Acked())
	}
	var r benchRound
	r.p50, r.p99 = g.latency(b, pub)
	begin := time.Now()
	for range benchIngest / benchBatch {
		must(b, "publish", pub.Publish(benchBatch))
	}
	r.ingest = benchIngest / time.Since(begin).Seconds()
	g.await(b, pub.Acked())
	g.end(b)
	h, err := p.Health()
	must(b, "health", err)
	if h.Subscribers < stalled {
		b.Errorf("%d of %d stalled consumers are left: they were not stalled but cut", h.Subscribers, stalled)
	}
	return r
}

// benchGroup is the healthy consumers.
type benchGroup struct {
	readers []*reader
	mu      sync.Mutex
	took    []time.Duration
}

func startBenchGroup(b *testing.B, addr string) *benchGroup {
	g := &benchGroup{}
	for i := range benchHealthy {
		r := newReader("bench")
		r.each = g.time
		r.start(b, addr, faults.Subscription{Socket: i%2 == 0, BufferBytes: 16 << 10})
		g.readers = append(g.readers, r)
	}
	return g
}

// time notes how long after its intended time an event came.
func (g *benchGroup) time(text []byte) {
	now := time.Now().UnixNano()
	e, err := faults.Unseal(text)
	if err != nil || e.Stamp == 0 {
		return
	}
	g.mu.Lock()
	g.took = append(g.took, time.Duration(now-e.Stamp))
	g.mu.Unlock()
}

// await waits until all have n events.
func (g *benchGroup) await(b *testing.B, n uint64) {
	b.Helper()
	for i, r := range g.readers {
		r.await(b, fmt.Sprintf("healthy consumer %d: %d events", i, n), n)
	}
}

// latency publishes at a constant rate, whatever the answers take, and returns
// the median and the 99th percentile over all deliveries.
func (g *benchGroup) latency(b *testing.B, pub *faults.Publisher) (p50, p99 time.Duration) {
	b.Helper()
	var due time.Time
	pub.Stamp = func() int64 { return due.UnixNano() }
	begin := time.Now()
	for n := range int(benchTime.Seconds() * benchRate) {
		due = begin.Add(time.Duration(n) * time.Second / benchRate)
		time.Sleep(time.Until(due)) // pacing
		must(b, "publish", pub.Publish(1))
	}
	pub.Stamp = nil
	g.await(b, pub.Acked())
	g.mu.Lock()
	defer g.mu.Unlock()
	p50, p99, _ = quantiles(g.took)
	return p50, p99
}

func (g *benchGroup) end(b *testing.B) {
	b.Helper()
	for _, r := range g.readers {
		r.end(b)
	}
}
