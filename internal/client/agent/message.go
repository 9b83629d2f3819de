package agent

import (
	"encoding/json"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// source is the sender of the control events of this program.
const source = "sluice-agent"

// outgoing is a control event as it is sent (B18, B19).
type outgoing struct {
	AEPVersion  string `json:"aep_version"`
	SpecVersion string `json:"spec_version"`
	ID          string `json:"id"`
	Type        string `json:"type"`
	Source      string `json:"source"`
	CreatedAt   string `json:"created_at"`
	SessionID   string `json:"session_id,omitempty"`
	TenantID    string `json:"tenant_id,omitempty"`
	Payload     any    `json:"payload"`
}

// opening is the payload of session.opened (B31, B36).
type opening struct {
	SessionID    string         `json:"session_id,omitempty"`
	Version      string         `json:"version"`
	Capabilities map[string]int `json:"capabilities"`
}

// closing is the payload of session.closed (B41).
type closing struct {
	SessionID string `json:"session_id"`
	Reason    string `json:"reason"`
}

// acknowledgement is the payload of event.acknowledged (B58).
type acknowledgement struct {
	EventID        string `json:"acknowledged_event_id"`
	Cursor         string `json:"cursor"`
	SubscriptionID string `json:"subscription_id,omitempty"`
}

// Filter says which events are wanted. Values of one member are alternatives,
// members hold together (B48). Immutable while Follow runs.
type Filter struct {
	Types         []string   `json:"types,omitempty"` // patterns (B49)
	Sources       []string   `json:"source,omitempty"`
	Targets       []string   `json:"target,omitempty"`
	Topics        []string   `json:"topic,omitempty"`
	Sessions      []string   `json:"session_id,omitempty"`
	Conversations []string   `json:"conversation_id,omitempty"`
	Tasks         []string   `json:"task_id,omitempty"`
	Mode          aepws.Mode `json:"-"` // the wish of B57; ModeAbsent: the event's
}

// subscribing is the payload of subscription.requested (B47).
type subscribing struct {
	Filter
	Mode       string `json:"delivery_mode,omitempty"`
	FromCursor string `json:"from_cursor,omitempty"`
}

// request returns the payload that asks for a filter's events behind a cursor,
// "" for none. A filter without a member that B47 asks for gets all types.
func (f *Filter) request(cursor string) subscribing {
	s := subscribing{Filter: *f, Mode: f.Mode.String(), FromCursor: cursor}
	if len(f.Types)+len(f.Sources)+len(f.Targets)+len(f.Topics) == 0 {
		s.Types = []string{"*"}
	}
	return s
}

// errorBody is an error object (B26).
type errorBody struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Details   struct {
		Reason     string `json:"reason"`
		LastCursor string `json:"last_cursor"`
	} `json:"details"`
}

// words returns what an error object says, fit for a terminal.
func (b *errorBody) words() string {
	return clean(joined(joined(b.Code, b.Details.Reason), b.Message))
}

// answer is what is read of the payload of a relay's control event.
type answer struct {
	SessionID      string    `json:"session_id"`
	Reason         string    `json:"reason"`
	Error          errorBody `json:"error"`
	SubscriptionID string    `json:"subscription_id"`
	Acknowledged   string    `json:"acknowledged_event_id"`
	Original       string    `json:"original_event_id"`
	Attempt        int       `json:"attempt"`
	Replayed       int64     `json:"events_replayed"`
	Replay         struct {
		Status       string `json:"status"`
		Reason       string `json:"reason"`
		OldestCursor string `json:"oldest_cursor"`
	} `json:"replay"`
	Capabilities struct {
		MaxBytes        int64 `json:"max_payload_size"`
		HeartbeatMillis int64 `json:"heartbeat_interval_ms"`
	} `json:"capabilities"`
}

// answerOf reads a control event's payload with indulgence: a member of another
// kind than it should be is as good as absent.
func answerOf(e *aepws.Envelope) (a answer) {
	_ = json.Unmarshal(e.Payload, &a)
	return a
}

// timeText writes a time as events have it.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
