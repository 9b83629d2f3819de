package synccrypt

import (
	"bytes"
	"math"
	"strconv"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// The functions of this file read canonical JSON that Canonical has made, so
// that they check nothing of its grammar.

// eachMember calls visit for the members of an object, in order: the name's
// canonical spelling without quotes, and the value. It stops at an error.
func eachMember(p []byte, visit func(name, value []byte) error) error {
	for i := 1; p[i] != '}'; {
		if p[i] == ',' {
			i++
		}
		nameEnd := jsontext.StringEnd(p, i)
		end := valueEnd(p, nameEnd+1)
		if err := visit(p[i+1:nameEnd-1], p[nameEnd+1:end:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// eachElement calls visit for the elements of an array, in order.
func eachElement(p []byte, visit func(value []byte) error) error {
	for i := 1; p[i] != ']'; {
		if p[i] == ',' {
			i++
		}
		end := valueEnd(p, i)
		if err := visit(p[i:end:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// valueEnd returns the offset after the value at i.
func valueEnd(p []byte, i int) int {
	for depth := 0; ; {
		switch p[i] {
		case '"':
			i = jsontext.StringEnd(p, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':':
			i++
			continue
		default: // a number or a literal
			for i < len(p) && p[i] != ',' && p[i] != '}' && p[i] != ']' {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// text decodes a string value. ok is false when it is none, or has a lone half
// of a surrogate pair, which no string of ours can hold.
func text(value []byte) (s string, ok bool) {
	if value[0] != '"' {
		return "", false
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	for rest := inner; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return string(jsontext.AppendUnescaped(nil, inner)), true
		}
		r, size := unitAt(rest[at:])
		if isSurrogate(r) {
			return "", false
		}
		rest = rest[at+size:]
	}
}

// integer decodes an integer of 0 to 2^53-1, which JavaScript keeps exactly,
// written as digits alone.
func integer(value []byte) (int64, bool) {
	const maxSafe = 1<<53 - 1
	if !isDigit(value[0]) || len(value) > 16 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && n <= maxSafe
}

// isOne tells whether a number is 1 to JavaScript, in any spelling.
func isOne(value []byte) bool {
	if string(value) == "1" {
		return true
	}
	if !isDigit(value[0]) {
		return false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	return err == nil && n == math.Trunc(n) && n == 1
}
