package synccrypt

import (
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

const lowerHex = "0123456789abcdef"

// str reads a string whose opening quote is next.
func (c *canon) str() error {
	c.out = append(c.out, '"')
	c.i++
	for {
		end := jsontext.PlainEnd(c.src, c.i)
		c.out = append(c.out, c.src[c.i:end]...)
		if c.i = end; c.i == len(c.src) {
			return c.fail("a string does not end")
		}
		switch b := c.src[c.i]; {
		case b == '"':
			c.i++
			c.out = append(c.out, '"')
			return nil
		case b == '\\':
			if err := c.escape(); err != nil {
				return err
			}
		case b < ' ':
			return c.fail("control character in a string")
		default:
			if err := c.beyondASCII(); err != nil {
				return err
			}
		}
	}
}

func (c *canon) beyondASCII() error {
	from := c.i
	for c.i < len(c.src) && c.src[c.i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(c.src[c.i:])
		if r == utf8.RuneError && size == 1 {
			return c.fail("invalid UTF-8")
		}
		c.i += size
	}
	c.out = append(c.out, c.src[from:c.i]...)
	return nil
}

// escape reads an escape, and spells it canonically.
func (c *canon) escape() error {
	if c.i+1 == len(c.src) {
		return c.fail("a string does not end")
	}
	var r rune
	switch b := c.src[c.i+1]; b {
	case '"', '\\', '/':
		r = rune(b)
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		return c.hexEscape()
	default:
		return c.fail("invalid escape in a string")
	}
	c.i += 2
	c.out = appendUnit(c.out, r)
	return nil
}

// hexEscape reads \uXXXX, both halves of a surrogate pair at once.
func (c *canon) hexEscape() error {
	r, ok := jsontext.Hex4(c.src[c.i+2:])
	if !ok {
		return c.fail("invalid escape in a string")
	}
	c.i += 6
	if rest := c.src[c.i:]; isHighHalf(r) && len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		if low, ok := jsontext.Hex4(rest[2:]); ok && isLowHalf(low) {
			r = (r-highStart)<<10 + (low - lowStart) + beyondBasic
			c.i += 6
		}
	}
	c.out = appendUnit(c.out, r)
	return nil
}

// appendString appends s as JSON.stringify spells it, quotes included. A byte
// that is not UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	run := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = append(dst, s[run:i]...)
		dst = appendUnit(dst, r)
		i += size
		run = i
	}
	dst = append(dst, s[run:]...)
	return append(dst, '"')
}

// appendUnit appends a character, or one half of a surrogate pair, as it is
// spelled inside of a string (RFC 8785, section 3.2.2.2).
func appendUnit(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r >= ' ' && !isSurrogate(r):
		return utf8.AppendRune(dst, r)
	case r < ' ' && shortEscape[r] != 0:
		return append(dst, '\\', shortEscape[r])
	}
	return append(dst, '\\', 'u', lowerHex[r>>12&15], lowerHex[r>>8&15], lowerHex[r>>4&15], lowerHex[r&15])
}

var shortEscape = [' ']byte{'\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}

const (
	highStart, lowStart, lowEnd = 0xD800, 0xDC00, 0xE000
	beyondBasic                 = 0x10000
)

func isSurrogate(r rune) bool { return r >= highStart && r < lowEnd }

func isHighHalf(r rune) bool { return r >= highStart && r < lowStart }

func isLowHalf(r rune) bool { return r >= lowStart && r < lowEnd }

// compareNames orders the insides of two strings of canonical spelling by their
// UTF-16 code units, as JavaScript and RFC 8785, section 3.2.3, sort.
func compareNames(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		x, y := rune(a[0]), rune(b[0])
		wide := x|y >= utf8.RuneSelf || x == '\\' || y == '\\'
		if !wide {
			if x != y {
				return int(x - y)
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, xSize := unitAt(a)
		y, ySize := unitAt(b)
		if x == y {
			a, b = a[xSize:], b[ySize:]
			continue
		}
		if first, other := firstUnit(x), firstUnit(y); first != other {
			return int(first - other)
		}
		return int(secondUnit(x, a[xSize:]) - secondUnit(y, b[ySize:]))
	}
	return len(a) - len(b)
}

// unitAt decodes what is at the start of p: a character, or a lone half.
func unitAt(p []byte) (rune, int) {
	if p[0] != '\\' {
		return utf8.DecodeRune(p)
	}
	switch p[1] {
	case 'u':
		r, _ := jsontext.Hex4(p[2:])
		return r, 6
	case 'b':
		return '\b', 2
	case 't':
		return '\t', 2
	case 'n':
		return '\n', 2
	case 'f':
		return '\f', 2
	case 'r':
		return '\r', 2
	}
	return rune(p[1]), 2
}

// firstUnit returns the first code unit of a character.
func firstUnit(r rune) rune {
	if r >= beyondBasic {
		return highStart + (r-beyondBasic)>>10
	}
	return r
}

// secondUnit returns the code unit after the first of r: of a lone half it is
// the first of the text that follows, -1 at its end. That is never a low half
// behind a high one, so two characters with equal first units differ here.
func secondUnit(r rune, rest []byte) rune {
	if r >= beyondBasic {
		return lowStart + (r-beyondBasic)&0x3FF
	}
	if len(rest) == 0 {
		return -1
	}
	next, _ := unitAt(rest)
	return firstUnit(next)
}
