package aepws

import (
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// scanString scans the string whose opening quote is at i. It returns the
// offset after the closing quote and whether there are escapes inside.
func (s *Scanner) scanString(i int) (end int, escaped bool) {
	b := s.text
	for i++; ; {
		i = jsontext.PlainEnd(b, i)
		if i >= len(b) {
			return s.fail(i, "unexpected end of text in a string"), false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			i = s.scanEscape(i)
		case c < ' ':
			i = s.fail(i, "control character in a string")
		default:
			i = s.scanRunes(i)
		}
		if i < 0 {
			return -1, false
		}
	}
}

// scanRunes scans the characters beyond ASCII from i on.
func (s *Scanner) scanRunes(i int) int {
	b := s.text
	for i < len(b) && b[i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return s.fail(i, "invalid UTF-8")
		}
		i += size
	}
	return i
}

// scanEscape scans the escape whose backslash is at i.
func (s *Scanner) scanEscape(i int) int {
	b := s.text
	if i+1 >= len(b) {
		return s.fail(len(b), "unexpected end of text in a string")
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if _, ok := jsontext.Hex4(b[i+2:]); ok {
			return i + 6
		}
	}
	return s.fail(i, "invalid escape in a string")
}

// scanScalar scans the string, number or literal at i.
func (s *Scanner) scanScalar(i int) int {
	b := s.text
	if i >= len(b) {
		return s.fail(i, "unexpected end of text")
	}
	switch c := b[i]; {
	case c == '"':
		i, _ = s.scanString(i)
		return i
	case c == '-' || jsontext.IsDigit(c):
		return s.scanNumber(i)
	case c == 't':
		return s.scanLiteral(i, "true")
	case c == 'f':
		return s.scanLiteral(i, "false")
	case c == 'n':
		return s.scanLiteral(i, "null")
	}
	return s.fail(i, "expected a value")
}

func (s *Scanner) scanLiteral(i int, literal string) int {
	if rest := s.text[i:]; len(rest) >= len(literal) &&
		string(rest[:len(literal)]) == literal {
		return i + len(literal)
	}
	return s.fail(i, "expected a value")
}

// scanNumber scans the number at i. What follows it is the caller's to check.
func (s *Scanner) scanNumber(i int) int {
	end, ok := jsontext.NumberEnd(s.text, i)
	if !ok {
		return s.fail(i, "invalid number")
	}
	return end
}
