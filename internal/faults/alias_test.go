package faults_test

import (
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

// TestAliasing: 16 publishers of events of 100 B to 256 KiB which carry their
// own hash, and 20 consumers, some of them slow: not an octet of any event is
// another's, live, queued, and in replays (S3, R194, C92).
func TestAliasing(t *testing.T) {
	t.Parallel()
	const publishers, consumers, slow = 16, 20, 8
	p := startRelay(t, "AEP_BUFFER=200", "AEP_BUFFER_BYTES=67108864")
	seed := newSeed(t)
	f := newFleet(p.Addr, publishers)
	for i := range uint64(consumers) {
		c := f.add(p.Addr, i%2 == 0, faults.NewRand(seed, i))
		if i < slow { // reads an event now and then, until all is published
			c.Sub.RecvBytes = 16 << 10
			c.Pace = func() time.Duration {
				if f.final.Load() {
					return 0
				}
				return c.Rand.Between(0, 20*time.Millisecond)
			}
		}
		if i%5 == 4 { // leaves by itself
			c.StayEvents = 100
		}
	}
	var sizes, paces []*faults.Rand
	for i, pub := range f.publishers {
		sizes = append(sizes, faults.NewRand(seed, 1000+uint64(i)))
		paces = append(paces, faults.NewRand(seed, 2000+uint64(i)))
		pub.PadBytes = func(uint64) int { // every size and every order of size
			if sizes[i].IntN(8) == 0 {
				return sizes[i].IntN(256 << 10)
			}
			return sizes[i].IntN(256 << sizes[i].IntN(8))
		}
	}
	f.start(func(i int, pub *faults.Publisher) error {
		time.Sleep(paces[i].Between(0, 60*time.Millisecond)) // pacing
		return pub.Publish(1 + paces[i].IntN(4))
	})
	time.Sleep(scale(8*time.Second, 1500*time.Millisecond)) // the time of the test
	f.end(t)

	var bytes int64
	for _, c := range f.roamers {
		bytes += c.View.Bytes
	}
	t.Logf("%d MB checked", bytes/1e6)
	for _, socket := range []bool{false, true} {
		c := faults.NewRoamer(p.Addr, socket, faults.NewRand(seed, 3000), f.sessions...)
		c.View = faults.View{Sessions: f.sessions} // from the earliest that is held
		if err := c.Run(f.done, patience); err != nil {
			t.Errorf("replay: %v", err)
		}
	}
}
