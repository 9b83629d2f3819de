package aepws

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// maxSequenceDigits is the longest number in a cursor (B51).
const maxSequenceDigits = 19

// ErrCursor is returned for a text that is no cursor: cursor_malformed of B51.
var ErrCursor = errors.New("cursor is not <event id>:<sequence>")

// ParseCursor splits a cursor at its last colon (B51). The id is 1 to 128
// visible ASCII characters and borrowed from text; the number is not negative,
// and math.MaxInt64 when it is beyond that. The error is ErrCursor. Pure.
func ParseCursor(text []byte) (id []byte, sequence int64, err error) {
	colon := bytes.LastIndexByte(text, ':')
	if colon < 0 {
		return nil, 0, ErrCursor
	}
	id, digits := text[:colon], text[colon+1:]
	if !isVisible(id, maxIDBytes) || len(digits) == 0 || len(digits) > maxSequenceDigits {
		return nil, 0, ErrCursor
	}
	n := uint64(0) // 19 digits fit
	for _, c := range digits {
		if !jsontext.IsDigit(c) {
			return nil, 0, ErrCursor
		}
		n = n*10 + uint64(c-'0')
	}
	return id, int64(min(n, math.MaxInt64)), nil
}

// AppendCursor appends the cursor of the event with an id and a number. Pure.
func AppendCursor(dst []byte, id string, sequence int64) []byte {
	dst = append(dst, id...)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, sequence, 10)
}

// appendQuotedCursor appends a cursor as a JSON string.
func appendQuotedCursor(dst []byte, id string, sequence int64) []byte {
	dst = appendQuoted(dst, id)
	dst[len(dst)-1] = ':'
	dst = strconv.AppendInt(dst, sequence, 10)
	return append(dst, '"')
}
