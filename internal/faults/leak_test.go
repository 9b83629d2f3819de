package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	// leakSlack and leakShare are how much more memory the relay may use after
	// all cycles than after the first tenth of them.
	leakSlack = 8 << 20
	leakShare = 20 // a twentieth: 5 %

	leakWorkers = 48
	// silent is how many connections of each tenth are left to the relay to end,
	// for they say nothing; only in the first silentTenths, so that the wait for
	// it passes meanwhile.
	silent       = 100
	silentTenths = 4
)

// TestLeak: after tens of thousands of connections that came, subscribed and
// left in every way there is, the relay has the goroutines, descriptors and
// gauges that it had before, and the memory that it had after the first tenth
// (R281, R334, R473, C89).
func TestLeak(t *testing.T) {
	p := startRelay(t, "AEP_BUFFER=500")
	seed := newSeed(t)
	warm := faults.NewPublisher(p.Addr, "leak")
	for range 50 { // history, so that replays have something to read
		must(t, "publish", warm.Publish(10))
	}
	base := gauges(t, p)
	h := startHealthy(t, p.Addr, "healthy", 2, 20) // few: what is kept of them counts too
	tenth := scale(5000, 500)
	var first int64
	for i := range uint64(10) {
		begin := time.Now()
		if i < silentTenths && !testing.Short() {
			leaveSilent(t, p.Addr)
		}
		cycles(t, p.Addr, seed+i, tenth)
		if i == 0 {
			first = settled(t, p)
		}
		t.Logf("%d cycles in %v", tenth, time.Since(begin))
	}
	h.end()
	must(t, "C89", p.AwaitBaseline(base, patience))
	last := settled(t, p)
	t.Logf("C89: %d KiB after the first %d cycles, %d KiB after %d", first>>10, tenth, last>>10, 10*tenth)
	if last > first+first/leakShare+leakSlack && !raceDetector {
		t.Errorf("C89: memory grew from %d KiB to %d KiB", first>>10, last>>10)
	}
}

// settled returns the resident memory once garbage is collected.
func settled(t *testing.T, p *faults.Process) int64 {
	t.Helper()
	must(t, "collect", p.Collect())
	now, _, err := p.Memory()
	must(t, "memory", err)
	return now
}

// cycles has n connections come, subscribe and leave.
func cycles(t *testing.T, addr string, seed uint64, n int) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var failed failure
	var wg sync.WaitGroup
	for worker := range uint64(leakWorkers) {
		wg.Go(func() {
			r := faults.NewRand(seed, worker)
			for left.Add(-1) >= 0 && failed.get() == nil {
				if err := cycle(r, addr); err != nil {
					failed.set(err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.get(); err != nil {
		t.Fatal(err)
	}
}

// leaveSilent makes connections that the relay cuts 10 s from now. Nobody waits
// for it here.
func leaveSilent(t *testing.T, addr string) {
	t.Helper()
	for i := range silent {
		nc, err := faults.Dial(addr, 0)
		must(t, "dial", err)
		request := relaytest.HandshakeRequest(addr, "/socket", relaytest.WSOptions{}) // and no hello (R308)
		if i%2 == 0 {
			request = "GET /stream HTTP/1.1\r\nHost:" // (R47)
		}
		if _, err := nc.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
	}
}

// cycle connects, subscribes and leaves.
func cycle(r *faults.Rand, addr string) error {
	s := faults.Subscription{Socket: r.IntN(2) == 0, BufferBytes: 512}
	switch r.IntN(4) {
	case 0:
		s.Filter = faults.FilterOf("leak")
		s.From = (&faults.View{}).From("leak")
		s.RecvBytes = 4 << 10
	case 1:
		s.Filter = fmt.Sprintf(`{"session":"s%d"}`, r.IntN(1_000_000)) // a group of its own
	case 2:
		s.Filter = `{"type":"tool.*","severity":{"gte":"notice"}}`
	}
	if r.IntN(4) == 0 { // leaves before it has an answer
		c, err := faults.AskConsumer(addr, s)
		if err != nil {
			return err
		}
		part(r, c)
		return nil
	}
	c, err := faults.OpenConsumer(addr, s)
	if err != nil {
		return err
	}
	for range r.IntN(3) {
		if s.From == "" {
			break
		}
		if _, err := c.Next(patience); err != nil {
			return err
		}
	}
	part(r, c)
	return nil
}

// part leaves with FIN, with RST, or with a half-close first.
func part(r *faults.Rand, c *faults.Consumer) {
	switch r.IntN(3) {
	case 0:
		c.Reset()
	case 1:
		c.HalfClose()
		c.Close()
	default:
		c.Close()
	}
}
