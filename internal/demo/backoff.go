package demo

import (
	"context"
	"time"

	"github.com/sluice-relay/sluice/internal/demo/fleet"

	"github.com/sluice-relay/sluice/internal/client"
)

// Bounds of the pause before another try. The longest is short, for a
// demonstration should go on soon after its relay is back.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 5 * time.Second
)

// backoff is the pause before the next try. The zero value is ready.
type backoff struct{ tries int }

func (b *backoff) reset() { b.tries = 0 }

// wait pauses, for atLeast if that is longer, or until ctx ends or cut is closed.
func (b *backoff) wait(ctx context.Context, atLeast time.Duration, cut <-chan struct{}) {
	pause := client.Jitter(b.tries, firstPause, maxPause)
	b.tries++
	timer := time.NewTimer(max(pause, atLeast))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-cut:
	case <-ctx.Done():
	}
}

// pause waits before another try after err. It returns false if that is of no
// use: nothing listens, and only the last events remain.
func (p *player) pause(ctx context.Context, b *backoff, err error, atLeast time.Duration) bool {
	var cut <-chan struct{}
	if gone(err) {
		select {
		case <-p.ending:
			return false
		default:
			cut = p.ending // it may have come back, so that it is tried once more
		}
	}
	b.wait(ctx, atLeast, cut)
	return true
}

// drop takes events away from a sender that gave up, until there are no more.
func drop(ctx context.Context, in <-chan fleet.Event) {
	for {
		select {
		case _, open := <-in:
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
