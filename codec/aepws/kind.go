package aepws

import "github.com/sluice-relay/sluice/codec/jsontext"

import "strings"

// Kind tells the control types apart. The zero Kind is a domain event.
type Kind uint8

// The kinds. KindUnknownControl is a type of a control family that is not in the
// registry; such an event has a fault (B24).
const (
	KindDomain Kind = iota
	KindUnknownControl
	KindSessionOpened
	KindSessionReady
	KindSessionHeartbeat
	KindSessionClosed
	KindSessionError
	KindCapabilitiesRequested
	KindCapabilitiesDeclared
	KindCapabilitiesChanged
	KindSubscriptionRequested
	KindSubscriptionCreated
	KindSubscriptionRejected
	KindSubscriptionCancelled
	KindSubscriptionExpired
	KindEventAcknowledged
	KindEventRejected
	KindEventRedelivered
	KindEventReplayed
	KindEventDeadLettered
	kindCount
)

var kindNames = [kindCount]string{
	KindSessionOpened:         "session.opened",
	KindSessionReady:          "session.ready",
	KindSessionHeartbeat:      "session.heartbeat",
	KindSessionClosed:         "session.closed",
	KindSessionError:          "session.error",
	KindCapabilitiesRequested: "capabilities.requested",
	KindCapabilitiesDeclared:  "capabilities.declared",
	KindCapabilitiesChanged:   "capabilities.changed",
	KindSubscriptionRequested: "subscription.requested",
	KindSubscriptionCreated:   "subscription.created",
	KindSubscriptionRejected:  "subscription.rejected",
	KindSubscriptionCancelled: "subscription.cancelled",
	KindSubscriptionExpired:   "subscription.expired",
	KindEventAcknowledged:     "event.acknowledged",
	KindEventRejected:         "event.rejected",
	KindEventRedelivered:      "event.redelivered",
	KindEventReplayed:         "event.replayed",
	KindEventDeadLettered:     "event.dead_lettered",
}

// String returns the type of a control kind, empty for the two that stand for
// many types.
func (k Kind) String() string {
	if k >= kindCount {
		return ""
	}
	return kindNames[k]
}

// Control tells if the event is between one client and the relay (B28).
func (k Kind) Control() bool { return k != KindDomain }

// RelayOnly tells if a client that sends this kind gets event.rejected
// protocol_error (B30). session.ready is not among them: the table of section
// 5 has a client's own accepted and ignored.
func (k Kind) RelayOnly() bool {
	switch k {
	case KindCapabilitiesDeclared, KindSubscriptionCreated, KindSubscriptionRejected,
		KindSubscriptionExpired, KindEventRedelivered, KindEventReplayed, KindEventDeadLettered:
		return true
	}
	return false
}

// kindOf returns the kind of a type.
func kindOf(typ []byte) Kind {
	dot := 0
	for dot < len(typ) && typ[dot] != '.' {
		dot++
	}
	switch string(typ[:dot]) {
	case "session", "capabilities", "subscription", "event":
	default:
		return KindDomain
	}
	if dot == len(typ) {
		return KindDomain // no type at all
	}
	for k := KindSessionOpened; k < kindCount; k++ {
		if kindNames[k] == string(typ) {
			return k
		}
	}
	return KindUnknownControl
}

// Bounds of a type (B24).
const (
	maxTypeBytes    = 128
	minTypeSegments = 2
	maxTypeSegments = 8
)

// ValidType tells if typ is well formed: 2 to 8 segments of [a-z][a-z0-9_]*
// with dots between, at most 128 bytes (B24). Pure.
func ValidType[T string | []byte](typ T) bool {
	if len(typ) > maxTypeBytes {
		return false
	}
	segments, first := 1, true
	for i := 0; i < len(typ); i++ {
		switch c := typ[i]; {
		case c >= 'a' && c <= 'z':
			first = false
		case first:
			return false
		case c == '.':
			segments, first = segments+1, true
		case !jsontext.IsDigit(c) && c != '_':
			return false
		}
	}
	return !first && segments >= minTypeSegments && segments <= maxTypeSegments
}

// Registry is a set of domain types for AEPWS_STRICT_TYPES (B24). Immutable;
// any goroutine.
type Registry struct{ types map[string]struct{} }

// NewRegistry returns the types of the contract's appendix and the extra ones.
// An extra type has to be well formed and of no control family; what is not is
// named in bad, and left out.
func NewRegistry(extra ...string) (r *Registry, bad []string) {
	r = &Registry{types: make(map[string]struct{})}
	for _, family := range registered {
		for name := range strings.FieldsSeq(family.names) {
			r.types[family.prefix+name] = struct{}{}
		}
	}
	for _, typ := range extra {
		if !ValidType(typ) || kindOf([]byte(typ)).Control() {
			bad = append(bad, typ)
			continue
		}
		r.types[typ] = struct{}{}
	}
	return r, bad
}

// Has tells if a domain type is registered. It does not allocate.
func (r *Registry) Has(typ []byte) bool {
	_, ok := r.types[string(typ)]
	return ok
}

// Len returns the number of registered domain types.
func (r *Registry) Len() int { return len(r.types) }

// registered has the appendix of the contract, without the control families.
var registered = [...]struct{ prefix, names string }{
	{"tool.call.", "requested accepted rejected started progress output completed failed cancel.requested cancelled timed_out"},
	{"task.", "submitted accepted started blocked progress output completed failed cancel.requested cancelled timed_out"},
	{"context.", "updated invalidated snapshot.requested snapshot.ready retrieval.started retrieval.completed retrieval.failed"},
	{"memory.", "updated fact.added fact.updated fact.invalidated episode.stored preference.updated constraint.updated summary.ready retrieval.ready"},
	{"agent.", "message.sent message.received message.failed request.created response.created decision.recorded"},
	{"environment.", "observed changed alerted error"},
	{"belief.", "revised conflict.detected"},
	{"freshness.", "expired window.changed"},
	{"delegation.", "requested accepted rejected escalated handoff.completed"},
	{"interruption.", "requested acknowledged saved resumed cancelled"},
	{"compensation.", "requested completed"},
	{"provenance.", "attestation.added attestation.revoked chain.truncated"},
	{"command.", "requested accepted rejected completed failed"},
	{"query.", "requested response rejected error"},
	{"adaptation.", "outcome.correlated goal.created goal.updated goal.achieved goal.abandoned cost.exceeded budget.established budget.adjusted budget.limit_exceeded budget.exhausted"},
	{"capability.", "registered updated deprecated composed validated"},
}
