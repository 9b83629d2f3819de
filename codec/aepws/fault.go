package aepws

import "fmt"

// Code is an error code of B27. The zero Code is ProtocolError, which unknown
// codes are treated as (B26).
type Code uint8

// The codes of B27.
const (
	ProtocolError Code = iota
	InvalidEnvelope
	InvalidEventType
	UnsupportedVersion
	InternalError
	SessionError
	SessionTimeout
	SessionClosed
	Unauthorized
	SubscriptionError
	SubscriptionRejected
	codeCount
)

var codeNames = [codeCount]string{
	"protocol_error", "invalid_envelope", "invalid_event_type",
	"unsupported_version", "internal_error", "session_error",
	"session_timeout", "session_closed", "unauthorized",
	"subscription_error", "subscription_rejected",
}

// String returns the code as it stands on the wire.
func (c Code) String() string {
	if c >= codeCount {
		c = ProtocolError
	}
	return codeNames[c]
}

// Retryable tells if the same request may succeed later (B27).
func (c Code) Retryable() bool { return c == InternalError || c == SessionTimeout }

// CodeOf returns the code with a name; ProtocolError for unknown ones (B26).
func CodeOf(name []byte) Code {
	for c, known := range codeNames {
		if known == string(name) {
			return Code(c)
		}
	}
	return ProtocolError
}

// Reasons that stand in details.reason.
const (
	ReasonUnknownType     = "unknown_event_type" // B24
	ReasonDuplicateID     = "duplicate_id"       // B56
	ReasonCursorMalformed = "cursor_malformed"   // B51
	ReasonCursorUnknown   = "cursor_unknown"     // B51
	ReasonCursorInFuture  = "cursor_in_future"   // B51
	ReasonTooSlow         = "consumer_too_slow"  // B60
	ReasonMaxAttempts     = "max_attempts"       // B58
)

// Fault is one thing that is wrong with an event. It is answered, and closes
// nothing (B25). Immutable.
type Fault struct {
	Code   Code
	Text   string // for people; names members, holds no values
	Reason string // for details.reason, mostly empty
}

// MaxFaults bounds the faults that are listed for one event.
const MaxFaults = 16

// MessageFault says that a message is not one JSON object in UTF-8 of at most
// MaxDepth levels: session.error protocol_error and close 1002 (B15).
type MessageFault struct {
	Offset int    // in bytes from the start of the message
	Reason string // free text, without any of the input
}

func (f *MessageFault) Error() string {
	return fmt.Sprintf("%s at offset %d", f.Reason, f.Offset)
}
