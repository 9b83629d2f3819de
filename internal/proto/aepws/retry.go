package aepws

import (
	"fmt"
	"time"
)

const (
	// dueTick is the resolution of due moments, the same as that of the wheel
	// that they are scheduled on. 32 bits of it last 6.8 years.
	dueTick = 50 * time.Millisecond
	// maxAttempts bounds what a window remembers of its attempts.
	maxAttempts = 10
	// maxUnackedLimit is what 16 bits can number.
	maxUnackedLimit = 65_535
	// maxRetryWait bounds the ack timeout and the back-off.
	maxRetryWait = 24 * time.Hour
	// letterEvery is the time between two dead letters of a subscription (B58).
	letterEvery = time.Second
)

// retryPolicy is how deliveries are repeated (B58): AEPWS_ACK_TIMEOUT_MS,
// AEPWS_BACKOFF_MS, _MULTIPLIER, _MAX_MS, AEPWS_MAX_ATTEMPTS and
// AEPWS_MAX_UNACKED.
type retryPolicy struct {
	ackTimeout time.Duration // more than 0, at most a day
	backoff    time.Duration // 0 to a day
	multiplier float64       // at least 1
	maxBackoff time.Duration // 0 to a day
	attempts   int           // 1 to 10
	unacked    int           // for a session: 1 to 65,535
}

// retryPlan is a policy that was found good, worked out. Immutable; any
// goroutine.
type retryPlan struct {
	attempts int
	unacked  int
	// delays[n] is the ticks from the n-th sending of an event to what follows
	// it without an acknowledgement: ack timeout and back-off, or after the
	// last the ack timeout alone. delays[0] is not used.
	delays [maxAttempts + 1]uint32
}

// newRetryPlan works a policy out. Its error names the value that is out of
// range.
func newRetryPlan(p retryPolicy) (*retryPlan, error) {
	switch {
	case p.ackTimeout <= 0 || p.ackTimeout > maxRetryWait:
		return nil, fmt.Errorf("ack timeout %v is not more than 0 and at most %v", p.ackTimeout, maxRetryWait)
	case p.backoff < 0 || p.backoff > maxRetryWait:
		return nil, fmt.Errorf("backoff %v is not between 0 and %v", p.backoff, maxRetryWait)
	case p.maxBackoff < 0 || p.maxBackoff > maxRetryWait:
		return nil, fmt.Errorf("largest backoff %v is not between 0 and %v", p.maxBackoff, maxRetryWait)
	case !(p.multiplier >= 1 && p.multiplier <= 1000): // not a number is refused too
		return nil, fmt.Errorf("backoff multiplier %v is not between 1 and 1000", p.multiplier)
	case p.attempts < 1 || p.attempts > maxAttempts:
		return nil, fmt.Errorf("%d attempts are not between 1 and %d", p.attempts, maxAttempts)
	case p.unacked < 1 || p.unacked > maxUnackedLimit:
		return nil, fmt.Errorf("%d unacknowledged events are not between 1 and %d", p.unacked, maxUnackedLimit)
	}
	plan := &retryPlan{attempts: p.attempts, unacked: p.unacked}
	wait := float64(p.backoff)
	for n := 1; n < p.attempts; n++ {
		wait = min(wait, float64(p.maxBackoff))
		plan.delays[n] = ticksUp(p.ackTimeout + time.Duration(wait))
		wait *= p.multiplier
	}
	plan.delays[p.attempts] = ticksUp(p.ackTimeout)
	return plan, nil
}

// ticksUp returns the ticks that cover d.
func ticksUp(d time.Duration) uint32 { return uint32((d + dueTick - 1) / dueTick) }
