package http1

import (
	"bytes"
	"unicode/utf8"
)

// QueryValue returns the value of the first parameter of that name in a query
// string, read as HTML form data (WHATWG URL, application/x-www-form-urlencoded
// parsing; R33): "&" alone separates, "+" is a space, a broken percent escape
// stays as it is, and what is no UTF-8 after decoding becomes U+FFFD.
//
// A parameter that is present but empty counts as absent (R34), also when a
// later one of the same name is not. name is ASCII. rawQuery is borrowed until
// return; the result is a copy. It allocates nothing but the result, unless a
// value that needs decoding is longer than 256 octets. Any goroutine.
func QueryValue(rawQuery []byte, name string) (value string, ok bool) {
	for len(rawQuery) > 0 {
		var pair []byte
		pair, rawQuery, _ = bytes.Cut(rawQuery, []byte("&"))
		rawName, rawValue, _ := bytes.Cut(pair, []byte("="))
		if len(pair) > 0 && formEqual(rawName, name) {
			return formDecode(rawValue), len(rawValue) > 0
		}
	}
	return "", false
}

// formEqual tells whether raw decodes to name.
func formEqual(raw []byte, name string) bool {
	if len(raw) < len(name) || len(raw) > 3*len(name) {
		return false
	}
	matched := 0
	for len(raw) > 0 {
		c, n := formOctet(raw)
		if matched == len(name) || name[matched] != c {
			return false
		}
		raw = raw[n:]
		matched++
	}
	return matched == len(name)
}

// formOctet returns the octet at the start of raw and how many octets stood for
// it. raw is not empty.
func formOctet(raw []byte) (c byte, n int) {
	switch raw[0] {
	case '+':
		return ' ', 1
	case '%':
		if len(raw) > 2 {
			hi, lo := unhex(raw[1]), unhex(raw[2])
			if hi >= 0 && lo >= 0 {
				return byte(hi<<4 | lo), 3
			}
		}
	}
	return raw[0], 1
}

// formDecode decodes a value. Most values hold nothing to decode.
func formDecode(raw []byte) string {
	if bytes.IndexByte(raw, '%') < 0 && bytes.IndexByte(raw, '+') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	var space [256]byte
	decoded := space[:0]
	for len(raw) > 0 {
		c, n := formOctet(raw)
		decoded = append(decoded, c)
		raw = raw[n:]
	}
	if utf8.Valid(decoded) {
		return string(decoded)
	}
	return string(replaceInvalid(make([]byte, 0, 2*len(decoded)), decoded))
}

// replaceInvalid appends b to dst with one U+FFFD for each maximal part of an
// ill-formed sequence, as the WHATWG decoder does. (The Go library puts one for
// each octet, or one for a whole run.)
func replaceInvalid(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 && !utf8.FullRune(b[:1]) {
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}
