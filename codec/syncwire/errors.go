package syncwire

import "fmt"

// Code is an error code of S4. The zero Code is Internal.
type Code uint8

// The codes of S4.
const (
	Internal Code = iota
	BadRequest
	BadEnvelope
	BadStreamID
	BadHash
	HashMismatch
	Unauthorized
	OwnerLimit
	UnknownOwner
	UnknownBlob
	NotFound
	StaleCursor
	MethodNotAllowed
	OwnerClosed
	TooManyEvents
	EventTooLarge
	BodyTooLarge
	BlobTooLarge
	QuotaExceeded
	RelayFull
	TooManyStreams
	TooManyWaiting
	WritesDisabled
	Busy
	codeCount
)

var codes = [codeCount]struct {
	name   string
	status int
}{
	Internal:         {"internal", 500},
	BadRequest:       {"bad_request", 400},
	BadEnvelope:      {"bad_envelope", 400},
	BadStreamID:      {"bad_stream_id", 400},
	BadHash:          {"bad_hash", 400},
	HashMismatch:     {"hash_mismatch", 400},
	Unauthorized:     {"unauthorized", 401},
	OwnerLimit:       {"owner_limit", 403},
	UnknownOwner:     {"unknown_owner", 404},
	UnknownBlob:      {"unknown_blob", 404},
	NotFound:         {"not_found", 404},
	StaleCursor:      {"stale_cursor", 404},
	MethodNotAllowed: {"method_not_allowed", 405},
	OwnerClosed:      {"owner_closed", 410},
	TooManyEvents:    {"too_many_events", 413},
	EventTooLarge:    {"event_too_large", 413},
	BodyTooLarge:     {"body_too_large", 413},
	BlobTooLarge:     {"blob_too_large", 413},
	QuotaExceeded:    {"quota_exceeded", 413},
	RelayFull:        {"relay_full", 413},
	TooManyStreams:   {"too_many_streams", 413},
	TooManyWaiting:   {"too_many_waiting", 429},
	WritesDisabled:   {"writes_disabled", 503},
	Busy:             {"busy", 503},
}

// String returns the code as it stands in an error body.
func (c Code) String() string { return c.row().name }

// Status returns the HTTP status that carries the code.
func (c Code) Status() int { return c.row().status }

// RetryAfter returns the seconds of the Retry-After field that goes with the
// code, 0 where none does (S4).
func (c Code) RetryAfter() int {
	switch c {
	case WritesDisabled:
		return 300
	case Busy:
		return 1
	case TooManyWaiting:
		return 5 // the normal pace of a client; 429 itself backs off longer
	}
	return 0
}

func (c Code) row() struct {
	name   string
	status int
} {
	if c >= codeCount {
		c = Internal
	}
	return codes[c]
}

// Error is a fault in what a client sent. It is immutable.
type Error struct {
	Code Code
	// Index is the envelope's position in events, from 0; -1 where the fault
	// is in none of them.
	Index  int
	Reason string // free text, without any of the input
}

// Error returns the text for the message member of an error body (S4, S18).
func (e *Error) Error() string {
	if e.Index >= 0 {
		return fmt.Sprintf("events[%d]: %s", e.Index, e.Reason)
	}
	return e.Reason
}

func badRequest(reason string) *Error {
	return &Error{Code: BadRequest, Index: -1, Reason: reason}
}
