package device

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// maxReseedPause is the longest pause between automatic re-seeds.
const maxReseedPause = time.Hour

// laneAfter returns the back-off after an error of a relay (D34). before is the
// lane as it was.
func (d *Device) laneAfter(err error, before devicestore.Lane) devicestore.Lane {
	pause, reason := d.o.Pace, "network: "+printable(err.Error())
	if f, ok := errors.AsType[*fault](err); ok {
		// It may be one bad moment, or go on for ever.
		pause = min(d.o.Pace<<min(before.Fails, 16), max(d.o.TerminalPause, d.o.Pace))
		reason = f.reason
	} else if r, ok := errors.AsType[*Refusal](err); ok {
		if terminal(r.Status) {
			pause = d.o.TerminalPause
		}
		pause = max(pause, r.RetryAfter)
		if reason = strconv.Itoa(r.Status); r.Code != "" {
			reason += " " + r.Code
		}
	} else if errors.Is(err, devicestore.ErrDeferredFull) {
		pause, reason = d.o.TerminalPause, "deferred_full"
	} else if errors.Is(err, ErrLostAgain) {
		reason = "lost again"
	}
	return devicestore.Lane{Until: d.o.Now().Add(pause), Reason: reason, Fails: before.Fails + 1}
}

// terminal tells whether the same request would get the same answer for now:
// every 4xx and redirects (D34).
func terminal(status int) bool { return status < 500 && status != http.StatusRequestTimeout }

// ofRelay tells whether an error says something of the relay, and not of this
// machine or of a caller who has enough.
func ofRelay(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	_, local := errors.AsType[*localError](err)
	return !local
}

// localError is a failure of the store: no relay is to blame.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// local marks an error of the store. ErrDeferredFull is the relay's doing.
func local(err error) error {
	if err == nil || errors.Is(err, devicestore.ErrDeferredFull) {
		return err
	}
	return &localError{err}
}

// settle stores what a lane's attempt came to, and counts the refusal of a
// whole answer.
func (l *link) settle(ctx context.Context, push bool, err error) error {
	rel, loadErr := l.d.store.Relay(l.relay)
	if loadErr != nil {
		return errors.Join(err, local(loadErr))
	}
	before := rel.Pull
	if push {
		before = rel.Push
	}
	if err == nil {
		if before == (devicestore.Lane{}) {
			return nil
		}
		return local(l.d.store.SetLane(l.relay, push, devicestore.Lane{}))
	}
	if !ofRelay(ctx, err) {
		return err
	}
	var stored error
	if f, ok := errors.AsType[*fault](err); ok {
		stored = l.d.store.Refuse(l.relay, devicestore.Refusal{Reason: f.reason})
	}
	if gone, ok := refused(err, http.StatusGone); ok {
		stored = l.d.store.SetClosed(l.relay, gone.owner, true)
		if errors.Is(stored, devicestore.ErrOwnerChanged) {
			return local(stored) // another process has just re-keyed, and closed the old owner
		}
	}
	lane := l.d.laneAfter(err, before)
	if wait, ok := errors.AsType[*waitReseed](err); ok {
		lane.Until = wait.until
		lane.Reason = "waits before it sends every row anew"
	}
	if stored = errors.Join(stored, l.d.store.SetLane(l.relay, push, lane)); stored != nil {
		return errors.Join(err, local(stored))
	}
	return err
}

// remaining is how long a back-off still lasts. One that lasts longer than any
// does was stored before the clock was set back, and is over.
func (d *Device) remaining(until time.Time) time.Duration {
	left := until.Sub(d.o.Now())
	if left > max(d.o.Pace, d.o.TerminalPause, client.MaxRetryAfter, d.o.ReseedPause, maxReseedPause) {
		return 0
	}
	return max(left, 0)
}

// waitReseed is a re-seed that has to wait (L5).
type waitReseed struct{ until time.Time }

func (w *waitReseed) Error() string {
	return "the relay has lost the owner; it gets every row anew later"
}

// reseedAt returns when the next automatic re-seed of a relay may be: after 1
// minute, doubled with each, up to an hour. It may be at once when the last one
// was in the future: the clock was set back.
func (d *Device) reseedAt(rel devicestore.Relay) time.Time {
	if rel.Reseeds == 0 || rel.ReseededAt.IsZero() || rel.ReseededAt.After(d.o.Now()) {
		return time.Time{}
	}
	pause := min(d.o.ReseedPause<<min(rel.Reseeds-1, 16), max(maxReseedPause, d.o.ReseedPause))
	return rel.ReseededAt.Add(pause)
}
