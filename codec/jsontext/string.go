package jsontext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Eight copies of one byte.
const (
	eachLow   = 0x0101010101010101
	eachHigh  = 0x80 * eachLow
	eachQuote = '"' * eachLow
	eachSlash = '\\' * eachLow
	eachSpace = ' ' * eachLow
)

// Marks has the high bit set in the lowest byte of w that is a quote or a
// backslash, and is 0 when there is none. Bits above the lowest may be wrong.
func Marks(w uint64) uint64 {
	quote, slash := w^eachQuote, w^eachSlash
	return ((quote-eachLow)&^quote | (slash-eachLow)&^slash) & eachHigh
}

// Specials is Marks for whatever ends a run of plain string content: also a
// control character, or a byte of a character beyond ASCII.
func Specials(w uint64) uint64 {
	quote, slash := w^eachQuote, w^eachSlash
	plain := (quote-eachLow)&^quote | (slash-eachLow)&^slash
	control := (w - eachSpace) &^ w
	return (plain | control | w) & eachHigh
}

// PlainEnd returns the offset of the first byte from i on that is not plain
// string content: see Specials.
func PlainEnd(p []byte, i int) int {
	for i+8 <= len(p) {
		if m := Specials(binary.LittleEndian.Uint64(p[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(p) && p[i] >= ' ' && p[i] < utf8.RuneSelf && p[i] != '"' && p[i] != '\\' {
		i++
	}
	return i
}

// StringEnd returns the offset after the valid string whose opening quote is at
// i.
func StringEnd(p []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(p[i:], '"')
		slashes := i
		for p[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			return i + 1
		}
	}
}
