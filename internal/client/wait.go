package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// MaxRetryAfter bounds how long a relay can ask a client to stay away.
const MaxRetryAfter = 10 * time.Minute

// Jitter returns the wait before a try: first before try 0, twice as long before
// each further one, longest at most. The upper half of it is drawn, so that many
// clients of one relay do not come back together. first is at most a minute.
func Jitter(tries int, first, longest time.Duration) time.Duration {
	d := min(first<<min(tries, 20), longest)
	return d/2 + rand.N(d/2+1)
}

// Pause waits for d, or until ctx ends, and then returns its error.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RetryAfter reads the value of a Retry-After (RFC 9110, section 10.2.3), seconds
// or a date; now is for the latter. It is MaxRetryAfter at most, and 0 for what
// is neither or absent.
func RetryAfter(value string, now time.Time) time.Duration {
	seconds, err := strconv.ParseInt(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return MaxRetryAfter
	case err == nil:
		return time.Duration(min(max(seconds, 0), int64(MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}
