package agent

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

const (
	// The first wait is 0.5 to 1 s, the longest 15 to 30 s.
	minDelay = time.Second
	maxDelay = 30 * time.Second
	// stable is how long a connection without anything must have lasted for its
	// end to be a first failure again.
	stable = time.Minute
)

// outage says what is told and waited while there is no session. One goroutine
// uses it.
type outage struct {
	notice   func(Notice)
	pause    func(context.Context, time.Duration) error
	failures int
	began    time.Time // of the session
	up       bool      // there was a session
	useful   bool      // and it was of use
	down     bool      // it was told that there is none
	why      string    // what was told about that
}

// over tells that there is a session; text is for the notice.
func (o *outage) over(text string) {
	o.up, o.useful, o.began = true, false, time.Now()
	if o.down {
		o.notice(Notice{Kind: Connected, Text: text})
		o.down, o.why = false, ""
	}
}

// wait tells of a failure, unless that was done, and waits. The error is that
// of ctx.
func (o *outage) wait(ctx context.Context, err error) error {
	if o.up && (o.useful || time.Since(o.began) >= stable) {
		o.failures = 0
	}
	kind := Unreachable
	if o.up {
		kind = Lost
	}
	if text := clean(err.Error()); o.up || !o.down || text != o.why {
		o.down, o.why = true, text
		o.notice(Notice{Kind: kind, Text: text})
	}
	o.up = false
	wait := client.Jitter(o.failures, minDelay, maxDelay)
	o.failures++
	if busy, ok := errors.AsType[*busyError](err); ok && busy.after > 0 {
		// Not earlier than asked, and not all at the same moment.
		wait = busy.after + client.Jitter(0, min(busy.after, minDelay), minDelay)/2
	}
	return o.pause(ctx, wait)
}
