package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

const (
	// firstWait is short, since a relay that restarts is soon back.
	firstWait = 100 * time.Millisecond
	maxWait   = 10 * time.Second
)

// outage is the time in which a relay takes nothing: how long to wait before
// the next try, when to give up, and what is said about it.
type outage struct {
	timeout time.Duration // 0 is never
	notice  func(string)

	begun time.Time // zero while there is none
	tries int
}

// wait waits before the next try after a failure, at least for the time that
// the relay asked for. The error is ErrGaveUp, or that of ctx.
func (o *outage) wait(ctx context.Context, failure error, atLeast time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	if o.begun.IsZero() {
		o.begun = now
		o.notice(fmt.Sprintf("%v; trying again", failure))
	}
	d := max(client.Jitter(o.tries, firstWait, maxWait), atLeast)
	o.tries++
	if o.timeout > 0 {
		left := o.timeout - now.Sub(o.begun)
		if left <= 0 || atLeast > left {
			return fmt.Errorf("%w after %v: %w", ErrGaveUp, now.Sub(o.begun).Round(time.Millisecond), failure)
		}
		d = min(d, left)
	}
	return client.Pause(ctx, d)
}

// over tells that the relay took something.
func (o *outage) over() {
	if !o.begun.IsZero() {
		o.notice(fmt.Sprintf("the relay takes events again, after %v", time.Since(o.begun).Round(time.Millisecond)))
	}
	o.begun, o.tries = time.Time{}, 0
}
