package netloop

import (
	"fmt"
	"time"
)

// Liveness: a loop that makes no turn in this many checks is dead. Checks are
// counted, not time, so that a suspended process does not count as hanging.
const (
	livenessEvery  = time.Second
	livenessChecks = 10
)

// checkLiveness finds loops that hang or died: in client mode the reactor does
// not tell. It rings each loop, also to give it a turn when nothing happens.
func (s *Server) checkLiveness() {
	tick := time.NewTicker(s.checkEvery)
	defer tick.Stop()
	turns := make([]int64, len(s.reactors))
	missed := make([]int, len(s.reactors))
	for i := range turns {
		turns[i] = -1
	}
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		for i, r := range s.reactors {
			now := r.loop.Turns()
			if now != turns[i] {
				turns[i], missed[i] = now, 0
			} else if missed[i]++; missed[i] >= s.deadChecks {
				s.fail(fmt.Errorf("%w: loop %d made no turn in %d checks, one each %v",
					ErrLoopDied, r.loop.ID, missed[i], s.checkEvery))
				return
			}
			r.loop.Ring()
		}
	}
}
