package demo

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the pause before another try. The longest is short, for a
// demonstration should go on soon after its relay is back.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 5 * time.Second
)

// backoff is the pause before the next try: doubled each time, and jittered so
// that agents do not come back all at once. The zero value is ready.
type backoff struct{ last time.Duration }

func (b *backoff) reset() { b.last = 0 }

// wait pauses, for atLeast if that is longer, or until ctx ends.
func (b *backoff) wait(ctx context.Context, atLeast time.Duration) {
	b.last = min(max(2*b.last, firstPause), maxPause)
	pause := b.last/2 + rand.N(b.last/2+1)
	timer := time.NewTimer(max(pause, atLeast))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
