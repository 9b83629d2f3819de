package aepws

import (
	"crypto/sha256"
	"time"
)

// Longest values (B20).
const (
	maxIDBytes       = 128
	maxIdentityBytes = 512
)

// Versions says which version members an envelope has (B19).
type Versions uint8

// The version members, as bits.
const (
	HasAEPVersion Versions = 1 << iota
	HasSpecVersion
)

// Version is the protocol version (B19, B31), Subprotocol the name of the
// WebSocket subprotocol (B1).
const (
	Version     = "0.1"
	Subprotocol = "aep-0.1"
)

// Mode is a delivery mode, in the order of B57. The zero Mode stands for none
// given.
type Mode uint8

// The delivery modes (B23).
const (
	ModeAbsent Mode = iota
	BestEffort
	AtLeastOnce
	Replayable
	modeCount
)

var modeNames = [modeCount]string{"", "best_effort", "at_least_once", "replayable"}

// String returns the mode as it stands on the wire, empty for ModeAbsent.
func (m Mode) String() string {
	if m >= modeCount {
		return ""
	}
	return modeNames[m]
}

// Effective returns the mode of a delivery: the lower of the subscription's
// and the event's wish; absent means the other's, both absent best_effort
// (B57).
func Effective(a, b Mode) Mode {
	switch {
	case a == ModeAbsent && b == ModeAbsent:
		return BestEffort
	case a == ModeAbsent:
		return b
	case b == ModeAbsent:
		return a
	}
	return min(a, b)
}

func modeOf(name []byte) Mode {
	for m := BestEffort; m < modeCount; m++ {
		if modeNames[m] == string(name) {
			return m
		}
	}
	return ModeAbsent
}

// Envelope is one admitted message. Slices are decoded where they are strings,
// nil where the member is absent or faulty, and borrowed until the next Scan.
// The zero Envelope is ready for Scan.
type Envelope struct {
	Kind Kind
	// ID is the id as sent, also one that is against B20, since the refusal
	// names it (B29).
	ID             []byte
	Type           []byte
	Source         []byte
	Target         []byte
	Topic          []byte
	SessionID      []byte
	ConversationID []byte
	TaskID         []byte
	CorrelationID  []byte
	CausationID    []byte
	TenantID       []byte
	CreatedAt      time.Time // zero: none
	ExpiresAt      time.Time // zero: none
	// Payload is the raw value; {} for a control event without one.
	Payload  []byte
	Mode     Mode
	Retry    []byte // raw member of delivery (B57)
	Scheme   []byte // of authorization, where that is a string
	Token    []byte // of authorization, where that is a string
	Versions Versions
	// Faults has what is wrong, at most MaxFaults; none means admitted. Its
	// array is reused by the next Scan into this Envelope.
	Faults []Fault

	text           []byte
	start, lastEnd int // of the object; of its last member's value
	// delivery is cut out of the text: from cutStart to cutEnd. Both are 0 when
	// there is none.
	cutStart, cutEnd int
}

// Digest returns the hash of type and payload, as spelled, by which a
// publisher's repetition is told from another event of the same id (B56).
func (e *Envelope) Digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(e.Type)
	h.Write([]byte{0})
	h.Write(e.Payload)
	h.Sum(sum[:0])
	return sum
}

// field is a top-level member that the contract names.
type field uint8

const (
	fieldAEPVersion field = iota
	fieldSpecVersion
	fieldType
	fieldID
	fieldSource
	fieldCreated
	fieldPayload
	fieldTarget
	fieldTopic
	fieldSession
	fieldConversation
	fieldTask
	fieldCorrelation
	fieldCausation
	fieldTenant
	fieldExpires
	fieldDelivery
	fieldSchema
	fieldAuthorization
	fieldCount
	fieldOther
)

var fieldNames = [fieldCount]string{
	"aep_version", "spec_version", "type", "id", "source", "created_at",
	"payload", "target", "topic", "session_id", "conversation_id", "task_id",
	"correlation_id", "causation_id", "tenant_id", "expires_at", "delivery",
	"payload_schema", "authorization",
}

// Texts of faults, by field.
var (
	missingReasons = reasons(" is missing")
	twiceReasons   = reasons(" occurs twice")
	textReasons    = reasons(" is not a non-empty string")
	longReasons    = reasons(" is longer than 512 bytes")
	objectReasons  = reasons(" is not an object")
	timeReasons    = reasons(" is not an RFC 3339 time with a zone")
	versionReasons = reasons(" is not 0.1")
)

func reasons(suffix string) (all [fieldCount]string) {
	for f, name := range fieldNames {
		all[f] = name + suffix
	}
	return all
}

// fieldOf returns the member with a decoded name; case counts (B17).
func fieldOf(name []byte) field {
	switch string(name) {
	case "aep_version":
		return fieldAEPVersion
	case "spec_version":
		return fieldSpecVersion
	case "type":
		return fieldType
	case "id":
		return fieldID
	case "source":
		return fieldSource
	case "created_at":
		return fieldCreated
	case "payload":
		return fieldPayload
	case "target":
		return fieldTarget
	case "topic":
		return fieldTopic
	case "session_id":
		return fieldSession
	case "conversation_id":
		return fieldConversation
	case "task_id":
		return fieldTask
	case "correlation_id":
		return fieldCorrelation
	case "causation_id":
		return fieldCausation
	case "tenant_id":
		return fieldTenant
	case "expires_at":
		return fieldExpires
	case "delivery":
		return fieldDelivery
	case "payload_schema":
		return fieldSchema
	case "authorization":
		return fieldAuthorization
	}
	return fieldOther
}
