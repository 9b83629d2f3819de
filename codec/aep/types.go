package aep

// Level is a capture level: how much of the content of the work an event
// carries. Levels are ordered, LevelNone is the lowest. An event without the
// attribute stands at LevelMetadata.
type Level uint8

// The capture levels, lowest first (contract, section 10).
const (
	LevelNone Level = iota
	LevelMetadata
	LevelRedacted
	LevelFull
)

var levelNames = [...]string{"none", "metadata", "redacted", "full"}

// ParseLevel returns the level that a wire name stands for (R110, R240). The
// name is borrowed until return. Any goroutine.
func ParseLevel[T ~string | ~[]byte](name T) (Level, bool) {
	switch string(name) {
	case "none":
		return LevelNone, true
	case "metadata":
		return LevelMetadata, true
	case "redacted":
		return LevelRedacted, true
	case "full":
		return LevelFull, true
	}
	return 0, false
}

// String returns the wire name, or "invalid" for a value that is no level.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "invalid"
}

// Severity says how much an event matters. Severities are ordered,
// SeverityDebug is the lowest. An event without the attribute is at
// SeverityInfo (R220).
type Severity uint8

// The severities, lowest first (R224).
const (
	SeverityDebug Severity = iota
	SeverityInfo
	SeverityNotice
	SeverityWarning
	SeverityError
	SeverityCritical
)

var severityNames = [...]string{
	"debug", "info", "notice", "warning", "error", "critical",
}

// ParseSeverity returns the severity that a wire name stands for (R110, R215).
// The name is borrowed until return. Any goroutine.
func ParseSeverity[T ~string | ~[]byte](name T) (Severity, bool) {
	switch string(name) {
	case "debug":
		return SeverityDebug, true
	case "info":
		return SeverityInfo, true
	case "notice":
		return SeverityNotice, true
	case "warning":
		return SeverityWarning, true
	case "error":
		return SeverityError, true
	case "critical":
		return SeverityCritical, true
	}
	return 0, false
}

// String returns the wire name, or "invalid" for a value that is no severity.
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "invalid"
}

// Class says how the relay treats an event: whether it is buffered, fanned
// out, routed, and whether it makes a claim (contract, section 6).
type Class uint8

// The classes of R141 to R144.
const (
	// ClassOrdinary is buffered, fanned out live, and makes a claim when it
	// came by WebSocket (R144).
	ClassOrdinary Class = iota
	// ClassCommand is routed to the claimant of its session and never
	// buffered (R140, R141).
	ClassCommand
	// ClassLiveness is fanned out live and nothing else (R142).
	ClassLiveness
	// ClassForeign is fanned out live; it belongs to a session which its
	// emitter does not own, so it makes no claim (R143).
	ClassForeign
)
