package device

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
)

// Refusal is an answer of a relay other than the one that was asked for.
type Refusal struct {
	// Status is the HTTP status, Code the relay's word for it if it is one of
	// up to 64 letters of [a-z_], else "".
	Status int
	Code   string
	// Message is for people: up to 200 printable bytes, never trusted.
	Message string
	// RetryAfter is how long the relay wants to be left alone, 0 if it does not
	// say. It is bounded by client.MaxRetryAfter.
	RetryAfter time.Duration

	owner string // whom it was given to
}

// Error tells the status and the relay's words.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("the relay answers %d", r.Status)
	if r.Code != "" {
		text += " " + r.Code
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

// Is makes a 410 ErrOwnerClosed.
func (r *Refusal) Is(target error) bool {
	return target == ErrOwnerClosed && r.Status == http.StatusGone
}

// refused returns the refusal in an error, if it is of this status.
func refused(err error, status int) (*Refusal, bool) {
	r, ok := errors.AsType[*Refusal](err)
	return r, ok && r.Status == status
}

// fault is an answer that no honest relay gives. Its reason is one of the
// store's closed list.
type fault struct{ reason, detail string }

func (f *fault) Error() string {
	return "the relay's answer is refused as " + f.reason + ": " + f.detail
}

// Reasons of refusals that the loop finds.
const (
	reasonOtherOwner  = "other_owner"
	reasonBadTag      = "bad_tag"
	reasonBadEnvelope = "bad_envelope"
	reasonBadPayload  = "bad_payload"
	reasonBadPage     = "bad_page"
	reasonBadCursor   = "bad_cursor"
	reasonNoProgress  = "no_progress"
)

// withoutToken returns a text of a relay unless the relay repeats the token in
// it (L7).
func withoutToken(text string, id *synccrypt.Identity) string {
	if strings.Contains(text, id.RelayAuth) {
		return "(hidden: it repeats the token)"
	}
	return text
}
