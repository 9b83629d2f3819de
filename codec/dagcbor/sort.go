package dagcbor

import "slices"

// Sorter writes values with their map keys in order. Its zero value is ready;
// it keeps scratch. One goroutine at a time.
type Sorter struct {
	entries []entry // of the maps that are open, the innermost map's last
	region  []byte  // the entries of one map, before they are put in order
}

// entry is one key and value in the output.
type entry struct {
	key   span // the text of the key
	whole span
}

// AppendSorted appends a value with the keys of all maps in it in order (F10),
// and everything else byte for byte. The value is one that a Scanner has
// accepted, sorted or not; it is not kept.
//
// It is one pass: values are written in the order of the input, and a map that
// is out of order is put right when it is complete, so each byte moves once for
// each such map around it.
func (s *Sorter) AppendSorted(dst, value []byte) []byte {
	dst, _ = s.value(dst, value, 0, 0)
	if s.entries = s.entries[:0]; cap(s.entries) > keptSpans {
		s.entries = nil
	}
	if s.region = s.region[:0]; cap(s.region) > keptRegion {
		s.region = nil
	}
	return dst
}

const keptRegion = 64 << 10 // scratch bytes that a Sorter keeps between values

// value writes the value at b[at:] and returns where it ends; after bytes of no
// Scanner that is the end of b, which stops all loops.
func (s *Sorter) value(dst, b []byte, at, depth int) ([]byte, int) {
	switch major := MajorOf(b[at:]); {
	case depth > MaxDepth, at == len(b):
		return dst, len(b)
	case major == Array:
		_, count, next, err := readHead(b, at)
		if err != nil {
			return dst, len(b)
		}
		dst = append(dst, b[at:next]...)
		for at = next; count > 0 && at < len(b); count-- {
			dst, at = s.value(dst, b, at, depth+1)
		}
		return dst, at
	case major == Map:
		return s.pairs(dst, b, at, depth+1)
	}
	end := skip(b, at)
	if end == at {
		end = len(b)
	}
	return append(dst, b[at:end]...), end
}

func (s *Sorter) pairs(dst, b []byte, at, depth int) ([]byte, int) {
	_, count, next, err := readHead(b, at)
	if err != nil {
		return dst, len(b)
	}
	dst = append(dst, b[at:next]...)
	base, ordered := len(s.entries), true
	for at = next; count > 0 && at < len(b); count-- {
		end := skip(b, at)
		key, ok := TextOf(b[at:end])
		if !ok {
			return dst, len(b)
		}
		start := len(dst)
		dst = append(dst, b[at:end]...)
		e := entry{key: span{len(dst) - len(key), len(dst)}}
		dst, at = s.value(dst, b, end, depth)
		e.whole = span{start, len(dst)}
		if len(s.entries) > base && ordered {
			ordered = compareEntries(dst, s.entries[len(s.entries)-1], e) < 0
		}
		s.entries = append(s.entries, e)
	}
	if !ordered {
		s.reorder(dst, s.entries[base:])
	}
	s.entries = s.entries[:base]
	return dst, at
}

// reorder puts the entries, which are the end of dst, in order.
func (s *Sorter) reorder(dst []byte, entries []entry) {
	start := entries[0].whole.start
	slices.SortFunc(entries, func(x, y entry) int { return compareEntries(dst, x, y) })
	s.region = append(s.region[:0], dst[start:]...)
	at := start
	for _, e := range entries {
		at += copy(dst[at:], s.region[e.whole.start-start:e.whole.end-start])
	}
}

func compareEntries(dst []byte, x, y entry) int {
	return CompareKeys(dst[x.key.start:x.key.end], dst[y.key.start:y.key.end])
}
