package aep

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// The functions of this file walk raw JSON that a Scanner has accepted, and
// check nothing again. They are given whole values, without space around.

// members iterates over the members of a raw JSON object, in order and without
// copying. The current member lies in text[from:at]; name keeps its quotes.
type members struct {
	text        []byte
	from, at    int
	name, value []byte
}

// membersOf starts an iteration over raw, whose first byte must be '{'.
func membersOf(raw []byte) members { return members{text: raw, at: 1} }

// next steps to the next member and reports whether there is one.
func (m *members) next() bool {
	i := skipSeparator(m.text, m.at)
	if i >= len(m.text) || m.text[i] != '"' {
		return false
	}
	end := skipString(m.text, i)
	m.from, m.name = i, m.text[i:end]
	i = skipSpace(m.text, end)
	if i >= len(m.text) || m.text[i] != ':' {
		return false
	}
	i = skipSpace(m.text, i+1)
	m.at = skipValue(m.text, i)
	m.value = m.text[i:m.at]
	return len(m.value) > 0
}

// elements iterates over the elements of a raw JSON array.
type elements struct {
	text  []byte
	at    int
	value []byte
}

// elementsOf starts an iteration over raw, whose first byte must be '['.
func elementsOf(raw []byte) elements { return elements{text: raw, at: 1} }

// next steps to the next element and reports whether there is one.
func (e *elements) next() bool {
	i := skipSeparator(e.text, e.at)
	if i >= len(e.text) || e.text[i] == ']' {
		return false
	}
	e.at = skipValue(e.text, i)
	e.value = e.text[i:e.at]
	return len(e.value) > 0
}

// piece is a run of members of one object that are copied in one go.
type piece struct{ from, to int }

// keep adds the current member of m to the piece.
func (p *piece) keep(m *members) {
	if p.to == 0 {
		p.from = m.from
	}
	p.to = m.at
}

// flush appends the piece to dst, after a comma unless dst is start bytes long,
// and empties it.
func (p *piece) flush(dst, text []byte, start int) []byte {
	if p.to == 0 {
		return dst
	}
	if len(dst) > start {
		dst = append(dst, ',')
	}
	dst = append(dst, text[p.from:p.to]...)
	p.to = 0
	return dst
}

// memberOf returns the raw value of the last member of a raw object with the
// given name, or nil. Last wins, as it does for most readers.
func memberOf(raw []byte, name string) []byte {
	if kindOf(raw) != '{' {
		return nil
	}
	var value []byte
	for m := membersOf(raw); m.next(); {
		if rawEqual(m.name, name) {
			value = m.value
		}
	}
	return value
}

// kindOf returns the first byte of a raw value, or 0 if it is empty: '{',
// '[', '"', 't', 'f', 'n', and for numbers '-' or a digit.
func kindOf(raw []byte) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// isNumber reports whether a raw value is a number.
func isNumber(raw []byte) bool {
	return kindOf(raw) == '-' || jsontext.IsDigit(kindOf(raw))
}

// isNull reports whether a raw value is null.
func isNull(raw []byte) bool { return kindOf(raw) == 'n' }

// trimSpace drops JSON white space around a raw value.
func trimSpace(raw []byte) []byte { return bytes.Trim(raw, " \t\r\n") }

// skipSeparator skips white space and the comma between two items.
func skipSeparator(text []byte, i int) int {
	i = skipSpace(text, i)
	if i < len(text) && text[i] == ',' {
		i = skipSpace(text, i+1)
	}
	return i
}

// skipString returns the index after the string that starts at text[i]. It
// looks for the next quote or backslash in eight bytes at once.
func skipString(text []byte, i int) int {
	for i++; i < len(text); {
		for i+8 <= len(text) {
			if m := jsontext.Marks(binary.LittleEndian.Uint64(text[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(text) {
			break
		}
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default:
			i++ // among the last seven bytes of the text
		}
	}
	return len(text)
}

// skipValue returns the index after the value that starts at text[i].
func skipValue(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i = skipScalar(text, i)
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// skipScalar returns the index after the number or literal at text[i].
func skipScalar(text []byte, i int) int {
	for i < len(text) {
		switch text[i] {
		case ',', ':', '}', ']', ' ', '\t', '\r', '\n':
			return i
		}
		i++
	}
	return i
}

// inner returns a raw string without its quotes.
func inner(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// rawEqual reports whether a raw string equals s once decoded (R118); s has no
// backslash.
func rawEqual(raw []byte, s string) bool {
	if kindOf(raw) != '"' {
		return false
	}
	body := inner(raw)
	// What is decoded gets shorter.
	if len(body) <= len(s) || bytes.IndexByte(body, '\\') < 0 {
		return string(body) == s
	}
	var scratch [64]byte
	return string(jsontext.AppendUnescaped(scratch[:0], body)) == s
}

// decodeString returns the decoded form of a raw string, as a copy.
func decodeString(raw []byte) string {
	body := inner(raw)
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	return string(jsontext.AppendUnescaped(nil, body))
}
