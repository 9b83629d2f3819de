package aepws

import (
	"bytes"
	"math"
	"strconv"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// The requests of this file are read from the payload of an admitted control
// event. Their slices are decoded strings, nil where absent, and borrowed until
// the next Scan. A *Fault is answered with event.rejected.

// Bounds of a heartbeat interval in milliseconds (B36).
const (
	MinHeartbeatMillis = 1000
	MaxHeartbeatMillis = 300_000
)

// OpenRequest is session.opened (B31, B32, B36, B46).
type OpenRequest struct {
	// SessionID is the payload's or the envelope's; nil when neither has one.
	SessionID []byte
	// UnsupportedVersion tells that version is there and not "0.1": an answer
	// of session.error and close 1002.
	UnsupportedVersion bool
	// HasHeartbeat tells that the client gave a number; HeartbeatMillis is it,
	// clamped, or 0 for none at all.
	HasHeartbeat    bool
	HeartbeatMillis int
	Token           []byte // of scheme bearer, in any case
	TenantID        []byte
}

// ReadOpen reads session.opened. A session id that is against B32 is a fault.
func (s *Scanner) ReadOpen(e *Envelope, r *OpenRequest) *Fault {
	*r = OpenRequest{SessionID: e.SessionID, TenantID: e.TenantID}
	if bytes.EqualFold(e.Scheme, []byte("bearer")) {
		r.Token = e.Token
	}
	for m := membersOf(e.Payload); m.next(); {
		switch string(s.unescaped(m.name)) {
		case "session_id":
			if m.value[0] == 'n' {
				continue
			}
			r.SessionID, _ = s.content(m.value)
			if r.SessionID == nil {
				return &Fault{Code: InvalidEnvelope, Text: "payload.session_id is not a string"}
			}
		case "version":
			version, _ := s.content(m.value)
			r.UnsupportedVersion = string(version) != Version
		case "capabilities":
			s.heartbeat(m.value, r)
		}
	}
	if r.SessionID != nil && !ValidSessionID(r.SessionID) {
		return &Fault{Code: InvalidEnvelope, Text: "session_id is not 1 to 128 visible ASCII characters"}
	}
	return nil
}

// ValidSessionID tells if an id is one that B32 takes. Pure.
func ValidSessionID[T string | []byte](id T) bool { return isVisible(id, maxIDBytes) }

// heartbeat reads capabilities.heartbeat_interval_ms if that is a number (B36).
func (s *Scanner) heartbeat(capabilities []byte, r *OpenRequest) {
	if capabilities[0] != '{' {
		return
	}
	raw := s.find(capabilities, "heartbeat_interval_ms")
	if raw == nil || raw[0] != '-' && !jsontext.IsDigit(raw[0]) {
		return
	}
	// Out of range gives an infinity, which is clamped like any number.
	wish, _ := strconv.ParseFloat(string(raw), 64)
	r.HasHeartbeat, r.HeartbeatMillis = true, 0
	if wish != 0 {
		r.HeartbeatMillis = int(math.Min(math.Max(wish, MinHeartbeatMillis), MaxHeartbeatMillis))
	}
}

// AckRequest is event.acknowledged of a subscriber (B58).
type AckRequest struct {
	EventID        []byte
	SubscriptionID []byte // nil: all subscriptions that were sent the event
	// HasCursor tells that a well-formed cursor was given.
	HasCursor      bool
	CursorID       []byte
	CursorSequence int64
}

// ReadAck reads event.acknowledged. A cursor that is none is passed over: it
// is optional, and what is acknowledged is named by its id. It does not
// allocate.
func (s *Scanner) ReadAck(e *Envelope, r *AckRequest) *Fault {
	*r = AckRequest{}
	for m := membersOf(e.Payload); m.next(); {
		switch string(s.unescaped(m.name)) {
		case "acknowledged_event_id":
			r.EventID, _ = s.content(m.value)
		case "subscription_id":
			if m.value[0] == 'n' {
				continue
			}
			r.SubscriptionID, _ = s.content(m.value)
			if r.SubscriptionID == nil {
				return &Fault{Code: InvalidEnvelope, Text: "payload.subscription_id is not a string"}
			}
		case "cursor":
			text, _ := s.content(m.value)
			id, sequence, err := ParseCursor(text)
			r.HasCursor, r.CursorID, r.CursorSequence = err == nil, id, sequence
		}
	}
	if len(r.EventID) == 0 {
		return &Fault{Code: InvalidEnvelope, Text: "payload.acknowledged_event_id is not a non-empty string"}
	}
	return nil
}

// RejectRequest is event.rejected of a subscriber (B58).
type RejectRequest struct {
	EventID        []byte // nil: it names none
	SubscriptionID []byte // nil: all subscriptions that were sent the event
	Error          []byte // raw, as sent (B26); nil: none
	Code           Code   // of Error
}

// ReadReject reads event.rejected. It has no faults: a peer that answers each
// refusal with a refusal must not be answered in kind (B26).
func (s *Scanner) ReadReject(e *Envelope, r *RejectRequest) {
	*r = RejectRequest{}
	for m := membersOf(e.Payload); m.next(); {
		switch string(s.unescaped(m.name)) {
		case "acknowledged_event_id":
			r.EventID, _ = s.content(m.value)
		case "subscription_id":
			r.SubscriptionID, _ = s.content(m.value)
		case "error":
			r.Error, r.Code = m.value, s.errorCode(m.value)
		}
	}
}

// errorCode returns the code of a client's error object (B26).
func (s *Scanner) errorCode(raw []byte) Code {
	if raw[0] != '{' {
		return ProtocolError
	}
	name := s.find(raw, "code")
	if name == nil {
		return ProtocolError
	}
	code, _ := s.content(name)
	return CodeOf(code)
}

// ReadCancel reads the subscription id of subscription.cancelled (B53).
func (s *Scanner) ReadCancel(e *Envelope) (subscriptionID []byte, fault *Fault) {
	if raw := s.find(e.Payload, "subscription_id"); raw != nil {
		subscriptionID, _ = s.content(raw)
	}
	if len(subscriptionID) == 0 {
		return nil, &Fault{Code: InvalidEnvelope, Text: "payload.subscription_id is not a non-empty string"}
	}
	return subscriptionID, nil
}

// ReadClosed reads the reason of session.closed, nil when there is none. It is
// as long as the client made it.
func (s *Scanner) ReadClosed(e *Envelope) (reason []byte) {
	if raw := s.find(e.Payload, "reason"); raw != nil {
		reason, _ = s.content(raw)
	}
	return reason
}

// ReadError reads the error of session.error: the raw member as sent, nil when
// there is none, and its code (B26).
func (s *Scanner) ReadError(e *Envelope) (raw []byte, code Code) {
	if raw = s.find(e.Payload, "error"); raw == nil {
		return nil, ProtocolError
	}
	return raw, s.errorCode(raw)
}
