package follow

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

// Errors of Follow besides ErrOptions, ErrState, a *Refusal, and those of the
// sink.
var (
	// ErrTooLong tells that an event is longer than MaxEventBytes.
	ErrTooLong = errors.New("an event is longer than can be taken")
	// ErrGaveUp tells that a replay that was to end could not be read.
	ErrGaveUp = errors.New("the replay does not come to its end")
)

// unreachable is an ErrGaveUp of a relay to which no connection could be made.
type unreachable struct{ err error }

func (e unreachable) Error() string {
	why := e.err
	if call, ok := errors.AsType[*os.SyscallError](why); ok {
		why = call.Err
	}
	return "cannot reach the relay: " + clean(why.Error())
}

func (e unreachable) Unwrap() []error { return []error{ErrGaveUp, e.err} }

// gaveUp returns the error of a replay whose last attempt ended with err.
func gaveUp(err error) error {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return unreachable{err}
	}
	return fmt.Errorf("%w: %w", ErrGaveUp, err)
}

// Reasons for the end of a connection.
var (
	errEnded  = errors.New("the relay has ended the stream")
	errTorn   = errors.New("the connection was cut inside a message")
	errSilent = errors.New("nothing was heard for three heartbeats")
	// errTooMany tells that a request had more positions than the relay takes
	// (R173).
	errTooMany = errors.New("the relay takes fewer positions")
	// errAnother tells that the relay does not know the positions asked for.
	errAnother = errors.New("the relay was restarted")
)

// Refusal is an answer that every further attempt would get too.
type Refusal struct {
	Status int    // of HTTP, 0 for an error frame
	Text   string // in the relay's words, fit for a terminal
}

// Error implements error.
func (r *Refusal) Error() string {
	reason := "the relay refuses"
	if r.Status > 0 {
		reason += " with " + strings.TrimSpace(strconv.Itoa(r.Status)+" "+http.StatusText(r.Status))
	}
	if r.Text != "" {
		reason += ": " + r.Text
	}
	return reason
}

// busyError is an answer that a later attempt may not get.
type busyError struct {
	status int
	text   string
	after  time.Duration // what the answer asked to wait, 0 for nothing
}

func (e *busyError) Error() string {
	return fmt.Sprintf("the relay answers %d %s", e.status, cmp.Or(e.text, http.StatusText(e.status)))
}

// refused returns the error of an answer that is not what was asked for.
func (f *follower) refused(resp *http.Response, sent int) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
	text := clean(string(body))
	switch status := resp.StatusCode; {
	case status == http.StatusBadRequest && sent > 0 && strings.Contains(text, "from too large"):
		return errTooMany
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		return &busyError{status: status, text: text, after: client.RetryAfter(resp.Header.Get("Retry-After"), f.now())}
	case status == http.StatusUnauthorized && text == "":
		text = "its token is wanted"
		if f.o.Relay.Token != "" {
			text = "the token is not its own"
		}
		return &Refusal{Status: status, Text: text}
	default:
		return &Refusal{Status: status, Text: text}
	}
}
