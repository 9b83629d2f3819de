package syncwire

import (
	"bytes"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// The types of this file walk JSON that the lexer has accepted and freed from
// white space, and check nothing again.

// members iterates over the members of an object.
type members struct {
	text  []byte
	at    int
	name  []byte // raw, without its quotes
	value []byte // raw
}

// next steps to the next member and reports whether there is one.
func (m *members) next() bool {
	i := m.at + 1 // past the brace or the comma
	if m.text[i-1] == '}' || m.text[i] == '}' {
		return false
	}
	end := jsontext.StringEnd(m.text, i)
	m.name = m.text[i+1 : end-1]
	m.at = valueEnd(m.text, end+1)
	m.value = m.text[end+1 : m.at]
	return true
}

// elements iterates over the elements of an array.
type elements struct {
	text  []byte
	at    int
	value []byte // raw
}

// next steps to the next element and reports whether there is one.
func (e *elements) next() bool {
	i := e.at + 1
	if e.text[i-1] == ']' || e.text[i] == ']' {
		return false
	}
	e.at = valueEnd(e.text, i)
	e.value = e.text[i:e.at]
	return true
}

// valueEnd returns the offset after the value at i.
func valueEnd(p []byte, i int) int {
	switch p[i] {
	case '"':
		return jsontext.StringEnd(p, i)
	case '{', '[':
		return containerEnd(p, i)
	}
	for i < len(p) && p[i] != ',' && p[i] != '}' && p[i] != ']' {
		i++
	}
	return i
}

func containerEnd(p []byte, i int) int {
	for depth := 0; ; {
		switch p[i] {
		case '"':
			i = jsontext.StringEnd(p, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// stringContent returns the decoded content of a raw value if it is a string.
// It lies in raw, or in scratch, which it grows.
func stringContent(raw, scratch []byte) (content, grown []byte, ok bool) {
	if raw[0] != '"' {
		return nil, scratch, false
	}
	content, grown = decoded(raw[1:len(raw)-1], scratch)
	return content, grown, true
}

// decoded returns the decoded form of the inside of a string: itself, or a
// copy appended to scratch. An earlier copy in scratch stays as it is.
func decoded(inner, scratch []byte) (content, grown []byte) {
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, scratch
	}
	start := len(scratch)
	grown = appendDecoded(scratch, inner)
	return grown[start:], grown
}

// appendDecoded appends the decoded form of the inside of a string. A half of
// a surrogate pair is spelled as the three bytes that UTF-8 would have for it,
// so that different names stay different.
func appendDecoded(dst, p []byte) []byte {
	for {
		run := bytes.IndexByte(p, '\\')
		if run < 0 {
			return append(dst, p...)
		}
		dst = append(dst, p[:run]...)
		c := p[run+1]
		p = p[run+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, size := escapedRune(p)
			p = p[size:]
			dst = appendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}

const (
	highHalves = 0xD800
	lowHalves  = 0xDC00
	endHalves  = 0xE000
)

// escapedRune decodes what follows \u, the second half of a surrogate pair
// included, and returns how many bytes it took.
func escapedRune(p []byte) (rune, int) {
	r := hex4(p)
	if r >= highHalves && r < lowHalves && len(p) >= 10 && p[4] == '\\' && p[5] == 'u' {
		if low := hex4(p[6:]); low >= lowHalves && low < endHalves {
			return (r-highHalves)<<10 + (low - lowHalves) + 0x10000, 10
		}
	}
	return r, 4
}

func appendRune(dst []byte, r rune) []byte {
	if r >= highHalves && r < endHalves {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
	}
	return utf8.AppendRune(dst, r)
}

// hex4 reads four hexadecimal digits.
func hex4(p []byte) rune {
	r := rune(0)
	for _, c := range p[:4] {
		if isDigit(c) {
			c -= '0'
		} else {
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
