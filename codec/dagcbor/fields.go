package dagcbor

import (
	"bytes"
	"cmp"
	"slices"
)

// Field is one key of a map with its value, both lent from the input.
type Field struct {
	Key    []byte // the text, without its head
	Value  []byte // the encoded value
	Sorted bool   // all map keys inside Value are in order
}

// Fields is a map that was read without going into its values: every field in
// the order of the input, unknown ones too. Its zero value is empty; it can be
// used again, which saves an allocation.
type Fields struct {
	List    []Field
	Ordered bool // the keys of List are in the order of CompareKeys
}

// Map checks the map at b[at:] and lends its fields to m, whose old content is
// forgotten. It returns where the map ends. Beyond the errors of Value it
// returns ErrNotMap for another value, and ErrTooManyFields, after all else is
// found right. After an error m is empty.
func (s *Scanner) Map(b []byte, at int, m *Fields) (end int, err error) {
	m.List, m.Ordered = m.List[:0], true
	defer s.release()
	if at >= len(b) {
		return at, fail(at, ErrTruncated)
	}
	if Major(b[at]>>5) != Map {
		if _, _, err := s.value(b, at, 0); err != nil {
			return at, err
		}
		return at, fail(at, ErrNotMap)
	}
	_, count, next, err := readHead(b, at)
	if err != nil {
		return at, fail(at, err)
	}
	if err := room(b, at, next, count, 2, 0); err != nil {
		return at, err
	}
	into := m
	if count > MaxFields {
		into = nil
	}
	end, _, err = s.pairs(b, next, int(count), 1, into)
	if err == nil && into == nil {
		err = fail(at, ErrTooManyFields)
	}
	if err != nil {
		m.List = m.List[:0]
		return at, err
	}
	return end, nil
}

// Find returns the value of a key, or nil.
func (m *Fields) Find(key string) []byte {
	for i := range m.List {
		if string(m.List[i].Key) == key {
			return m.List[i].Value
		}
	}
	return nil
}

// Sorted reports whether the map is canonical as it was read: its own keys and
// those of all maps inside are in order.
func (m *Fields) Sorted() bool {
	return m.Ordered && !slices.ContainsFunc(m.List, func(f Field) bool { return !f.Sorted })
}

// Sort puts the fields into the order of CompareKeys.
func (m *Fields) Sort() {
	if !m.Ordered {
		slices.SortFunc(m.List, func(x, y Field) int { return CompareKeys(x.Key, y.Key) })
		m.Ordered = true
	}
}

// Set gives a key a value, which is one encoded canonical value and is kept. A
// nil value takes the key out. The order is kept.
func (m *Fields) Set(key string, value []byte) {
	m.Sort()
	at, found := slices.BinarySearchFunc(m.List, key, func(f Field, key string) int {
		return compareText(f.Key, key)
	})
	switch field := (Field{Key: []byte(key), Value: value, Sorted: true}); {
	case value == nil && found:
		m.List = slices.Delete(m.List, at, at+1)
	case value == nil:
	case found:
		m.List[at] = field
	default:
		m.List = slices.Insert(m.List, at, field)
	}
}

// CompareKeys orders map keys: the shorter first, then bytewise (F10). It is
// negative, zero or positive.
func CompareKeys(x, y []byte) int {
	if order := cmp.Compare(len(x), len(y)); order != 0 {
		return order
	}
	return bytes.Compare(x, y)
}

// compareText is CompareKeys with a string, which is not copied.
func compareText(x []byte, y string) int {
	switch {
	case len(x) != len(y):
		return cmp.Compare(len(x), len(y))
	case string(x) < y:
		return -1
	case string(x) > y:
		return 1
	}
	return 0
}
