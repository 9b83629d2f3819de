package limit

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// epoch is the start of every simulated clock.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return epoch.Add(d) }

func TestRate(t *testing.T) {
	type call struct {
		at    time.Duration
		n     int
		ok    bool
		retry time.Duration
	}
	const s, ms = time.Second, time.Millisecond
	f := func(name string, rate, burst int, calls ...call) {
		t.Helper()
		r := NewRate(rate, burst, epoch)
		for i, c := range calls {
			ok, retry := r.Allow(ip("192.0.2.1"), c.n, after(c.at))
			if ok != c.ok || retry != c.retry {
				t.Errorf("%s: call %d: %v, retry after %v, want %v, %v", name, i, ok, retry, c.ok, c.retry)
			}
		}
	}
	f("burst, then the rate", 10, 20,
		call{0, 20, true, 0}, call{0, 1, false, 100 * ms}, call{99 * ms, 1, false, 1 * ms},
		call{100 * ms, 1, true, 0}, call{100 * ms, 2, false, 200 * ms}, call{300 * ms, 2, true, 0})
	f("one by one", 3, 6,
		call{0, 1, true, 0}, call{0, 1, true, 0}, call{0, 1, true, 0}, call{0, 1, true, 0}, call{0, 1, true, 0},
		call{0, 1, true, 0}, call{0, 1, false, 333333331})
	f("a refusal costs nothing", 10, 10,
		call{0, 10, true, 0}, call{0, 5, false, 500 * ms}, call{0, 5, false, 500 * ms}, call{500 * ms, 5, true, 0})
	f("a bucket is not filled over its burst", 10, 10,
		call{0, 1, true, 0}, call{3600 * s, 10, true, 0}, call{3600 * s, 1, false, 100 * ms})
	f("a batch over the burst, bucket full", 10, 10,
		call{0, 100, true, 0},        // owes 90: ten seconds until it is full
		call{0, 1, false, 9100 * ms}, // needs one event in it
		call{0, 100, false, 10 * s},  // needs it full
		call{0, 10, false, 10 * s},   // the same
		call{9100 * ms, 1, true, 0},  // and owes 9.9 s - 9.1 s + 0.1 s again
		call{9100 * ms, 100, false, s}, call{10100 * ms, 100, true, 0})
	f("a batch over the burst, bucket not full", 10, 10,
		call{0, 1, true, 0}, call{0, 11, false, 100 * ms}, call{100 * ms, 11, true, 0}, call{100 * ms, 1, false, 200 * ms})
	f("nothing to take", 10, 10,
		call{0, 10, true, 0}, call{0, 0, true, 0}, call{0, -5, true, 0}, call{0, 1, false, 100 * ms})
	f("an older clock", 10, 10,
		call{s, 10, true, 0}, call{0, 1, false, 1100 * ms}, call{-s, 1, false, 1100 * ms}, call{s, 1, false, 100 * ms})
	f("least burst", 1, 0, call{0, 1, true, 0}, call{0, 1, false, s})
	f("largest rate", MaxRate, MaxBurst, call{0, MaxBurst, true, 0}, call{0, 1, false, 100}, call{100, 1, true, 0})
	f("over the largest rate", math.MaxInt, math.MaxInt, call{0, MaxBurst, true, 0}, call{0, 1, false, 100})
	// No sum overflows: refused for as long as a clock can tell, then let in.
	f("largest batch", 1, 1, call{0, math.MaxInt, true, 0}, call{0, math.MaxInt, false, spanBound},
		call{0, 1, false, spanBound}, call{math.MaxInt64, math.MaxInt, true, 0})
}

func TestRateOff(t *testing.T) {
	for _, rate := range []int{0, -1} {
		r := NewRate(rate, 1, epoch)
		if ok, _ := r.Allow(ip("192.0.2.1"), math.MaxInt, epoch); !ok || r.Len() != 0 {
			t.Error("limits without a rate")
		}
	}
	r := NewRate(1, 1, epoch)
	for range 3 {
		if ok, retry := r.Allow(netip.Addr{}, 5, epoch); !ok || retry != 0 {
			t.Error("a peer without an address is limited")
		}
	}
	if r.Len() != 0 {
		t.Error("a peer without an address is remembered")
	}
}

// Addresses have buckets of their own, hosts of one /64 share one.
func TestRatePerAddress(t *testing.T) {
	r := NewRate(1, 1, epoch)
	f := func(addr string, want bool) {
		t.Helper()
		if ok, _ := r.Allow(ip(addr), 1, epoch); ok != want {
			t.Errorf("%s: %v, want %v", addr, ok, want)
		}
	}
	f("192.0.2.1", true)
	f("192.0.2.1", false)
	f("::ffff:192.0.2.1", false)
	f("192.0.2.2", true)
	f("2001:db8::1", true)
	f("2001:db8::2", false)
	f("2001:db8:0:1::1", true)
}

