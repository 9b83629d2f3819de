package aep

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

// Keys are hashes of (attribute, kind, value) under a seed of this process, so
// that an index can find the filters an event may match without a scan, and
// nobody can aim at collisions. A key proves nothing: Match has the last word.

// maxPrefixCount and maxPrefixBytes bound the keys of type prefixes, so that a
// type with a million segments costs what a usual one costs. Patterns beyond
// are filed under their longest prefix within the bounds.
const (
	maxPrefixCount = 16
	maxPrefixBytes = 256
)

var (
	keySeed    = maphash.MakeSeed()
	prefixKey  = maphash.String(keySeed, "type prefix")
	integerKey = maphash.String(keySeed, "integer")
	boolKey    = maphash.String(keySeed, "boolean")

	coreKeys     = coreNameKeys()
	severityKeys = levelKeys(coreKeys[coreSeverity], severityNames[:])
	captureKeys  = levelKeys(coreKeys[coreCapture], levelNames[:])
)

func coreNameKeys() (keys [coreNone]uint64) {
	for c := range coreNone {
		keys[c] = nameKey(coreNames[c])
	}
	return keys
}

func levelKeys(name uint64, levels []string) []uint64 {
	var keys []uint64
	for _, s := range levels {
		keys = append(keys, textKey(name, s))
	}
	return keys
}

// nameKey returns the hash of an attribute name, rotated so that a value equal
// to the name does not cancel it.
func nameKey(name string) uint64 {
	return bits.RotateLeft64(maphash.String(keySeed, name), 31)
}

func textKey(name uint64, s string) uint64 {
	return name ^ maphash.String(keySeed, s)
}

func numberKey(name uint64, n int64) uint64 {
	hi, lo := bits.Mul64(uint64(n)^integerKey, 0x9e3779b97f4a7c15)
	return name ^ bits.RotateLeft64(integerKey, 17) ^ hi ^ lo
}

func largeKey(name uint64, key string) uint64 {
	return name ^ integerKey ^ maphash.String(keySeed, key)
}

func boolValueKey(name uint64, b bool) uint64 {
	return name ^ bits.RotateLeft64(boolKey, int(boolBit(b)))
}

// AppendKeys appends the keys of all filterable attributes of the event to
// dst, absent ones that have a default included (R220), and one for each prefix
// `a.`, `a.b.` of its type. If a filter matches the event, each of the filter's
// Candidates has at least one of these keys. The count is at most the number of
// attributes plus 19. It does not allocate if dst has room, integers beyond 64
// bits excepted. Any goroutine.
func (e *Event) AppendKeys(dst []uint64) []uint64 {
	for c := range coreEpoch {
		if text := e.coreString(c); text != "" {
			dst = append(dst, textKey(coreKeys[c], text))
		}
	}
	dst = append(dst, numberKey(coreKeys[coreEpoch], e.epoch),
		severityKeys[e.severity], captureKeys[e.capture])
	dst = appendPrefixKeys(dst, e.Type())
	for i := range e.attrs {
		dst = append(dst, valueKey(nameKey(e.attrName(i)), e.attrValue(i)))
	}
	return dst
}

func valueKey(name uint64, v Value) uint64 {
	switch v.kind {
	case KindString:
		return textKey(name, v.text)
	case KindBool:
		return boolValueKey(name, v.Bool())
	}
	integer := v.Integer()
	if n, ok := integer.Int64(); ok {
		return numberKey(name, n)
	}
	return largeKey(name, string(integer.AppendKey(nil)))
}

// appendPrefixKeys appends a key for each prefix of typ that ends in a dot.
func appendPrefixKeys(dst []uint64, typ string) []uint64 {
	end := 0
	for range maxPrefixCount {
		dot := strings.IndexByte(typ[end:], '.')
		if dot < 0 || end+dot+1 > maxPrefixBytes {
			break
		}
		end += dot + 1
		dst = append(dst, textKey(prefixKey, typ[:end]))
	}
	return dst
}

// fileablePrefix returns the longest prefix of a pattern's prefix that
// appendPrefixKeys knows. Without any, no valid type can match (all begin with
// a category or x), so any key will do.
func fileablePrefix(prefix string) string {
	end := 0
	for range maxPrefixCount {
		dot := strings.IndexByte(prefix[end:], '.')
		if dot < 0 || end+dot+1 > maxPrefixBytes {
			break
		}
		end += dot + 1
	}
	return prefix[:end]
}

// Candidates returns, for each predicate, the keys under which an index may
// file the filter, the most selective attribute first: id, session, run, step,
// cause, subject, source, agent, extensions, type, epoch, severity, capture.
// An event that matches has at least one key of each set, so filing under the
// keys of any one set finds it. An empty set means that the filter matches no
// event. Nil means that it has no predicate. A severity range is filed under
// the severities in it. The result is the caller's. Any goroutine.
func (f *Filter) Candidates() [][]uint64 {
	var sets [][]uint64
	for i := range f.predicates {
		sets = append(sets, f.predicates[i].keys())
	}
	return sets
}

func (p *predicate) keys() []uint64 {
	name := nameKey(p.name)
	keys := []uint64{}
	for _, s := range p.texts {
		keys = append(keys, textKey(name, s))
	}
	for _, s := range p.prefixes {
		keys = append(keys, textKey(prefixKey, fileablePrefix(s)))
	}
	for _, n := range p.numbers {
		keys = append(keys, numberKey(name, n))
	}
	for _, s := range p.large {
		keys = append(keys, largeKey(name, s))
	}
	for _, b := range [...]bool{false, true} {
		if p.bools&boolBit(b) != 0 {
			keys = append(keys, boolValueKey(name, b))
		}
	}
	for _, s := range p.levelNames() {
		keys = append(keys, textKey(name, s))
	}
	return sortedSet(keys)
}
