package dagcbor

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"
)

const (
	// MaxDepth is how deep containers may be nested, the outermost counted.
	MaxDepth = 64

	// MaxFields is how many fields Scanner.Map lends. It bounds what is kept
	// of a map that a stranger sent; maps inside have no such bound.
	MaxFields = 1024

	keptSpans = 4096 // scratch that a Scanner keeps between values
)

// The two bytes of tag 42 (F12).
const (
	linkTag0 = 0xd8
	linkTag1 = 0x2a
)

// Scanner checks values. Its zero value is ready; it keeps scratch, so that a
// scanner that is used again does not allocate. One goroutine at a time.
type Scanner struct {
	// Keys of the maps that are open, the innermost map's last. All keys are
	// kept because a key out of order is met after those it may repeat.
	keys []span
}

// span is a part of the input or output.
type span struct{ start, end int }

// Value checks the one value that begins at b[at:]. It returns where the value
// ends and whether all map keys in it are in order. Bytes after it are not
// looked at. The error is a SyntaxError.
func (s *Scanner) Value(b []byte, at int) (end int, sorted bool, err error) {
	defer s.release()
	return s.value(b, at, 0)
}

// Check reports whether b is exactly one canonical value; keys out of order are
// a breach here (F10).
func (s *Scanner) Check(b []byte) error {
	end, sorted, err := s.Value(b, 0)
	switch {
	case err != nil:
		return err
	case end != len(b):
		return fail(end, ErrTrailing)
	case !sorted:
		return fail(0, ErrUnsortedKey)
	}
	return nil
}

// release drops scratch that an unusual value has made large.
func (s *Scanner) release() {
	if s.keys = s.keys[:0]; cap(s.keys) > keptSpans {
		s.keys = nil
	}
}

func (s *Scanner) value(b []byte, at, depth int) (int, bool, error) {
	if at >= len(b) {
		return at, false, fail(at, ErrTruncated)
	}
	if Major(b[at]>>5) == Simple {
		end, err := simple(b, at)
		return end, true, err
	}
	major, arg, next, err := readHead(b, at)
	if err != nil {
		return at, false, fail(at, err)
	}
	switch major {
	case Bytes, Text:
		if arg > uint64(len(b)-next) {
			return at, false, fail(at, ErrTruncated)
		}
		end := next + int(arg)
		if major == Text && !utf8.Valid(b[next:end]) {
			return at, false, fail(at, ErrUTF8)
		}
		return end, true, nil
	case Array:
		if err := room(b, at, next, arg, 1, depth); err != nil {
			return at, false, err
		}
		return s.array(b, next, int(arg), depth+1)
	case Map:
		if err := room(b, at, next, arg, 2, depth); err != nil {
			return at, false, err
		}
		return s.pairs(b, next, int(arg), depth+1, nil)
	case Tag:
		end, err := link(b, at, next, arg)
		return end, true, err
	}
	return next, true, nil // an integer
}

// room holds a container's head to the bytes that are left, of which each item
// takes at least size, and to the depth (C2).
func room(b []byte, at, next int, arg uint64, size, depth int) error {
	if arg > uint64((len(b)-next)/size) {
		return fail(at, ErrTruncated)
	}
	if depth >= MaxDepth {
		return fail(at, ErrDepth)
	}
	return nil
}

func (s *Scanner) array(b []byte, at, count, depth int) (int, bool, error) {
	sorted := true
	for range count {
		end, ok, err := s.value(b, at, depth)
		if err != nil {
			return at, false, err
		}
		at, sorted = end, sorted && ok
	}
	return at, sorted, nil
}

// pairs checks what follows the head of a map, and lends the fields to m if
// that is not nil.
func (s *Scanner) pairs(b []byte, at, count, depth int, m *Fields) (int, bool, error) {
	base := len(s.keys)
	sorted, ordered := true, true
	var last []byte
	for i := range count {
		start, end, err := key(b, at)
		if err != nil {
			return at, false, err
		}
		name := b[start:end]
		if i > 0 && ordered {
			switch order := CompareKeys(last, name); {
			case order == 0:
				return at, false, fail(at, ErrDuplicateKey)
			case order > 0:
				ordered = false
			}
		}
		last = name
		s.keys = append(s.keys, span{start, end})
		valueEnd, ok, err := s.value(b, end, depth)
		if err != nil {
			return at, false, err
		}
		if m != nil {
			m.List = append(m.List, Field{Key: name, Value: b[end:valueEnd], Sorted: ok})
		}
		at, sorted = valueEnd, sorted && ok
	}
	if !ordered {
		if err := unique(b, s.keys[base:]); err != nil {
			return at, false, err
		}
	}
	s.keys = s.keys[:base]
	if m != nil {
		m.Ordered = ordered
	}
	return at, sorted && ordered, nil
}

// key reads a map key: where its text starts and ends.
func key(b []byte, at int) (start, end int, err error) {
	if at >= len(b) {
		return at, at, fail(at, ErrTruncated)
	}
	if Major(b[at]>>5) != Text {
		return at, at, fail(at, ErrKeyType)
	}
	_, arg, next, err := readHead(b, at)
	if err != nil {
		return at, at, fail(at, err)
	}
	if arg > uint64(len(b)-next) {
		return at, at, fail(at, ErrTruncated)
	}
	end = next + int(arg)
	if !utf8.Valid(b[next:end]) {
		return at, at, fail(at, ErrUTF8)
	}
	return next, end, nil
}

// unique sorts the keys of a map that is out of order and looks for one that
// stands there twice.
func unique(b []byte, keys []span) error {
	compare := func(x, y span) int { return CompareKeys(b[x.start:x.end], b[y.start:y.end]) }
	slices.SortFunc(keys, compare)
	for i := 1; i < len(keys); i++ {
		if compare(keys[i-1], keys[i]) == 0 {
			return fail(max(keys[i-1].start, keys[i].start), ErrDuplicateKey)
		}
	}
	return nil
}

// simple checks a value of major type 7.
func simple(b []byte, at int) (int, error) {
	switch b[at] {
	case falseByte, trueByte, nullByte:
		return at + 1, nil
	case doubleFloat:
		if len(b)-at < 9 {
			return at, fail(at, ErrTruncated)
		}
		v := math.Float64frombits(binary.BigEndian.Uint64(b[at+1:]))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return at, fail(at, ErrFloatValue)
		}
		return at + 9, nil
	case undefined:
		return at, fail(at, ErrUndefined)
	case halfFloat, singleFloat:
		return at, fail(at, ErrFloatSize)
	case breakByte:
		return at, fail(at, ErrIndefinite)
	}
	if b[at] > doubleFloat {
		return at, fail(at, ErrReserved)
	}
	return at, fail(at, ErrSimple)
}

// link checks what follows the head of a tag (F12).
func link(b []byte, at, next int, tag uint64) (int, error) {
	if tag != linkTag1 {
		return at, fail(at, ErrTag)
	}
	if next >= len(b) {
		return at, fail(at, ErrTruncated)
	}
	major, arg, next, err := readHead(b, next)
	switch {
	case major != Bytes:
		return at, fail(at, ErrLink)
	case err != nil:
		return at, fail(at, err)
	case arg > uint64(len(b)-next):
		return at, fail(at, ErrTruncated)
	case arg == 0 || b[next] != 0:
		return at, fail(at, ErrLink)
	}
	end := next + int(arg)
	if _, err := ParseCID(b[next+1 : end]); err != nil {
		return at, fail(at, err)
	}
	return end, nil
}
