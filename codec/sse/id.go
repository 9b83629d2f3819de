package sse

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendID appends the id of an event (R272): "<session>:<epoch>:<seq>", the
// numbers in plain decimal. ok is false, and nothing is appended, when the
// event has no id that a client could send back: the session is empty or holds
// CR, LF or NUL (R273), or a number is negative.
func AppendID(dst []byte, session string, epoch, seq int64) (_ []byte, ok bool) {
	if session == "" || epoch < 0 || seq < 0 || breaksLine(session) {
		return dst, false
	}
	dst = append(dst, session...)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, epoch, 10)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, seq, 10), true
}

// ParseLastEventID parses the value of Last-Event-ID (R276, R277): UTF-8, cut
// at its last two colons into a session, which is not empty and may hold
// colons, and two numbers of decimal digits that fit 63 bits. A value of
// another form is not ok and is to be ignored.
func ParseLastEventID(v []byte) (session string, epoch, seq int64, ok bool) {
	last := bytes.LastIndexByte(v, ':')
	if last < 0 {
		return "", 0, 0, false
	}
	first := bytes.LastIndexByte(v[:last], ':')
	if first <= 0 || !utf8.Valid(v[:first]) {
		return "", 0, 0, false
	}
	epoch, epochOK := parseDigits(v[first+1 : last])
	seq, seqOK := parseDigits(v[last+1:])
	if !epochOK || !seqOK {
		return "", 0, 0, false
	}
	return string(v[:first]), epoch, seq, true
}

// parseDigits reads one or more decimal digits as a number of 63 bits.
func parseDigits(v []byte) (n int64, ok bool) {
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		digit := int64(c - '0')
		if n > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, len(v) > 0
}
