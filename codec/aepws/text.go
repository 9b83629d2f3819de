package aepws

import (
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. It escapes what RFC 8259, section
// 7, demands and nothing else; bytes that are not UTF-8 become U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = utf8.AppendRune(dst, utf8.RuneError)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// borrow returns p as a string that shares its bytes. It lives no longer than
// p stays as it is.
func borrow(p []byte) string { return unsafe.String(unsafe.SliceData(p), len(p)) }

// isVisible tells if p is 1 to most visible ASCII characters (B20, B32).
func isVisible[T string | []byte](p T, most int) bool {
	if len(p) == 0 || len(p) > most {
		return false
	}
	for i := 0; i < len(p); i++ {
		if p[i] <= ' ' || p[i] > '~' {
			return false
		}
	}
	return true
}
