package dagcbor

import (
	"encoding/binary"
	"iter"
	"math"
)

// The functions of this file read a value that a Scanner has accepted, given as
// its whole encoded span. They report false for a value of another type. What
// they return points into the value.

// MajorOf returns the major type of a value; Simple for an empty one.
func MajorOf(value []byte) Major {
	if len(value) == 0 {
		return Simple
	}
	return Major(value[0] >> 5)
}

// IsNull reports whether a value is null.
func IsNull(value []byte) bool { return len(value) == 1 && value[0] == nullByte }

// Int returns an integer that fits an int64.
func Int(value []byte) (int64, bool) {
	major, arg, _, err := readHead(value, 0)
	switch {
	case err != nil || arg > math.MaxInt64:
		return 0, false
	case major == Unsigned:
		return int64(arg), true
	case major == Negative:
		return -1 - int64(arg), true
	}
	return 0, false
}

// Bool returns a bool.
func Bool(value []byte) (v, ok bool) {
	if len(value) != 1 {
		return false, false
	}
	return value[0] == trueByte, value[0] == trueByte || value[0] == falseByte
}

// Float returns a float.
func Float(value []byte) (float64, bool) {
	if len(value) != 9 || value[0] != doubleFloat {
		return 0, false
	}
	return math.Float64frombits(binary.BigEndian.Uint64(value[1:])), true
}

// TextOf returns the content of a text string.
func TextOf(value []byte) ([]byte, bool) { return content(value, Text) }

// BytesOf returns the content of a byte string.
func BytesOf(value []byte) ([]byte, bool) { return content(value, Bytes) }

// Link returns the CID that a value links to.
func Link(value []byte) (CID, bool) {
	if len(value) < 3 || value[0] != linkTag0 || value[1] != linkTag1 {
		return nil, false
	}
	linked, ok := content(value[2:], Bytes)
	if !ok || len(linked) == 0 {
		return nil, false
	}
	return CID(linked[1:]), true
}

// Count returns how many values an array has, or how many keys a map has.
func Count(value []byte) (int, bool) {
	major, arg, next, err := readHead(value, 0)
	if err != nil || major != Array && major != Map || arg > uint64(len(value)-next) {
		return 0, false
	}
	return int(arg), true
}

// Elements yields the values of an array in order.
func Elements(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		major, count, at, err := readHead(value, 0)
		if err != nil || major != Array {
			return
		}
		for ; count > 0; count-- {
			end := skip(value, at)
			if end == at || !yield(value[at:end]) {
				return
			}
			at = end
		}
	}
}

// Entries yields the keys of a map, without their heads, and the values, in
// the order of the input.
func Entries(value []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		major, count, at, err := readHead(value, 0)
		if err != nil || major != Map {
			return
		}
		for ; count > 0; count-- {
			middle := skip(value, at)
			end := skip(value, middle)
			key, ok := TextOf(value[at:middle])
			if end == middle || !ok || !yield(key, value[middle:end]) {
				return
			}
			at = end
		}
	}
}

func content(value []byte, want Major) ([]byte, bool) {
	major, arg, next, err := readHead(value, 0)
	if err != nil || major != want || arg > uint64(len(value)-next) {
		return nil, false
	}
	return value[next : next+int(arg)], true
}

// skip returns where the value at b[at:] ends. For bytes that no Scanner has
// accepted it returns len(b) or at, and so ends every loop over it (C5).
func skip(b []byte, at int) int {
	start := at
	for open := uint64(1); open > 0; open-- {
		if at < len(b) && Major(b[at]>>5) == Simple {
			if at++; b[at-1] == doubleFloat {
				at += 8
			}
			continue
		}
		major, arg, next, err := readHead(b, at)
		if err != nil {
			return start
		}
		left := uint64(len(b) - next)
		switch at = next; major {
		case Bytes, Text:
			if arg > left {
				return start
			}
			at += int(arg)
		case Array, Map:
			if arg > left {
				return start
			}
			open += arg
			if major == Map {
				open += arg
			}
		case Tag:
			open++
		}
	}
	if at > len(b) {
		return start
	}
	return at
}
