package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

// TestChaos: whatever clients do to their own connections, in any mixture, no
// other consumer misses, repeats or reorders an event, every acknowledged event
// arrives, and the relay's gauges come back to where they were (R14, R190,
// R193, R281, R334).
func TestChaos(t *testing.T) {
	t.Parallel()
	p := startRelay(t, "AEP_BUFFER=2000")
	seed := newSeed(t)
	base := gauges(t, p)
	h := startHealthy(t, p.Addr, "healthy", 6, 400)

	var count [64]atomic.Int64 // of each fault
	var wg sync.WaitGroup
	var failed failure
	end := time.Now().Add(scale(7*time.Second, 2*time.Second))
	for worker := range uint64(scale(32, 16)) {
		wg.Go(func() {
			r := faults.NewRand(seed, worker)
			for time.Now().Before(end) && failed.get() == nil {
				i := r.IntN(len(faults.Faults))
				if err := faults.Faults[i].Do(r, p.Addr); err != nil {
					failed.set(fmt.Errorf("fault %q: %w", faults.Faults[i].Name, err))
				}
				count[i].Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.get(); err != nil {
		t.Error(err)
	}
	h.end()
	h.checkDelay("R425", 5*time.Second)
	for i, f := range faults.Faults {
		if n := count[i].Load(); n > 0 {
			t.Logf("%5d x %s", n, f.Name)
		}
	}
	must(t, "R281, R334: after all left", p.AwaitBaseline(base, patience))
}

// TestEachFault commits each fault some times alone, so that one which harms is
// named.
func TestEachFault(t *testing.T) {
	t.Parallel()
	p := startRelay(t, "AEP_BUFFER=200")
	r := faults.NewRand(newSeed(t), 0)
	base := gauges(t, p)
	for _, f := range faults.Faults {
		var wg sync.WaitGroup
		for range scale(10, 4) {
			own := faults.NewRand(r.Uint64(), 0)
			wg.Go(func() {
				if err := f.Do(own, p.Addr); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
			})
		}
		wg.Wait()
		if err := p.AwaitBaseline(base, patience); err != nil {
			t.Fatalf("after %q: %v", f.Name, err)
		}
		for _, line := range p.Problems() {
			t.Fatalf("R14: after %q: %s", f.Name, line)
		}
	}
}
