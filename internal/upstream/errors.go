package upstream

import (
	"errors"
	"fmt"
)

// Errors of what an operator asks for. They are wrapped with what was given.
var (
	ErrBadHostname    = errors.New("upstream: not the name of a host")
	ErrBadDID         = errors.New("upstream: not a DID")
	ErrBadAction      = errors.New("upstream: action is not known")
	ErrUnknownHost    = errors.New("upstream: host is not known")
	ErrUnknownAccount = errors.New("upstream: account is not known")
	ErrBanned         = errors.New("upstream: host is banned")
	ErrTooManyHosts   = errors.New("upstream: too many hosts")
	ErrState          = errors.New("upstream: not started, or stopped")
)

// ErrConfig is wrapped by what New finds wrong with its settings.
var ErrConfig = errors.New("upstream: bad setting")

// Reasons of failed connections that no frame's refusal gives. With the words
// of codec/firehose they are all that failures are counted by.
const (
	failDial    = "dial"          // no connection, or no TLS
	failRefused = "refused"       // an answer other than 101
	failLost    = "lost"          // it ended, cleanly or not
	failText    = "text"          // a message that is not binary (F58)
	failSilent  = "silent"        // two pings without an answer
	failError   = "error_frame"   // F62
	failFuture  = "future_cursor" // F62; the host becomes idle
	failLoop    = "loop"          // F56; the host becomes banned
)

// Reasons of dropped frames that no refusal of codec/firehose gives.
const (
	dropOldSeq   = "old_seq"    // F60
	dropOldRev   = "old_rev"    // F64
	dropFuture   = "future_rev" // F64
	dropInactive = "inactive"   // F67
	dropTooBig   = "renumbered_too_big"
)

// What of a #commit did not fit the stored state (F64).
const (
	misfitSince    = "since"
	misfitPrevData = "prev_data"
)

// failure is the end of a connection, or of an attempt.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v", f.reason, f.err) }

func (f *failure) Unwrap() error { return f.err }

func failed(reason string, err error) error { return &failure{reason, err} }

// reasonOf returns the word by which the end of a connection is counted.
func reasonOf(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return f.reason
	}
	return failLost
}
