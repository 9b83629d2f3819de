package syncwire

import (
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// token goes on inside a string, number or literal.
func (x *lexer) token(p []byte, i int) (int, mark) {
	c := p[i]
	switch x.state {
	case inString:
		return x.inString(p, i)
	case inRune:
		return x.inRune(c, i)
	case inEscape:
		return x.escape(c, i)
	case inHex:
		if !isHex(c) {
			return i, x.fail("invalid escape in a string")
		}
		if x.hexLeft--; x.hexLeft == 0 {
			x.state = inString
		}
		return i + 1, markMore
	case inLiteral:
		if c != x.literal[0] {
			return i, x.fail("expected a value")
		}
		if x.literal = x.literal[1:]; x.literal == "" {
			return i + 1, x.ended()
		}
		return i + 1, markMore
	}
	return x.inNumber(p, i)
}

func (x *lexer) inString(p []byte, i int) (int, mark) {
	i = jsontext.PlainEnd(p, i)
	if i == len(p) {
		return i, markMore
	}
	switch c := p[i]; {
	case c == '"' && x.isName:
		x.state, x.level = wantColon, x.depth
		return i + 1, x.tell(markNameEnd)
	case c == '"':
		return i + 1, x.ended()
	case c == '\\':
		x.state = inEscape
		return i + 1, markMore
	case c < ' ':
		return i, x.fail("control character in a string")
	}
	for i < len(p) && p[i] >= utf8.RuneSelf {
		if !utf8.FullRune(p[i:]) {
			x.state, x.partLen = inRune, copy(x.part[:], p[i:])
			return len(p), markMore
		}
		r, size := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && size == 1 {
			return i + validPart(p[i:]), x.fail("invalid UTF-8")
		}
		i += size
	}
	return i, markMore
}

// validPart returns how many bytes at the start of p, which begins with a
// broken character, could have begun a whole one.
func validPart(p []byte) int {
	n := 0
	for !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}

// inRune takes a byte of a character that was cut.
func (x *lexer) inRune(c byte, i int) (int, mark) {
	x.part[x.partLen] = c
	x.partLen++
	part := x.part[:x.partLen]
	if !utf8.FullRune(part) {
		return i + 1, markMore
	}
	if r, size := utf8.DecodeRune(part); r == utf8.RuneError && size == 1 {
		return i, x.fail("invalid UTF-8")
	}
	x.state = inString
	return i + 1, markMore
}

// escape takes the byte after a backslash.
func (x *lexer) escape(c byte, i int) (int, mark) {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		x.state = inString
	case 'u':
		x.state, x.hexLeft = inHex, 4
	default:
		return i, x.fail("invalid escape in a string")
	}
	return i + 1, markMore
}

// inNumber goes on inside a number: [-] int [frac] [exp] of RFC 8259. The byte
// that ends it is left to what follows.
func (x *lexer) inNumber(p []byte, i int) (int, mark) {
	for i < len(p) {
		next := afterDigit[x.state]
		switch c := p[i]; {
		case isDigit(c) && next != 0:
			if x.state == inMinus && c == '0' {
				next = inZero
			}
		case c == '.' && (x.state == inZero || x.state == inWhole):
			next = inPoint
		case c|0x20 == 'e' && (x.state == inZero || x.state == inWhole || x.state == inFraction):
			next = inExponent
		case (c == '+' || c == '-') && x.state == inExponent:
			next = inExponentSign
		case x.state == inZero && !isDigit(c), x.state == inWhole,
			x.state == inFraction, x.state == inExponentDigits:
			return i, x.ended()
		default:
			return i, x.fail("invalid number")
		}
		x.state = next
		i++
	}
	return i, markMore
}

// afterDigit is the state after a digit, 0 where none may stand.
var afterDigit = [...]state{
	inMinus:          inWhole,
	inWhole:          inWhole,
	inPoint:          inFraction,
	inFraction:       inFraction,
	inExponent:       inExponentDigits,
	inExponentSign:   inExponentDigits,
	inExponentDigits: inExponentDigits,
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func isHex(c byte) bool { return isDigit(c) || (c|0x20)-'a' <= 5 }
