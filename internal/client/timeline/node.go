package timeline

import "time"

// Kind says what a node is.
type Kind string

// The kinds of nodes.
const (
	KindRun        Kind = "run"
	KindStep       Kind = "step"
	KindTool       Kind = "tool"
	KindAttention  Kind = "attention"
	KindDelegation Kind = "delegation"
	KindCommand    Kind = "command"
	KindEvent      Kind = "event"   // an event by itself
	KindRestart    Kind = "restart" // a new epoch
	KindGap        Kind = "gap"     // events that are not there
)

// Status says how a thing stands.
type Status string

// The states of things.
const (
	StatusNone      Status = "" // has no beginning and end of its own
	StatusOpen      Status = "open"
	StatusUnended   Status = "unended" // no end, but it is over
	StatusFinished  Status = "finished"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
	StatusDenied    Status = "denied"
	StatusAnswered  Status = "answered"
	StatusResolved  Status = "resolved" // without an answer that was seen
	StatusTimeout   Status = "timed out"
	StatusAccepted  Status = "accepted"
	StatusRejected  Status = "rejected"
)

// Node is a thing that lasts, or an event by itself. Texts are as the events
// had them, cut to maxWordBytes and not escaped.
type Node struct {
	Kind Kind `json:"kind"`
	// Name is the run, the step, the tool, the kind of a question, the agent
	// type of a delegation, the command, or the type of an event.
	Name string `json:"name,omitempty"`
	// ID is the event id of a question or command, which answers refer to.
	ID     string `json:"id,omitempty"`
	Status Status `json:"status,omitempty"`
	// Start is when it was first seen: at its start, if StartMissing is false.
	Start        time.Time `json:"start,omitzero"`
	End          time.Time `json:"end,omitzero"`
	StartMissing bool      `json:"start_missing,omitempty"`
	// DurationMillis is what the agent has told, or else End minus Start; nil
	// if neither is known.
	DurationMillis *int64 `json:"duration_ms,omitempty"`
	Severity       string `json:"severity,omitempty"`
	// Detail tells of its start, or of the event; Outcome of its end.
	Detail  string `json:"detail,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Epoch   int64  `json:"epoch"`
	// Missing is how many events a gap lacks, 0 if that is not known, and
	// Announced tells that the relay has said so.
	Missing   int64   `json:"missing,omitempty"`
	Announced bool    `json:"announced,omitempty"`
	Children  []*Node `json:"children,omitempty"`

	begun bool // its start event was seen
	ended bool
}

// Timeline is what happened in one session.
type Timeline struct {
	Session string   `json:"session"`
	Agents  []string `json:"agents"` // in order of appearance
	// Events is how many are told, Repeated how many were there twice, and
	// LeftOut how many did not fit the bounds.
	Events   int       `json:"events"`
	Repeated int       `json:"repeated,omitempty"`
	LeftOut  int       `json:"left_out,omitempty"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	// Ended tells that session.ended was seen after all else.
	Ended bool `json:"ended"`
	// Totals counts things by kind and status, and gaps and restarts.
	Totals   map[Kind]map[Status]int `json:"totals"`
	Errors   int                     `json:"errors,omitempty"` // error.raised
	Children []*Node                 `json:"children"`
}
