package aepws

import (
	"strconv"
	"time"
)

// Capabilities are the numbers of B35 that differ between relays and sessions.
type Capabilities struct {
	MaxPayloadBytes    int64
	HeartbeatMillis    int // the one in force for the session; 0: none (B36)
	ReplayWindow       time.Duration
	MaxRetentionEvents int64
	AuthRequired       bool
}

// append appends the object of B35.
func (c *Capabilities) append(dst []byte) []byte {
	const modes = `["best_effort","at_least_once","replayable"]`
	dst = append(dst, `{"protocol":"aep","aep_version":"0.1","spec_version":"0.1","transports":["websocket"],"delivery_modes":`+
		modes+`,"features":["envelope","subscription","error_model","ack","replay","dead_letter"]`...)
	dst = appendNumber(dst, `,"max_payload_size":`, c.MaxPayloadBytes)
	dst = appendNumber(dst, `,"compression":[],"heartbeat_interval_ms":`, int64(c.HeartbeatMillis))
	dst = appendNumber(dst, `,"delivery":{"modes":`+modes+`,"replay_window_ms":`, c.ReplayWindow.Milliseconds())
	dst = appendNumber(dst, `,"max_retention_events":`, c.MaxRetentionEvents)
	dst = append(dst, `,"dead_letter_support":true},"auth":{"required":`...)
	dst = strconv.AppendBool(dst, c.AuthRequired)
	return append(dst, '}', '}')
}

// AppendReady appends session.ready (B35).
func (a *Author) AppendReady(dst []byte, h Head, c *Capabilities) []byte {
	dst = a.begin(dst, &h, KindSessionReady)
	dst = appendNullable(dst, `{"session_id":`, h.SessionID)
	dst = c.append(append(dst, `,"capabilities":`...))
	return append(dst, '}', '}')
}

// AppendCapabilities appends capabilities.declared.
func (a *Author) AppendCapabilities(dst []byte, h Head, c *Capabilities) []byte {
	dst = a.begin(dst, &h, KindCapabilitiesDeclared)
	return append(c.append(dst), '}')
}

// AppendHeartbeat appends session.heartbeat (B39).
func (a *Author) AppendHeartbeat(dst []byte, h Head) []byte {
	dst = a.begin(dst, &h, KindSessionHeartbeat)
	dst = appendNullable(dst, `{"session_id":`, h.SessionID)
	return append(dst, '}', '}')
}

// AppendClosed appends session.closed (B43, B44).
func (a *Author) AppendClosed(dst []byte, h Head, reason string) []byte {
	dst = a.begin(dst, &h, KindSessionClosed)
	dst = appendNullable(dst, `{"session_id":`, h.SessionID)
	dst = appendQuoted(append(dst, `,"reason":`...), reason)
	return append(dst, '}', '}')
}

// AppendError appends session.error; the session id is null if there is none.
func (a *Author) AppendError(dst []byte, h Head, x Error) []byte {
	dst = a.begin(dst, &h, KindSessionError)
	dst = appendNullable(dst, `{"session_id":`, h.SessionID)
	dst = x.append(append(dst, `,"error":`...), Version)
	return append(dst, '}', '}')
}

// Replay says what a cursor gets (B51).
type Replay struct {
	Gap          bool   // status gap, else complete
	Reason       string // with a gap: ReasonCursorUnknown, ReasonCursorInFuture
	OldestCursor string // with a gap
}

func (r *Replay) append(dst []byte) []byte {
	if !r.Gap {
		return append(dst, `{"status":"complete"}`...)
	}
	dst = append(dst, `{"status":"gap"`...)
	dst = appendOptional(dst, `,"reason":`, r.Reason)
	dst = appendOptional(dst, `,"oldest_cursor":`, r.OldestCursor)
	return append(dst, '}')
}

// AppendCreated appends subscription.created. filter is the payload of the
// request, one JSON text; a zero expiresAt is null (B54); replay is nil without
// a cursor (B51).
func (a *Author) AppendCreated(dst []byte, h Head, subscriptionID string, filter []byte, expiresAt time.Time, replay *Replay) []byte {
	dst = a.begin(dst, &h, KindSubscriptionCreated)
	dst = appendQuoted(append(dst, `{"subscription_id":`...), subscriptionID)
	dst = append(append(dst, `,"filter":`...), filter...)
	dst = appendTime(append(dst, `,"created_at":`...), h.Now)
	dst = appendNullableTime(dst, `,"expires_at":`, expiresAt)
	if replay != nil {
		dst = replay.append(append(dst, `,"replay":`...))
	}
	return append(dst, '}', '}')
}

// AppendSubscriptionRejected appends subscription.rejected. No id was given
// out, so subscription_id is null.
func (a *Author) AppendSubscriptionRejected(dst []byte, h Head, filter []byte, x Error) []byte {
	dst = a.begin(dst, &h, KindSubscriptionRejected)
	dst = append(append(dst, `{"subscription_id":null,"filter":`...), filter...)
	dst = x.append(append(dst, `,"error":`...), Version)
	return append(dst, '}', '}')
}

// AppendCancelled appends subscription.cancelled, the confirmation of B53.
func (a *Author) AppendCancelled(dst []byte, h Head, subscriptionID string) []byte {
	dst = a.begin(dst, &h, KindSubscriptionCancelled)
	dst = appendQuoted(append(dst, `{"subscription_id":`...), subscriptionID)
	return append(dst, '}', '}')
}

// AppendExpired appends subscription.expired; x is nil when the subscription
// came to its time (B54), and says why it ended early (B60).
func (a *Author) AppendExpired(dst []byte, h Head, subscriptionID string, x *Error) []byte {
	dst = a.begin(dst, &h, KindSubscriptionExpired)
	dst = appendQuoted(append(dst, `{"subscription_id":`...), subscriptionID)
	if x != nil {
		dst = x.append(append(dst, `,"error":`...), Version)
	}
	return append(dst, '}', '}')
}
