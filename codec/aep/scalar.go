package aep

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// scanString scans the string whose opening quote is at i. It returns the
// offset after the closing quote and whether there are escapes inside.
func (s *Scanner) scanString(i int) (end int, escaped bool) {
	b := s.text
	for i++; ; {
		for i+8 <= len(b) {
			m := jsontext.Specials(binary.LittleEndian.Uint64(b[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return s.fail(i, "unexpected end of text in a string"), false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			if i = s.scanEscape(i); i < 0 {
				return -1, false
			}
		case c < ' ':
			return s.fail(i, "control character in a string"), false
		case c >= utf8.RuneSelf:
			if i = s.scanRunes(i); i < 0 {
				return -1, false
			}
		default:
			i++ // among the last seven bytes of the text
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
		if _, ok := hex4(b[i+2:]); ok {
			return i + 6
		}
	}
	return s.fail(i, "invalid escape in a string")
}

// hex4 reads four hexadecimal digits at the start of p.
func hex4(p []byte) (rune, bool) {
	if len(p) < 4 {
		return 0, false
	}
	r := rune(0)
	for _, c := range p[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
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
	case c == '-' || isDigit(c):
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

// scanNumber scans the number at i: [-] int [frac] [exp] of RFC 8259. What
// follows it is the caller's to check.
func (s *Scanner) scanNumber(i int) int {
	b := s.text
	start := i
	if b[i] == '-' {
		i++
	}
	whole := i
	if i = skipDigits(b, i); i == whole || b[whole] == '0' && i > whole+1 {
		return s.fail(start, "invalid number")
	}
	if i < len(b) && b[i] == '.' {
		fraction := i + 1
		if i = skipDigits(b, fraction); i == fraction {
			return s.fail(start, "invalid number")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exponent := i
		if i = skipDigits(b, exponent); i == exponent {
			return s.fail(start, "invalid number")
		}
	}
	return i
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// appendUnescaped appends the decoded form of p, the inside of a valid JSON
// string. A surrogate escape without its other half becomes U+FFFD. The
// result is never longer than p.
func appendUnescaped(dst, p []byte) []byte {
	for i := 0; i < len(p); {
		if p[i] != '\\' {
			run := i
			for i < len(p) && p[i] != '\\' {
				i++
			}
			dst = append(dst, p[run:i]...)
			continue
		}
		c := p[i+1]
		i += 2
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
			r, size := unescapeRune(p[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// unescapeRune decodes what follows \u, the second half of a surrogate pair
// included, and returns how many bytes it took.
func unescapeRune(p []byte) (rune, int) {
	const highStart, lowStart, lowEnd = 0xD800, 0xDC00, 0xE000
	r, _ := hex4(p)
	if r < highStart || r >= lowEnd {
		return r, 4
	}
	if r < lowStart && len(p) >= 10 && p[4] == '\\' && p[5] == 'u' {
		if low, _ := hex4(p[6:]); low >= lowStart && low < lowEnd {
			return (r-highStart)<<10 + (low - lowStart) + 0x10000, 10
		}
	}
	return utf8.RuneError, 4
}
