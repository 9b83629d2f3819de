package aep

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// ErrFilterSyntax is returned for a filter that is not a JSON text.
var ErrFilterSyntax = errors.New("filter is not JSON")

// FilterError is returned for a filter that is JSON but not a legal filter.
// Detail is fit for a client: it quotes at most the first bytes of a name.
type FilterError struct{ Detail string }

func (e *FilterError) Error() string { return "invalid filter: " + e.Detail }

// ParseFilter compiles a filter from its JSON text; nil or empty raw is the
// filter that matches everything (R210 to R217). JSON null is refused: where a
// binding gives it a meaning, the caller does. A member named twice is refused,
// for it is not clear which was meant. The error is ErrFilterSyntax or a
// *FilterError. Raw is borrowed until return. Any goroutine.
func ParseFilter(raw []byte) (*Filter, error) {
	if len(raw) == 0 {
		return &Filter{}, nil
	}
	var s Scanner
	if s.Scan(raw) != nil {
		return nil, ErrFilterSyntax
	}
	raw = trimSpace(raw)
	if kindOf(raw) != '{' {
		return nil, &FilterError{"not an object"}
	}
	f := &Filter{}
	seen := make(map[string]struct{})
	for m := membersOf(raw); m.next(); {
		name := decodeString(m.name)
		if _, ok := seen[name]; ok {
			return nil, &FilterError{"member given twice: " + quote([]byte(name))}
		}
		seen[name] = struct{}{}
		if err := f.add(name, m.value); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.predicates, func(a, b predicate) int {
		return cmp.Or(cmp.Compare(a.attr, b.attr), strings.Compare(a.name, b.name))
	})
	f.canonical = string(f.appendCanonical(nil))
	return f, nil
}

// add compiles one member.
func (f *Filter) add(name string, value []byte) error {
	p := predicate{attr: attributeOf(name), name: name}
	if p.attr == attrNone || p.attr == attrExtension && !validName([]byte(name)) {
		return &FilterError{"not a filterable attribute: " + quote([]byte(name))}
	}
	var err error
	switch kindOf(value) {
	case '{':
		err = p.addRange(value)
	case '[':
		err = p.addArray(value)
	default:
		err = p.addScalar(value)
	}
	if err != nil {
		return err
	}
	if p.attr == attrSession {
		f.sessions = distinct(p.texts)
	}
	p.normalize()
	if p.attr == attrSeverity && p.levels == allSeverities ||
		p.attr == attrCapture && p.levels == allLevels {
		return nil // holds for every event
	}
	f.predicates = append(f.predicates, p)
	return nil
}

func (p *predicate) addArray(raw []byte) error {
	empty := true
	for e := elementsOf(raw); e.next(); {
		empty = false
		if err := p.addScalar(e.value); err != nil {
			return err
		}
	}
	if empty {
		return p.refuse("an array must not be empty")
	}
	return nil
}

func (p *predicate) addScalar(raw []byte) error {
	switch kindOf(raw) {
	case '"':
		return p.addText(decodeString(raw))
	case 't', 'f':
		if p.attr == attrExtension {
			p.bools |= boolBit(raw[0] == 't')
		}
		return nil
	case '{', '[', 'n', 0:
		return p.refuse("a value must be a string, an integer or a boolean")
	}
	integer, ok := ParseInteger(raw)
	if !ok {
		return p.refuse("a number must be an integer")
	}
	if p.attr != attrExtension && p.attr != attrEpoch {
		return nil
	}
	if n, ok := integer.Int64(); ok {
		p.numbers = append(p.numbers, n)
	} else if p.attr == attrExtension {
		p.large = append(p.large, string(integer.AppendKey(nil)))
	}
	return nil
}

func (p *predicate) addText(s string) error {
	pattern := strings.Contains(s, "*")
	switch {
	case pattern && p.attr != attrType:
		return p.refuse("a pattern is legal only on type")
	case pattern && !validPattern(s):
		return p.refuse("a pattern must be a dotted prefix and .*")
	case pattern:
		p.prefixes = append(p.prefixes, s[:len(s)-1])
	case p.attr == attrSeverity:
		if severity, ok := ParseSeverity(s); ok {
			p.levels |= 1 << severity
		}
	case p.attr == attrCapture:
		if level, ok := ParseLevel(s); ok {
			p.levels |= 1 << level
		}
	case p.attr == attrEpoch, s == "" && p.attr != attrExtension:
		// Never equal: epochs are integers, core strings are not empty.
	default:
		p.texts = append(p.texts, s)
	}
	return nil
}

// addRange compiles the object form of severity (R215).
func (p *predicate) addRange(raw []byte) error {
	if p.attr != attrSeverity {
		return p.refuse("an object is legal only on severity")
	}
	lowest, highest := SeverityDebug, SeverityCritical
	var seen [2]bool
	for m := membersOf(raw); m.next(); {
		bound, place := &lowest, 0
		switch {
		case rawEqual(m.name, "gte"):
		case rawEqual(m.name, "lte"):
			bound, place = &highest, 1
		default:
			return p.refuse("only gte and lte are known")
		}
		if seen[place] {
			return p.refuse("gte or lte is given twice")
		}
		seen[place] = true
		severity, ok := Severity(0), kindOf(m.value) == '"'
		if ok {
			severity, ok = ParseSeverity(decodeString(m.value))
		}
		if !ok {
			return p.refuse("gte and lte need a severity name")
		}
		*bound = severity
	}
	for s := lowest; s <= highest; s++ {
		p.levels |= 1 << s
	}
	return nil
}

// normalize sorts the values and drops those which others cover.
func (p *predicate) normalize() {
	p.texts = sortedSet(p.texts)
	p.prefixes = sortedSet(p.prefixes)
	p.numbers = sortedSet(p.numbers)
	p.large = sortedSet(p.large)
	kept := p.prefixes[:0]
	for _, s := range p.prefixes {
		// A prefix sorts before all that begin with it.
		if len(kept) == 0 || !strings.HasPrefix(s, kept[len(kept)-1]) {
			kept = append(kept, s)
		}
	}
	p.prefixes = kept
	p.texts = slices.DeleteFunc(p.texts, func(s string) bool {
		return hasPrefix(p.prefixes, s)
	})
}

func sortedSet[T cmp.Ordered](values []T) []T {
	slices.Sort(values)
	return slices.Compact(values)
}

// distinct returns the values in the order of their first mention.
func distinct(values []string) []string {
	var result []string
	seen := make(map[string]struct{}, len(values))
	for _, s := range values {
		if _, ok := seen[s]; !ok {
			seen[s] = struct{}{}
			result = append(result, s)
		}
	}
	return result
}

func (p *predicate) refuse(why string) error {
	return &FilterError{quote([]byte(p.name)) + ": " + why}
}

// validPattern reports whether s is 1*( 1*[a-z0-9_-] "." ) "*" (R216).
func validPattern(s string) bool {
	prefix, ok := strings.CutSuffix(s, ".*")
	if !ok {
		return false
	}
	length := 0
	for i := range len(prefix) {
		c := prefix[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
			length++
		case c == '.' && length > 0:
			length = 0
		default:
			return false
		}
	}
	return length > 0
}
