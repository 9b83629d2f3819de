package aep

import (
	"slices"
	"strconv"
	"strings"
)

// Filter is a compiled attr-match filter (contract, section 9): predicates on
// attributes, all of which must hold. The zero Filter matches every event. A
// Filter is immutable; its methods may be called from any goroutine.
type Filter struct {
	predicates []predicate // by attribute, most selective first, then by name
	sessions   []string
	canonical  string
}

// attribute is what a predicate looks at, most selective first: the order in
// which an index prefers to file filters.
type attribute uint8

const (
	attrID attribute = iota
	attrSession
	attrRun
	attrStep
	attrCause
	attrSubject
	attrSource
	attrAgent
	attrExtension
	attrType
	attrEpoch
	attrSeverity
	attrCapture
	attrNone // a core attribute that no filter may name (R212)
)

// attributeOf returns the attribute with a name. Names that are no core
// attribute are extensions, whatever their spelling.
func attributeOf(name string) attribute {
	switch name {
	case "id":
		return attrID
	case "session":
		return attrSession
	case "run":
		return attrRun
	case "step":
		return attrStep
	case "cause":
		return attrCause
	case "subject":
		return attrSubject
	case "source":
		return attrSource
	case "agent":
		return attrAgent
	case "type":
		return attrType
	case "epoch":
		return attrEpoch
	case "severity":
		return attrSeverity
	case "capture":
		return attrCapture
	case "aep", "time", "seq", "traceparent", "data":
		return attrNone
	}
	return attrExtension
}

// predicate holds if the attribute has one of the listed values. What can never
// match the attribute (a number for `agent`) was left out when it was compiled,
// so a predicate with nothing in it never holds.
type predicate struct {
	attr     attribute
	name     string
	texts    []string // ascending, distinct
	prefixes []string // of types, with the last dot; none begins another
	numbers  []int64  // ascending, distinct
	large    []string // keys of integers beyond 64 bits, ascending, distinct
	bools    uint8    // bit 0 stands for false, bit 1 for true
	levels   uint8    // one bit for each severity, or for each capture level
}

const (
	allSeverities = 1<<len(severityNames) - 1
	allLevels     = 1<<len(levelNames) - 1
)

// Match reports whether the event, as received, satisfies every predicate
// (R220 to R225). It does not allocate unless an extension attribute of the
// event is an integer beyond 64 bits or has digits on both sides of a point.
func (f *Filter) Match(e *Event) bool {
	for i := range f.predicates {
		if !f.predicates[i].match(e) {
			return false
		}
	}
	return true
}

// Canonical returns a filter text that is equal for filters that match the
// same by construction: members and elements sorted, duplicates and what can
// never match dropped, integers in one spelling, types covered by a pattern
// and severity ranges resolved. Parsing it gives an equal Filter.
func (f *Filter) Canonical() string {
	if len(f.predicates) == 0 {
		return "{}"
	}
	return f.canonical
}

// Sessions returns the strings that the filter demands of `session`, in the
// order given, or nil if it does not (R279). Shared, immutable.
func (f *Filter) Sessions() []string { return f.sessions }

// match reports whether the event has one of the values. Core strings are
// never empty in an event, and never in texts, so absence needs no test.
func (p *predicate) match(e *Event) bool {
	switch p.attr {
	case attrID:
		return hasText(p.texts, e.ID())
	case attrSession:
		return hasText(p.texts, e.Session())
	case attrSource:
		return hasText(p.texts, e.Source())
	case attrAgent:
		return hasText(p.texts, e.Agent())
	case attrSubject:
		subject, ok := e.Subject()
		return ok && hasText(p.texts, subject)
	case attrType:
		return hasText(p.texts, e.Type()) || hasPrefix(p.prefixes, e.Type())
	case attrEpoch:
		return hasNumber(p.numbers, e.Epoch())
	case attrSeverity:
		return p.levels>>e.Severity()&1 != 0
	case attrCapture:
		return p.levels>>e.Capture()&1 != 0
	}
	v, ok := e.Lookup(p.name)
	return ok && p.matchValue(v)
}

// matchValue compares type and value (R221).
func (p *predicate) matchValue(v Value) bool {
	switch v.kind {
	case KindString:
		return hasText(p.texts, v.text)
	case KindBool:
		return p.bools&boolBit(v.Bool()) != 0
	}
	if len(p.numbers) == 0 && len(p.large) == 0 {
		return false
	}
	integer := v.Integer()
	if n, ok := integer.Int64(); ok {
		return hasNumber(p.numbers, n)
	}
	var scratch [64]byte
	return hasLarge(p.large, integer.AppendKey(scratch[:0]))
}

func boolBit(b bool) uint8 {
	if b {
		return 2
	}
	return 1
}

// linearLimit is the length up to which a scan beats a binary search: most
// strings differ in length, which a scan sees first.
const linearLimit = 8

func hasText(texts []string, s string) bool {
	if len(texts) > linearLimit {
		_, ok := slices.BinarySearch(texts, s)
		return ok
	}
	return slices.Contains(texts, s)
}

func hasNumber(numbers []int64, n int64) bool {
	_, ok := slices.BinarySearch(numbers, n)
	return ok
}

func hasLarge(large []string, key []byte) bool {
	for _, s := range large {
		if s == string(key) {
			return true
		}
	}
	return false
}

// hasPrefix reports whether one of the prefixes begins typ. No prefix begins
// another, so all strings between a prefix and typ would begin with it as
// well, and only the greatest one not above typ can be it.
func hasPrefix(prefixes []string, typ string) bool {
	if len(prefixes) == 0 {
		return false
	}
	i, ok := slices.BinarySearch(prefixes, typ)
	return ok || i > 0 && strings.HasPrefix(typ, prefixes[i-1])
}

// appendCanonical appends the filter with its members sorted by name.
func (f *Filter) appendCanonical(dst []byte) []byte {
	byName := slices.Clone(f.predicates)
	slices.SortFunc(byName, func(a, b predicate) int {
		return strings.Compare(a.name, b.name)
	})
	dst = append(dst, '{')
	for i, p := range byName {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, p.name), ':')
		dst = p.appendCanonical(dst)
	}
	return append(dst, '}')
}

// appendCanonical appends the values as an array. A predicate that never holds
// is written with the empty string, which no core attribute ever is.
func (p *predicate) appendCanonical(dst []byte) []byte {
	dst = append(dst, '[')
	start := len(dst)
	next := func() []byte {
		if len(dst) > start {
			return append(dst, ',')
		}
		return dst
	}
	for _, s := range p.texts {
		dst = appendQuoted(next(), s)
	}
	for _, s := range p.prefixes {
		dst = appendQuoted(next(), s+"*")
	}
	for _, n := range p.numbers {
		dst = strconv.AppendInt(next(), n, 10)
	}
	for _, s := range p.large {
		dst = append(next(), s...)
	}
	if p.bools&boolBit(false) != 0 {
		dst = append(next(), "false"...)
	}
	if p.bools&boolBit(true) != 0 {
		dst = append(next(), "true"...)
	}
	for _, s := range p.levelNames() {
		dst = appendQuoted(next(), s)
	}
	if len(dst) == start {
		dst = append(dst, `""`...)
	}
	return append(dst, ']')
}

// levelNames returns the names of the levels in the set, lowest first.
func (p *predicate) levelNames() []string {
	all := severityNames[:]
	if p.attr == attrCapture {
		all = levelNames[:]
	}
	var names []string
	for i, name := range all {
		if p.levels>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}
