package aep

import "strconv"

// Error codes of `error` frames (contract, sections 12 to 14).
const (
	CodeAmbiguous          = "ambiguous"
	CodeBadJSON            = "bad-json"
	CodeBinaryUnsupported  = "binary-unsupported"
	CodeHelloRequired      = "hello-required"
	CodeInvalidEvent       = "invalid-event"
	CodeInvalidFilter      = "invalid-filter"
	CodeLimitExceeded      = "limit-exceeded"
	CodeNoRoute            = "no-route"
	CodeUnauthorized       = "unauthorized"
	CodeUnsupported        = "unsupported"
	CodeVersionUnsupported = "version-unsupported"
)

// Reasons of `closing` frames (R428, R462).
const (
	ReasonBackpressure = "backpressure"
	ReasonShuttingDown = "shutting-down"
)

// maxDelivered is the number of positions in a closing frame (R430).
const maxDelivered = 1024

// The Append functions append one JSON text to dst and return the extended
// slice. They keep nothing, allocate nothing if dst has room, and may be called
// from any goroutine. Arguments named idRaw are raw JSON as the peer sent it,
// echoed byte for byte; if one is nil the member is left out (R323).

// AppendHelloReply appends the relay's hello with its capabilities, a raw JSON
// object made by AppendCapabilities (R310).
func AppendHelloReply(dst, capabilities []byte) []byte {
	dst = append(dst, `{"type":"hello","versions":["0.1"],"role":"both",`+
		`"identity":{"agent":"aep-relay"},"capabilities":`...)
	dst = append(dst, capabilities...)
	return append(dst, '}')
}

// AppendSubscribed appends the answer to an accepted subscribe (R322).
func AppendSubscribed(dst, idRaw []byte) []byte {
	return append(appendHead(dst, "subscribed", "id", idRaw), '}')
}

// AppendUnsubscribed appends the answer to an unsubscribe (R326).
func AppendUnsubscribed(dst, idRaw []byte) []byte {
	return append(appendHead(dst, "unsubscribed", "id", idRaw), '}')
}

// AppendReplayExhausted appends the marker which says that events of a session
// are gone, and the earliest position that is held (R322). IdRaw names the
// subscription.
func AppendReplayExhausted(dst, idRaw []byte, session string, epoch, seq int64) []byte {
	dst = appendHead(dst, "replay-exhausted", "sub", idRaw)
	dst = appendStringMember(dst, "session", session)
	dst = append(dst, `,"earliest":{"epoch":`...)
	dst = strconv.AppendInt(dst, epoch, 10)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendInt(dst, seq, 10)
	return append(dst, "}}"...)
}

// AppendPing appends the relay's ping; ms counts milliseconds since 1970
// (R330).
func AppendPing(dst []byte, ms int64) []byte {
	dst = append(dst, `{"type":"ping","t":`...)
	dst = strconv.AppendInt(dst, ms, 10)
	return append(dst, '}')
}

// AppendPong appends the answer to a client's ping; tRaw is the raw JSON of
// its `t`, nil if absent (R330).
func AppendPong(dst, tRaw []byte) []byte {
	return append(appendHead(dst, "pong", "t", tRaw), '}')
}

// AppendShed appends the frame which tells a consumer that count events were
// not delivered to it (R424a).
func AppendShed(dst []byte, count int64) []byte {
	dst = append(dst, `{"type":"shed","count":`...)
	dst = strconv.AppendInt(dst, count, 10)
	return append(dst, '}')
}

// ErrorFrame is what an error frame says. Code is one of the Code constants.
type ErrorFrame struct {
	Code     string
	IDRaw    []byte // raw JSON id of the refused request, nil if none (R320)
	Cause    string // id of the refused event (R340, R396)
	HasCause bool
	Detail   string // free text, left out if empty
	Versions bool   // name the versions that are spoken (R306)
}

// AppendError appends an error frame.
func AppendError(dst []byte, f *ErrorFrame) []byte {
	dst = appendHead(dst, "error", "id", f.IDRaw)
	dst = appendStringMember(dst, "code", f.Code)
	if f.HasCause {
		dst = appendStringMember(dst, "cause", f.Cause)
	}
	if f.Detail != "" {
		dst = appendStringMember(dst, "detail", f.Detail)
	}
	if f.Versions {
		dst = append(dst, `,"versions":["0.1"]`...)
	}
	return append(dst, '}')
}

// Delivered is the last position of a session that one subscription was given
// (R430).
type Delivered struct {
	IDRaw   []byte // raw JSON id of the subscription, nil if it has none
	Session string
	Epoch   int64
	Seq     int64
}

// AppendClosing appends the frame that goes before an orderly Close. Delivered
// is in order of delivery, the most recent last; of more than 1,024 the most
// recent ones are written (R430).
func AppendClosing(dst []byte, reason string, delivered []Delivered) []byte {
	if len(delivered) > maxDelivered {
		delivered = delivered[len(delivered)-maxDelivered:]
	}
	dst = append(dst, `{"type":"closing"`...)
	dst = appendStringMember(dst, "reason", reason)
	dst = append(dst, `,"delivered":[`...)
	for i, d := range delivered {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		if d.IDRaw != nil {
			dst = append(dst, `"sub":`...)
			dst = append(dst, d.IDRaw...)
			dst = append(dst, ',')
		}
		dst = append(dst, `"session":`...)
		dst = appendQuoted(dst, d.Session)
		dst = append(dst, `,"epoch":`...)
		dst = strconv.AppendInt(dst, d.Epoch, 10)
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendInt(dst, d.Seq, 10)
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// RosterEntry is one claim (R381). Empty strings and nil slices are left out.
type RosterEntry struct {
	Session         string
	Agent, Instance string
	Control, Emits  []byte // raw JSON as declared in the hello
}

// AppendRoster appends the answer to a roster request. The caller refuses
// answers over its limit (R381).
func AppendRoster(dst, idRaw []byte, entries []RosterEntry) []byte {
	dst = appendHead(dst, "roster", "id", idRaw)
	dst = append(dst, `,"entries":[`...)
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = entries[i].append(dst)
	}
	return append(dst, "]}"...)
}

func (r *RosterEntry) append(dst []byte) []byte {
	dst = append(dst, `{"session":`...)
	dst = appendQuoted(dst, r.Session)
	if r.Agent != "" {
		dst = appendStringMember(dst, "agent", r.Agent)
	}
	if r.Instance != "" {
		dst = appendStringMember(dst, "instance", r.Instance)
	}
	dst = appendRawMember(dst, "control", r.Control)
	dst = appendRawMember(dst, "emits", r.Emits)
	return append(dst, '}')
}

// appendHead appends an open frame of a type with one raw member.
func appendHead(dst []byte, typ, name string, raw []byte) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typ...)
	dst = append(dst, '"')
	return appendRawMember(dst, name, raw)
}

// appendRawMember appends a comma and a member, or nothing if raw is nil.
func appendRawMember(dst []byte, name string, raw []byte) []byte {
	if raw == nil {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return append(dst, raw...)
}

// appendStringMember appends a comma and a string member.
func appendStringMember(dst []byte, name, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendQuoted(dst, value)
}
