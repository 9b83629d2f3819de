package syncwire

import (
	"bytes"
	"math"
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
)

// Bounds of the timeout of a waiting pull (S52).
const (
	DefaultWait = 25 * time.Second
	MaxWait     = 60 * time.Second
)

// PullQuery is the query of GET /v1/events and /v1/events/wait (S32, S52).
type PullQuery struct {
	OwnerID string
	// After is the cursor, 0 where there is none. Digits beyond 2^63-1 give
	// math.MaxInt64, which no store issues (S33).
	After int64
	// Limit is a number of events, clamped.
	Limit int
	// Wait is how long an empty page is held back; for /wait only.
	Wait time.Duration
}

// PullLimits are the numbers that a pull's limit is held to (S32). Default is
// in 1 to Max.
type PullLimits struct {
	Default, Max int
}

// ParseOwner returns the ownerId of a query string, which must be in it exactly
// once (S11). The query is read as HTML form data: "+" is a space. The error is
// an *Error. rawQuery is borrowed until return.
func ParseOwner(rawQuery []byte) (string, error) {
	count, id := 0, ""
	eachPair(rawQuery, func(pair []byte) {
		name, _, _ := bytes.Cut(pair, []byte("="))
		if isParameter(name, "ownerId") {
			count++
			id, _ = http1.QueryValue(pair, "ownerId")
		}
	})
	switch {
	case count == 0:
		return "", badRequest("ownerId is missing in the query")
	case count > 1:
		return "", badRequest("ownerId occurs twice in the query")
	case !isVisible(id, maxOwnerChars):
		return "", badRequest("ownerId is not 1 to 128 visible ASCII characters")
	}
	return id, nil
}

// ParsePull parses the query of a pull, waiting or not. Only a bad ownerId is
// an error, an *Error. Otherwise (S32): after that is not a string of digits
// counts from zero; limit is an integer with or without a minus sign, clamped
// to 1 to Max, or else Default; timeout, in milliseconds, likewise, clamped to
// 0 to MaxWait. Of these, the first of a name counts.
func ParsePull(rawQuery []byte, limits PullLimits) (PullQuery, error) {
	owner, err := ParseOwner(rawQuery)
	if err != nil {
		return PullQuery{}, err
	}
	q := PullQuery{OwnerID: owner, Limit: limits.Default, Wait: DefaultWait}
	if v, ok := http1.QueryValue(rawQuery, "after"); ok {
		q.After, _ = parseDigits(v)
	}
	if v, ok := http1.QueryValue(rawQuery, "limit"); ok {
		if n, ok := parseInteger(v); ok {
			q.Limit = int(min(max(n, 1), int64(limits.Max)))
		}
	}
	if v, ok := http1.QueryValue(rawQuery, "timeout"); ok {
		if n, ok := parseInteger(v); ok {
			q.Wait = time.Duration(min(max(n, 0), MaxWait.Milliseconds())) * time.Millisecond
		}
	}
	return q, nil
}

func eachPair(rawQuery []byte, f func(pair []byte)) {
	for len(rawQuery) > 0 {
		var pair []byte
		pair, rawQuery, _ = bytes.Cut(rawQuery, []byte("&"))
		f(pair)
	}
}

// isParameter tells whether a raw parameter name, which may hold percent
// escapes, stands for name. An empty value hides a parameter from QueryValue,
// so it is asked with another one.
func isParameter(raw []byte, name string) bool {
	if len(raw) > 3*len(name) {
		return false
	}
	var space [64]byte
	_, ok := http1.QueryValue(append(append(space[:0], raw...), "=1"...), name)
	return ok
}

// parseInteger parses digits after an optional minus sign, and saturates.
func parseInteger(s string) (int64, bool) {
	if len(s) > 0 && s[0] == '-' {
		n, ok := parseDigits(s[1:])
		return -n, ok
	}
	return parseDigits(s)
}

// parseDigits parses a string of decimal digits, 0 and false for any other.
// It saturates at math.MaxInt64.
func parseDigits(s string) (int64, bool) {
	n, saturated := int64(0), false
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		digit := int64(s[i] - '0')
		if n > (math.MaxInt64-digit)/10 {
			saturated = true
			continue
		}
		n = n*10 + digit
	}
	if saturated {
		n = math.MaxInt64
	}
	return n, len(s) > 0
}
