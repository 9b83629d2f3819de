package follow

import (
	"math/rand/v2"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

const (
	// The first wait is 0.5 to 1 s, the longest 15 to 30 s.
	minDelay = time.Second
	maxDelay = 30 * time.Second
	// maxAsked bounds how long a relay may ask a reader to stay away.
	maxAsked = client.MaxRetryAfter
	// stable is how long a connection must have lasted for its end to be a
	// first attempt again.
	stable = time.Minute
)

// backoff chooses the time between two attempts.
type backoff struct {
	attempt int
	retry   time.Duration // what the last stream asked for (R274), 0 for nothing
}

// next returns how long to wait: twice as long each time, the upper half of it
// random, so that readers do not come back all at once; never less than the
// stream or an answer (after) asked for.
func (b *backoff) next(after time.Duration) time.Duration {
	d := client.Jitter(b.attempt, minDelay, maxDelay)
	b.attempt++
	asked := min(max(b.retry, after), maxAsked)
	if asked > d {
		d = asked + time.Duration(rand.Int64N(int64(min(asked/2, time.Second))+1))
	}
	return d
}

// lasted tells how long the connection lasted that has ended.
func (b *backoff) lasted(d time.Duration) {
	if d >= stable {
		b.attempt = 0
	}
}
