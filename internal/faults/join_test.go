package faults_test

import (
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

// TestJoinRace: consumers that leave and come back at any moment, from where
// they stand, while 5,000 events a second come, meet neither a hole nor an
// overlap of replay and live, nor another order (R165, R192, R193, C30).
func TestJoinRace(t *testing.T) {
	t.Parallel()
	p := startRelay(t, "AEP_BUFFER=100000") // far more than ever come
	seed := newSeed(t)
	base := gauges(t, p)
	f := newFleet(p.Addr, 2)
	for i := range uint64(scale(100, 30)) {
		c := f.add(p.Addr, i%2 == 0, faults.NewRand(seed, i))
		c.StayEvents = 300
		c.Sub.BufferBytes = 4 << 10
	}
	ticks := []*time.Ticker{time.NewTicker(10 * time.Millisecond), time.NewTicker(10 * time.Millisecond)}
	f.start(func(i int, pub *faults.Publisher) error {
		<-ticks[i].C
		return pub.Publish(25)
	})
	time.Sleep(scale(4*time.Second, 1500*time.Millisecond)) // the time of the race
	f.end(t)
	for _, tick := range ticks {
		tick.Stop()
	}
	for i, c := range f.roamers {
		if c.Gaps() != 0 {
			t.Errorf("R166: consumer %d was told %d times that its position is gone, the buffers hold all", i, c.Gaps())
		}
	}
	must(t, "after all left", p.AwaitBaseline(base, patience))
}
