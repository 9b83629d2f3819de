package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func TestProbeStarve(t *testing.T) {
	s := open(t)
	push(t, s, alice, 100, 0, sizedAll(ids("first", 100, "s"), 10_000)...)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var pulls atomic.Int64
	for range 16 {
		wg.Go(func() {
			for !stop.Load() {
				_, err := s.Pull(Pull{Auth: alice, After: 0, Limit: 1000}, func([]byte) {})
				if err != nil {
					t.Error(err)
					return
				}
				pulls.Add(1)
			}
		})
	}
	var most int64
	for i := range 200 {
		push(t, s, alice, 100, 0, sizedAll(ids(fmt.Sprint(i, "-"), 100, "s"), 10_000)...)
		most = max(most, s.Stats().WALBytes)
		if i%20 == 0 {
			t.Log(i, s.Stats().WALBytes>>20, "MiB", pulls.Load(), s.Stats().Checkpoints)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Log("most", most>>20, s.Stats().Checkpoints)
}
