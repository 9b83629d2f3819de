package aepws

import (
	"slices"
	"strings"
)

// MaxFilterValues bounds the values of one filter member
// (AEPWS_MAX_FILTER_VALUES).
const MaxFilterValues = 64

// deadLettered is the one control type that a filter can name (B58).
var deadLettered = KindEventDeadLettered.String()

// Filter is a compiled filter of one tenant (B46 to B49). Immutable; any
// goroutine. ReadFilter makes it.
type Filter struct {
	tenant      string
	members     []exact // by attribute
	anyType     bool
	types       []string // ascending, distinct, none matched by a pattern
	patterns    []pattern
	deadLetters bool
	canonical   string
}

// exact is a filter member beside types: the attribute has to be one of the
// values. What can never match was left out.
type exact struct {
	attr   attribute
	values []string // ascending, distinct
}

// Tenant returns the tenant whose events the filter sees, empty for those of
// no tenant (B46).
func (f *Filter) Tenant() string { return f.tenant }

// Match tells if an event matches: it is of the filter's tenant, and every
// member of the filter matches (B46, B48). It does not allocate.
func (f *Filter) Match(a *Attributes) bool {
	return a.TenantID == f.tenant && f.matchMembers(a) && f.matchType(a.Type)
}

// MatchDeadLetter tells if a dead letter with these attributes goes to the
// filter: its types name event.dead_lettered exactly, and the rest matches as
// usual (B58). It does not allocate.
func (f *Filter) MatchDeadLetter(a *Attributes) bool {
	return f.deadLetters && a.TenantID == f.tenant && f.matchMembers(a)
}

func (f *Filter) matchMembers(a *Attributes) bool {
	for i := range f.members {
		if m := &f.members[i]; !hasText(m.values, a.get(m.attr)) {
			return false
		}
	}
	return true
}

func (f *Filter) matchType(typ string) bool {
	if f.anyType || hasText(f.types, typ) {
		return true
	}
	for i := range f.patterns {
		if f.patterns[i].match(typ) {
			return true
		}
	}
	return false
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

// Canonical returns a text that is equal for filters that match the same by
// construction, the tenant included: members and values sorted, repetitions
// and what can never match dropped, types covered by a pattern too. It has
// neither cursor nor mode nor expiry. Shared, immutable.
func (f *Filter) Canonical() string { return f.canonical }

// Candidates returns sets of index keys under which the filter may be filed,
// the most selective first: task, conversation, session, target, topic,
// source, type, and where there is none of these the tenant. An event that
// matches has at least one key of each set (E4). An empty set means that the
// filter matches no event. The result is the caller's.
func (f *Filter) Candidates() [][]uint64 {
	var sets [][]uint64
	for i := range f.members {
		m := &f.members[i]
		set := make([]uint64, 0, len(m.values))
		for _, s := range m.values {
			set = append(set, textKey(attrKeys[m.attr], s))
		}
		sets = append(sets, set)
	}
	if set, ok := f.typeCandidates(); ok {
		sets = append(sets, set)
	}
	if len(sets) == 0 {
		sets = append(sets, []uint64{textKey(tenantKey, f.tenant)})
	}
	return sets
}

// typeCandidates returns the keys of the types; none if a pattern begins with
// a star.
func (f *Filter) typeCandidates() ([]uint64, bool) {
	if f.anyType {
		return nil, false
	}
	set := make([]uint64, 0, len(f.types)+len(f.patterns))
	for _, s := range f.types {
		set = append(set, textKey(typeKey, s))
	}
	for i := range f.patterns {
		prefix := fileablePrefix(f.patterns[i].prefix)
		if prefix == "" {
			return nil, false
		}
		set = append(set, textKey(prefixKey, prefix))
	}
	slices.Sort(set)
	return slices.Compact(set), true
}

// compile sorts what was read and writes the canonical text.
func (f *Filter) compile(types []string) {
	slices.SortFunc(f.members, func(a, b exact) int { return int(a.attr) - int(b.attr) })
	for i := range f.members {
		m := &f.members[i]
		slices.Sort(m.values)
		m.values = slices.Compact(m.values)
		if len(m.values) > 0 && m.values[0] == "" {
			m.values = m.values[1:] // an absent member matches nothing (B48)
		}
	}
	slices.Sort(types)
	for _, typ := range slices.Compact(types) {
		switch {
		case typ == "*":
			f.anyType = true
		case strings.Contains(typ, "*"):
			f.patterns = append(f.patterns, newPattern(typ))
		default:
			f.types = append(f.types, typ)
		}
	}
	f.deadLetters = slices.Contains(f.types, deadLettered)
	if f.anyType {
		f.types, f.patterns = nil, nil
	}
	f.types = slices.DeleteFunc(f.types, func(typ string) bool {
		return slices.ContainsFunc(f.patterns, func(p pattern) bool { return p.match(typ) })
	})
	f.canonical = string(f.appendCanonical(nil))
}

// appendCanonical appends the filter as an object. The tenant's member is
// always there.
func (f *Filter) appendCanonical(dst []byte) []byte {
	dst = appendQuoted(append(dst, `{"tenant_id":`...), f.tenant)
	for i := range f.members {
		m := &f.members[i]
		dst = append(dst, `,"`...)
		dst = append(dst, attrNames[m.attr]...)
		dst = appendTexts(append(dst, `":`...), m.values)
	}
	types := slices.Clone(f.types)
	for i := range f.patterns {
		types = append(types, f.patterns[i].text)
	}
	if f.anyType {
		types = append(types, "*")
	}
	if f.deadLetters && !slices.Contains(types, deadLettered) {
		types = append(types, deadLettered)
	}
	return append(appendTexts(append(dst, `,"types":`...), types), '}')
}

func appendTexts(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, s := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, s)
	}
	return append(dst, ']')
}
