package aep

import (
	"bytes"
	"math"
	"strconv"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// Integer is an exact integer of any size, kept as decimal digits and a power
// of ten and never expanded, so that 1e1000000000 is as cheap as 1 (R117). The
// zero Integer is 0. It borrows the bytes it was parsed from. Any goroutine.
//
// The form is unique: digits has no leading and no trailing zero, zero has no
// digits, no sign and exponent 0, and bigExp is set only where the exponent
// does not fit exp.
type Integer struct {
	digits   []byte
	exp      int64
	bigExp   []byte
	negative bool
}

// An exponent of up to maxExpDigits digits is below expBase and lives in exp;
// its sum with the length of any text fits an int64. A longer one is bigExp.
const (
	maxExpDigits = 18
	expBase      = 1_000_000_000_000_000_000
)

// ParseInteger parses raw, which must be a valid JSON number. It reports false
// when the number has a fraction (1.5, 1e-1). The result borrows raw. Nothing
// is allocated unless digits stand on both sides of a point or the exponent
// has more than 18 digits. Any goroutine.
func ParseInteger(raw []byte) (Integer, bool) {
	n := Integer{}
	if len(raw) > 0 && raw[0] == '-' {
		n.negative = true
		raw = raw[1:]
	}
	whole, fraction, exponent := splitNumber(raw)
	shift := n.setDigits(whole, fraction)
	if len(n.digits) == 0 {
		return Integer{}, true
	}
	if !n.setExponent(exponent, shift) {
		return Integer{}, false
	}
	return n, true
}

// splitNumber cuts an unsigned JSON number into its parts, without the point
// and the e.
func splitNumber(raw []byte) (whole, fraction, exponent []byte) {
	point := -1
	mantissa := raw
	for i, c := range raw {
		if c == '.' {
			point = i
		} else if c|0x20 == 'e' {
			mantissa, exponent = raw[:i], raw[i+1:]
			break
		}
	}
	if point < 0 {
		return mantissa, nil, exponent
	}
	return mantissa[:point], mantissa[point+1:], exponent
}

// parsePlain parses an unsigned number of up to 18 digits without point and
// exponent, which is what nearly all integers look like.
func parsePlain(raw []byte) (int64, bool) {
	if len(raw) > maxExpDigits {
		return 0, false
	}
	n := int64(0)
	for _, c := range raw {
		if !jsontext.IsDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// setDigits sets the digits and returns the power of ten that belongs to the
// last of them.
func (a *Integer) setDigits(whole, fraction []byte) int64 {
	whole = bytes.TrimLeft(whole, "0")
	fraction = bytes.TrimRight(fraction, "0")
	switch {
	case len(fraction) == 0:
		a.digits = bytes.TrimRight(whole, "0")
		return int64(len(whole) - len(a.digits))
	case len(whole) == 0:
		a.digits = bytes.TrimLeft(fraction, "0")
	default:
		a.digits = make([]byte, 0, len(whole)+len(fraction))
		a.digits = append(append(a.digits, whole...), fraction...)
	}
	return -int64(len(fraction))
}

// setExponent adds the written exponent to shift and reports whether the sum
// is not negative, that is, whether the number is an integer.
func (a *Integer) setExponent(written []byte, shift int64) bool {
	negative := false
	if len(written) > 0 && (written[0] == '-' || written[0] == '+') {
		negative = written[0] == '-'
		written = written[1:]
	}
	written = bytes.TrimLeft(written, "0")
	if len(written) > maxExpDigits {
		// No text has as many digits as would make up for such a power.
		if negative {
			return false
		}
		a.exp, a.bigExp = addDecimal(written, shift)
		return true
	}
	exp := int64(0)
	for _, c := range written {
		exp = exp*10 + int64(c-'0')
	}
	if negative {
		exp = -exp
	}
	a.exp = exp + shift
	if a.exp >= expBase {
		a.exp, a.bigExp = 0, strconv.AppendInt(nil, a.exp, 10)
	}
	return a.exp >= 0
}

// addDecimal adds n to a decimal of more than maxExpDigits digits without a
// leading zero; |n| is below 1e18. The sum is in the second result, or in the
// first if it has no more than maxExpDigits digits.
func addDecimal(decimal []byte, n int64) (int64, []byte) {
	split := len(decimal) - maxExpDigits
	low := int64(0)
	for _, c := range decimal[split:] {
		low = low*10 + int64(c-'0')
	}
	low += n
	high := append(make([]byte, 0, len(decimal)+1), '0')
	high = append(high, decimal[:split]...)
	switch {
	case low >= expBase:
		low -= expBase
		carry(high, '9', '0', 1)
	case low < 0:
		low += expBase
		carry(high, '0', '9', -1)
	}
	high = bytes.TrimLeft(high, "0")
	if len(high) == 0 {
		return low, nil
	}
	tail := strconv.AppendInt(nil, expBase+low, 10) // a one, then 18 digits
	return 0, append(high, tail[1:]...)
}

// carry adds step to the decimal d; a digit equal to full becomes empty and
// the carry goes on. The first digit of d never overflows.
func carry(d []byte, full, empty byte, step int) {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i] != full {
			d[i] = byte(int(d[i]) + step)
			return
		}
		d[i] = empty
	}
}

// Equal reports whether two integers have the same value: 1 equals 1.0 and
// 10e-1. It does not allocate.
func (a Integer) Equal(b Integer) bool {
	return a.negative == b.negative && a.exp == b.exp &&
		bytes.Equal(a.digits, b.digits) && bytes.Equal(a.bigExp, b.bigExp)
}

// Int64 returns the value and whether it fits an int64.
func (a Integer) Int64() (int64, bool) {
	if len(a.digits) == 0 {
		return 0, true
	}
	if a.bigExp != nil || a.exp > 18 || len(a.digits)+int(a.exp) > 19 {
		return 0, false
	}
	n := uint64(0) // at most 19 digits: below 1e19, which fits
	for _, c := range a.digits {
		n = n*10 + uint64(c-'0')
	}
	for range a.exp {
		n *= 10
	}
	switch {
	case a.negative && n <= 1<<63:
		return int64(-n), true
	case !a.negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// AppendKey appends the canonical spelling to dst: equal integers give equal
// bytes and unequal ones do not. The spelling is 0, or the sign, the
// significant digits, e, and the exponent.
func (a Integer) AppendKey(dst []byte) []byte {
	if len(a.digits) == 0 {
		return append(dst, '0')
	}
	if a.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, a.digits...)
	dst = append(dst, 'e')
	if a.bigExp != nil {
		return append(dst, a.bigExp...)
	}
	return strconv.AppendInt(dst, a.exp, 10)
}
