package relaytest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

var lastID atomic.Uint64

// NewID is an event id that this process has not given before.
func NewID() string { return fmt.Sprintf("01TEST%012d", lastID.Add(1)) }

// Event builds the text of an AEP envelope. The zero value with a Session is a
// valid progress.status event at sequence 0. Members come in the order of the
// fields here.
type Event struct {
	ID      string // default: NewID()
	Type    string // default: progress.status
	Source  string // default: aep://test/agent/probe
	Agent   string // default: probe
	Time    string // default: a fixed time
	Session string // left out when empty
	Epoch   uint64 // left out when 0
	Seq     uint64
	NoSeq   bool // leave seq out, as commands and agent events must

	Severity string // left out when empty
	Capture  string // left out when empty
	Cause    string // left out when empty
	Subject  string // left out when empty
	Run      string // left out when empty
	Extra    string // raw members, such as `"x1":5,"x2":true`
	Data     string // raw JSON of data, left out when empty
}

// JSON is the envelope on one line, without white space between tokens.
func (e Event) JSON() string {
	var b strings.Builder
	b.WriteString(`{"aep":"0.1"`)
	member := func(name, value, fallback string) {
		if value == "" {
			value = fallback
		}
		if value != "" {
			fmt.Fprintf(&b, `,%q:%s`, name, Quote(value))
		}
	}
	if e.ID == "" {
		e.ID = NewID()
	}
	member("id", e.ID, "")
	member("type", e.Type, "progress.status")
	member("time", e.Time, "2026-07-03T10:00:00Z")
	member("source", e.Source, "aep://test/agent/probe")
	member("agent", e.Agent, "probe")
	member("session", e.Session, "")
	if e.Epoch != 0 {
		b.WriteString(`,"epoch":` + strconv.FormatUint(e.Epoch, 10))
	}
	if !e.NoSeq {
		b.WriteString(`,"seq":` + strconv.FormatUint(e.Seq, 10))
	}
	member("severity", e.Severity, "")
	member("capture", e.Capture, "")
	member("cause", e.Cause, "")
	member("subject", e.Subject, "")
	member("run", e.Run, "")
	if e.Extra != "" {
		b.WriteString("," + e.Extra)
	}
	if e.Data != "" {
		b.WriteString(`,"data":` + e.Data)
	}
	b.WriteString("}")
	return b.String()
}

// Command is an event of a command type: sequence left out.
func Command(typ, session string) Event {
	return Event{Type: typ, Session: session, NoSeq: true}
}

// AgentEvent is a liveness event: neither session nor sequence.
func AgentEvent() Event {
	return Event{Type: "agent.heartbeat", NoSeq: true}
}

// Padded is an event whose text is about size bytes long.
func Padded(session string, seq uint64, severity string, size int) Event {
	return Event{
		Session: session, Seq: seq, Severity: severity,
		Data: `{"pad":"` + strings.Repeat("x", size) + `"}`,
	}
}

// NDJSON joins event texts into one body.
func NDJSON(events ...string) string { return strings.Join(events, "\n") + "\n" }

// Quote is s as a JSON string.
func Quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Envelope is what tests look at in an event or frame. Numbers keep their
// spelling.
type Envelope struct {
	ID      json.RawMessage `json:"id"`
	Type    string          `json:"type"`
	Source  string          `json:"source"`
	Session string          `json:"session"`
	Epoch   json.Number     `json:"epoch"`
	Seq     json.Number     `json:"seq"`
	Capture string          `json:"capture"`
	Cause   string          `json:"cause"`
	Run     string          `json:"run"`
	Data    json.RawMessage `json:"data"`

	Code     string              `json:"code"`
	Detail   string              `json:"detail"`
	Sub      json.RawMessage     `json:"sub"`
	Reason   string              `json:"reason"`
	Earliest *EarliestPosition   `json:"earliest"`
	Entries  []json.RawMessage   `json:"entries"`
	Versions []string            `json:"versions"`
	Role     string              `json:"role"`
	T        json.RawMessage     `json:"t"`
	Count    uint64              `json:"count"`
	Closing  []DeliveredPosition `json:"delivered"`
}

// EarliestPosition is the member earliest of a replay-exhausted frame.
type EarliestPosition struct {
	Epoch json.Number `json:"epoch"`
	Seq   json.Number `json:"seq"`
}

// DeliveredPosition is one entry of a closing frame (R430).
type DeliveredPosition struct {
	Sub     json.RawMessage `json:"sub"`
	Session string          `json:"session"`
	Epoch   uint64          `json:"epoch"`
	Seq     uint64          `json:"seq"`
}

// ParseEnvelope reads text. Members of another kind than Envelope expects are
// an error.
func ParseEnvelope(text string) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return e, fmt.Errorf("relaytest: %w in %.200q", err, text)
	}
	return e, nil
}

// IDString is the id as a string, or its raw text when it is no string.
func (e Envelope) IDString() string {
	var s string
	if json.Unmarshal(e.ID, &s) != nil {
		return string(e.ID)
	}
	return s
}

// SeqNumber is seq as an integer; absent is 0.
func (e Envelope) SeqNumber() uint64 {
	n, err := strconv.ParseUint(string(e.Seq), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
