package store

import (
	"runtime"
	"time"
)

// yieldTime is how long work in the database keeps a processor from the loops.
// Without yielding they waited for the scheduler's slice of 10 ms on two cores;
// yielding at each event took a third of the pushes a second.
const yieldTime = 100 * time.Microsecond

// yielder lets other goroutines run now and then. Owned by one goroutine.
type yielder struct{ last time.Time }

// step is called between small steps of work.
func (y *yielder) step() {
	now := time.Now()
	if y.last.IsZero() {
		y.last = now
	}
	if now.Sub(y.last) >= yieldTime {
		runtime.Gosched()
		y.last = time.Now()
	}
}
