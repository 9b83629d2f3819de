package render

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
)

// Event is an event as people are shown it. What is absent, or of a kind that
// it should not be, is the zero value. Immutable after Parse.
type Event struct {
	ID, Type, Source, Agent string
	Session, Run, Step      string
	Subject, Cause          string
	Time                    time.Time // zero if TimeText is no RFC 3339
	TimeText                string
	Severity                aep.Severity // info if absent or unknown
	Epoch, Seq              int64
	HasSeq                  bool
	Data                    Payload
}

// Parse reads an event. It reports false when text is not a JSON object; any
// object is an event here. Of a repeated member the last counts.
func Parse(text []byte) (Event, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var m Payload
	if d.Decode(&m) != nil || m == nil || len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return Event{}, false
	}
	str := func(name string) string { s, _ := m[name].(string); return s }
	e := Event{
		ID: str("id"), Type: str("type"), Source: str("source"), Agent: str("agent"),
		Session: str("session"), Run: str("run"), Step: str("step"),
		Subject: str("subject"), Cause: str("cause"),
		TimeText: str("time"), Severity: aep.SeverityInfo,
	}
	if t, err := time.Parse(time.RFC3339Nano, e.TimeText); err == nil {
		e.Time = t
	}
	if s, ok := aep.ParseSeverity(str("severity")); ok {
		e.Severity = s
	}
	e.Epoch, _ = m.Integer("epoch")
	e.Seq, e.HasSeq = m.Integer("seq")
	e.Data = m.Object("data")
	return e, true
}
