package jsontext

import (
	"bytes"
	"unicode/utf8"
)

// NumberEnd returns the offset after the number at i, which is a minus sign or a
// digit: [-] int [frac] [exp] of RFC 8259, section 6. What follows it is the
// caller's to check. ok is false when there is no valid number.
func NumberEnd(b []byte, i int) (end int, ok bool) {
	if b[i] == '-' {
		i++
	}
	whole := i
	if i = DigitsEnd(b, i); i == whole || b[whole] == '0' && i > whole+1 {
		return 0, false
	}
	if i < len(b) && b[i] == '.' {
		fraction := i + 1
		if i = DigitsEnd(b, fraction); i == fraction {
			return 0, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exponent := i
		if i = DigitsEnd(b, exponent); i == exponent {
			return 0, false
		}
	}
	return i, true
}

// DigitsEnd returns the offset after the decimal digits at i, if any.
func DigitsEnd(b []byte, i int) int {
	for i < len(b) && IsDigit(b[i]) {
		i++
	}
	return i
}

// IsDigit tells whether c is a decimal digit.
func IsDigit(c byte) bool { return c-'0' <= 9 }

// Hex4 reads four hexadecimal digits at the start of p.
func Hex4(p []byte) (rune, bool) {
	if len(p) < 4 {
		return 0, false
	}
	r := rune(0)
	for _, c := range p[:4] {
		switch {
		case IsDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// AppendUnescaped appends the decoded form of p, the inside of a valid JSON
// string. A surrogate escape without its other half becomes U+FFFD. The
// result is never longer than p.
func AppendUnescaped(dst, p []byte) []byte {
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
			r, size := unescapeRune(p)
			dst = utf8.AppendRune(dst, r)
			p = p[size:]
			continue
		}
		dst = append(dst, c)
	}
}

// unescapeRune decodes what follows \u, the second half of a surrogate pair
// included, and returns how many bytes it took.
func unescapeRune(p []byte) (rune, int) {
	const highStart, lowStart, lowEnd = 0xD800, 0xDC00, 0xE000
	r, _ := Hex4(p)
	if r < highStart || r >= lowEnd {
		return r, 4
	}
	if r < lowStart && len(p) >= 10 && p[4] == '\\' && p[5] == 'u' {
		if low, _ := Hex4(p[6:]); low >= lowStart && low < lowEnd {
			return (r-highStart)<<10 + (low - lowStart) + 0x10000, 10
		}
	}
	return utf8.RuneError, 4
}