// T1: the table is bounded; buckets that are full again go first, then the
// one that was idle for the longest time. A bucket in use is kept.
func TestRateForgets(t *testing.T) {
	const buckets = 4
	r := newRate(1, 1, epoch, buckets)
	for i := range 10_000 {
		r.Allow(numbered(i), 1, epoch)
		if ok, _ := r.Allow(ip("192.0.2.1"), 1, epoch); ok != (i == 0) {
			t.Fatalf("after %d others the bucket in use: %v", i, ok)
		}
	}
	if n := r.Len(); n != buckets*shardCount {
		t.Errorf("T1: %d buckets, want %d", n, buckets*shardCount)
	}
	for i := range r.shards {
		if n := len(r.shards[i].buckets); n != buckets+1 {
			t.Errorf("T1: %d elements in a shard, want %d", n, buckets+1)
		}
	}
	// All are full again after a second: new ones take their place.
	for i := range 2 * shardCount {
		r.Allow(numbered(1<<20+i), 1, after(time.Minute))
	}
	if n := r.Len(); n >= buckets*shardCount {
		t.Errorf("%d buckets a minute later: none was dropped", n)
	}
}

// One bucket drops two that are full again, so a large table becomes small
// again without a timer.
func TestRateTableShrinks(t *testing.T) {
	r := NewRate(1, 1, epoch)
	const many = 20_000
	for i := range many {
		r.Allow(numbered(i), 1, epoch)
	}
	if n := r.Len(); n != many {
		t.Fatalf("%d buckets, want %d", n, many)
	}
	for i := range 2 * many {
		r.Allow(numbered(many+i), 1, after(time.Hour+time.Duration(i)*time.Second))
	}
	if n := r.Len(); n > 4*shardCount {
		t.Errorf("%d buckets are remembered of addresses that pay back in a second", n)
	}
}

// A random run against a plain model with one number per address, the bound
// T2, and the promise that the same call passes after the time it was told.
func TestRateAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	const rate, burst, largest = 50, 120, 300
	r := NewRate(rate, burst, epoch)
	level := map[int]float64{}
	last := map[int]time.Duration{}
	granted := map[int]int{}
	now := time.Duration(0)
	for step := range 20_000 {
		now += time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
		who, n := rng.IntN(5), 1+rng.IntN(20)
		if rng.IntN(20) == 0 {
			n = 1 + rng.IntN(largest)
		}
		if _, known := level[who]; !known {
			level[who] = burst
		}
		level[who] = min(level[who]+rate*(now-last[who]).Seconds(), burst)
		last[who] = now
		ok, retry := r.Allow(numbered(who), n, after(now))
		need := float64(min(n, burst))
		const rounding = 1e-3
		if want := level[who] >= need; ok != want && math.Abs(level[who]-need) > rounding {
			t.Fatalf("seed %d, step %d: %d events with %.3f in the bucket: %v", seed, step, n, level[who], ok)
		}
		if !ok {
			if wait := (need - level[who]) / rate; math.Abs(retry.Seconds()-wait) > rounding {
				t.Fatalf("seed %d, step %d: retry after %v, want %.3f s", seed, step, retry, wait)
			}
			if rng.IntN(10) > 0 {
				continue
			}
			now += retry
			level[who] = min(level[who]+rate*retry.Seconds(), burst)
			last[who] = now
			if ok, _ := r.Allow(numbered(who), n, after(now)); !ok {
				t.Fatalf("seed %d, step %d: refused after the time that was told", seed, step)
			}
		}
		level[who] -= float64(n)
		granted[who] += n
	}
	for who, n := range granted {
		if most := largest + rate*now.Seconds() + 1; float64(n) > most {
			t.Errorf("seed %d: T2: %d was granted %d events, more than %.0f", seed, who, n, most)
		}
		if float64(n) < rate*now.Seconds()/20 {
			t.Errorf("seed %d: %d was granted only %d events", seed, who, n)
		}
	}
}

// T2 under concurrency: callers together get the burst and no more.
func TestRateConcurrently(t *testing.T) {
	const burst = 1000
	r := newRate(1, burst, epoch, 64)
	var granted atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				if ok, _ := r.Allow(ip("2001:db8::1"), 1, epoch); ok {
					granted.Add(1)
				}
				r.Allow(numbered(g*1000+i), 1, after(time.Duration(i)*time.Millisecond))
			}
		})
	}
	wg.Wait()
	if granted.Load() != burst {
		t.Errorf("granted %d, want %d", granted.Load(), burst)
	}
	if n := r.Len(); n > 64*shardCount {
		t.Errorf("T1: %d buckets", n)
	}
}

func TestRateDoesNotAllocate(t *testing.T) {
	r := newRate(1000, 1, epoch, 8) // so that addresses are forgotten and made
	i := 0
	step := func() {
		r.Allow(numbered(i%1024), 1, after(time.Duration(i)))
		i++
	}
	for range 4096 {
		step()
	}
	if n := testing.AllocsPerRun(4096, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
