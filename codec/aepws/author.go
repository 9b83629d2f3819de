package aepws

import (
	"slices"
	"strconv"
	"time"
)

// sourcePrefix begins the relay's own source (section 5).
const sourcePrefix = "relay:"

// Author writes the events that the relay authors itself (section 5), as JSON
// texts: each method appends one. It belongs to one loop, because of its IDs.
// What it is given is borrowed until return.
type Author struct {
	ids    *IDs
	source string
	quoted []byte // source as a JSON string
}

// NewAuthor returns an author whose source is relay:<name>.
func NewAuthor(name string, ids *IDs) *Author {
	source := sourcePrefix + name
	return &Author{ids: ids, source: source, quoted: appendQuoted(nil, source)}
}

// Source returns the relay's own source, which no publisher may use (B64).
func (a *Author) Source() string { return a.source }

// Head is what the events have in common. The zero value of all but Now stands
// for a member that is left out.
type Head struct {
	Now           time.Time
	SessionID     string
	CausationID   []byte
	CorrelationID []byte
	TenantID      string // dead letters only (B58)
}

// Answer returns the head of an answer to an event: its id is what caused the
// answer, and its correlation is copied (section 5, B29). Slices are borrowed
// from the event.
func (e *Envelope) Answer(sessionID string, now time.Time) Head {
	return Head{Now: now, SessionID: sessionID, CausationID: e.answerableID(), CorrelationID: e.CorrelationID}
}

// answerableID returns the id as an answer names it: nil when there is none or
// it is longer than an identity may be.
func (e *Envelope) answerableID() []byte {
	if len(e.ID) > maxIdentityBytes {
		return nil
	}
	return e.ID
}

// begin appends an event up to the value of its payload.
func (a *Author) begin(dst []byte, h *Head, k Kind) []byte {
	dst = append(dst, `{"aep_version":"0.1","spec_version":"0.1","id":"`...)
	dst = a.ids.AppendEvent(dst, h.Now)
	dst = append(dst, `","type":"`...)
	dst = append(dst, k.String()...)
	dst = append(dst, `","source":`...)
	dst = append(dst, a.quoted...)
	dst = append(dst, `,"created_at":`...)
	dst = appendTime(dst, h.Now)
	dst = appendOptional(dst, `,"session_id":`, h.SessionID)
	dst = appendOptional(dst, `,"causation_id":`, borrow(h.CausationID))
	dst = appendOptional(dst, `,"correlation_id":`, borrow(h.CorrelationID))
	dst = appendOptional(dst, `,"tenant_id":`, h.TenantID)
	return append(dst, `,"payload":`...)
}

// appendOptional appends a member unless its value is empty.
func appendOptional(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendQuoted(append(dst, name...), value)
}

// appendNullable appends a member, with null for the empty string.
func appendNullable(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	if value == "" {
		return append(dst, "null"...)
	}
	return appendQuoted(dst, value)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(dst, name...), n, 10)
}

// appendTime appends a time as a JSON string: UTC, milliseconds, Z.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(dst, '"')
}

func appendNullableTime(dst []byte, name string, t time.Time) []byte {
	dst = append(dst, name...)
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return appendTime(dst, t)
}

// Error is the error object of an answer (B26). Of the details those that are
// set are written; with UnsupportedVersion the supported ones always.
type Error struct {
	Code       Code
	Message    string
	Reason     string // details.reason
	State      string // details.state (B33)
	LastCursor string // details.last_cursor (B60)
}

// Answer returns the error object that answers a fault.
func (f *Fault) Answer() Error { return Error{Code: f.Code, Message: f.Text, Reason: f.Reason} }

// append appends the object. supported names the version, or the subprotocol.
func (x *Error) append(dst []byte, supported string) []byte {
	dst = append(dst, `{"code":"`...)
	dst = append(dst, x.Code.String()...)
	dst = appendQuoted(append(dst, `","message":`...), x.Message)
	dst = strconv.AppendBool(append(dst, `,"retryable":`...), x.Code.Retryable())
	if x.Code != UnsupportedVersion && x.Reason == "" && x.State == "" && x.LastCursor == "" {
		return append(dst, '}')
	}
	dst = append(dst, `,"details":{`...)
	start := len(dst)
	if x.Code == UnsupportedVersion {
		dst = append(dst, `,"supported":["`...)
		dst = append(dst, supported...)
		dst = append(dst, '"', ']')
	}
	dst = appendOptional(dst, `,"reason":`, x.Reason)
	dst = appendOptional(dst, `,"state":`, x.State)
	dst = appendOptional(dst, `,"last_cursor":`, x.LastCursor)
	dst = slices.Delete(dst, start, start+1) // the first comma
	return append(dst, '}', '}')
}

// AppendRefusal appends the JSON body of a handshake that is refused, whatever
// its HTTP status (B3, B4, B7 to B9). Code UnsupportedVersion names the
// supported subprotocol. Pure.
func AppendRefusal(dst []byte, code Code, message string) []byte {
	x := Error{Code: code, Message: message}
	return append(x.append(append(dst, `{"error":`...), Subprotocol), '}')
}
