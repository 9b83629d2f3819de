package aep

import (
	"bytes"
	"errors"
	"math/big"
)

// ErrSubscriptionID is returned for an id that is neither a string nor a
// number, or has more than 256 bytes (R321, R323).
var ErrSubscriptionID = errors.New(
	"id must be a string or a number of at most 256 bytes")

// ErrCeiling is returned for a ceiling that is no capture level (R240).
var ErrCeiling = errors.New(
	"capture must be none, metadata, redacted or full")

const maxSubscriptionIDBytes = 256

// ParseSubscriptionID returns the identity of the raw JSON id of a subscribe or
// unsubscribe frame: ids with equal JSON values give equal keys, so 1 and 1.0
// are one subscription and "1" is another. Nil raw is an absent id, with a key
// of its own. The error is ErrSubscriptionID. Any goroutine.
func ParseSubscriptionID(raw []byte) (key string, err error) {
	if raw == nil {
		return "", nil
	}
	var s Scanner
	if len(raw) > maxSubscriptionIDBytes || s.Scan(raw) != nil {
		return "", ErrSubscriptionID
	}
	raw = trimSpace(raw)
	switch {
	case kindOf(raw) == '"':
		return "s" + decodeString(raw), nil
	case isNumber(raw):
		return "n" + numberIdentity(raw), nil
	}
	return "", ErrSubscriptionID
}

// numberIdentity spells a JSON number in one way for each value: its
// significant digits and a power of ten. The exponent may have any size; raw is
// short.
func numberIdentity(raw []byte) string {
	sign := ""
	if raw[0] == '-' {
		sign, raw = "-", raw[1:]
	}
	exponent := new(big.Int)
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		written := bytes.TrimPrefix(raw[i+1:], []byte("+"))
		exponent.SetString(string(written), 10)
		raw = raw[:i]
	}
	whole, fraction, _ := bytes.Cut(raw, []byte("."))
	digits := string(whole) + string(fraction)
	trimmed := bytes.TrimRight([]byte(digits), "0")
	shift := len(digits) - len(trimmed) - len(fraction)
	trimmed = bytes.TrimLeft(trimmed, "0")
	if len(trimmed) == 0 {
		return "0"
	}
	exponent.Add(exponent, big.NewInt(int64(shift)))
	return sign + string(trimmed) + "e" + exponent.String()
}

// ParseCeiling reads the `capture` of a subscribe frame: raw is a JSON string,
// nil or JSON null is no ceiling (R240). The error is ErrCeiling. Any
// goroutine.
func ParseCeiling(raw []byte) (Ceiling, error) {
	if raw == nil {
		return NoCeiling, nil
	}
	var s Scanner
	if s.Scan(raw) != nil {
		return NoCeiling, ErrCeiling
	}
	raw = trimSpace(raw)
	if isNull(raw) {
		return NoCeiling, nil
	}
	for l := LevelNone; l <= LevelFull; l++ {
		if rawEqual(raw, l.String()) {
			return CeilingAt(l), nil
		}
	}
	return NoCeiling, ErrCeiling
}

// ParseCeilingQuery reads the SSE parameter `capture`, which is a bare word;
// empty is no ceiling (R34, R240).
func ParseCeilingQuery(text []byte) (Ceiling, error) {
	if len(text) == 0 {
		return NoCeiling, nil
	}
	level, ok := ParseLevel(text)
	if !ok {
		return NoCeiling, ErrCeiling
	}
	return CeilingAt(level), nil
}
