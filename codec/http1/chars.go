package http1

import "encoding/binary"

// Classes of octets, as bits of charClass.
const (
	classToken  = 1 << iota // tchar, RFC 9110 section 5.6.2
	classText               // octets of a field value: VCHAR, obs-text, SP, HTAB
	classTarget             // octets of a request target
	classHost               // octets of a registered name, RFC 3986 section 3.2.2
	classDigit
)

// charClass maps each octet to the classes it is in.
//
// Targets take every printable octet but "#", which would begin a fragment, and
// octets from 0x80 on, because common clients send raw UTF-8 in queries and
// nothing about framing depends on them.
var charClass = func() (t [256]uint8) {
	mark := func(chars string, class uint8) {
		for i := range len(chars) {
			t[chars[i]] |= class
		}
	}
	const digits = "0123456789"
	const alnum = digits + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	mark(digits, classDigit)
	mark(alnum, classToken|classHost)
	mark("!#$%&'*+-.^_`|~", classToken)
	mark("-._~!$&'()*+,;=", classHost)
	mark(" \t", classText)
	for c := 0x21; c < 0x100; c++ {
		if c != 0x7f {
			t[c] |= classText | classTarget
		}
	}
	t['#'] &^= classTarget
	return t
}()

// is tells whether c is in class.
func is(c byte, class uint8) bool { return charClass[c]&class != 0 }

// span returns how many octets at the start of b are in class.
func span(b []byte, class uint8) int {
	for i, c := range b {
		if charClass[c]&class == 0 {
			return i
		}
	}
	return len(b)
}

// validText tells whether all octets of b are in classText. Values are most of
// a head, so eight octets are looked at together: a word that may hold a
// control character is looked at again, octet by octet.
func validText(b []byte) bool {
	const (
		low  = 0x0101010101010101
		high = 0x8080808080808080
	)
	for len(b) >= 8 {
		word := binary.LittleEndian.Uint64(b)
		del := word ^ 0x7f*low
		controls := (word-0x20*low)&^word | (del-low)&^del
		if controls&high != 0 && span(b[:8], classText) != 8 {
			return false
		}
		b = b[8:]
	}
	return span(b, classText) == len(b)
}

// unhex returns the value of a hex digit, or -1.
func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// equalFold compares without regard to ASCII case.
func equalFold[T string | []byte](a T, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && toLower(a[i]) != toLower(b[i]) {
			return false
		}
	}
	return true
}

func toLower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// isOWS tells whether c is optional white space (RFC 9110 section 5.6.3).
func isOWS(c byte) bool { return c == ' ' || c == '\t' }

// trimOWS removes white space at both ends.
func trimOWS(b []byte) []byte {
	for len(b) > 0 && isOWS(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isOWS(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// nextMember splits a comma list (RFC 9110 section 5.6.1): it returns the first
// member without the white space around it, and what follows the comma, nil
// after the last member.
func nextMember(list []byte) (member, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trimOWS(list[:i]), list[i+1:]
		}
	}
	return trimOWS(list), nil
}
