package synccrypt

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

const (
	// maxMillis is the greatest time of 13 digits, in the year 2286.
	maxMillis = 9_999_999_999_999
	// clockHead is the length of an HLC's text before its device id.
	clockHead = 13 + 1 + 4 + 1
)

// HLC is one reading of a hybrid logical clock (D12). It is a value; the zero
// HLC is before every reading.
type HLC struct {
	Millis  int64  // since 1970, 0 to 9,999,999,999,999
	Counter uint16 // orders readings within one millisecond
	Device  string // who read it; 1 to 64 of [a-z0-9-]
}

// String returns the form of D12, 20 to 83 characters of ASCII:
// 1720519200000-001f-laptop. Of a value that is out of range it is no form that
// ParseHLC takes.
func (h HLC) String() string {
	return string(h.append(make([]byte, 0, clockHead+maxDeviceBytes)))
}

func (h HLC) append(dst []byte) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], h.Millis, 10)
	for range 13 - len(text) {
		dst = append(dst, '0')
	}
	dst = append(dst, text...)
	const hex = "0123456789abcdef"
	c := h.Counter
	dst = append(dst, '-', hex[c>>12], hex[c>>8&15], hex[c>>4&15], hex[c&15], '-')
	return append(dst, h.Device...)
}

// ParseHLC reads the form of D12, its one spelling. Device shares s. ErrClock:
// anything else.
func ParseHLC(s string) (HLC, error) {
	if len(s) <= clockHead || s[13] != '-' || s[18] != '-' {
		return HLC{}, fmt.Errorf("synccrypt: clock: %w: not of the form millis-counter-device", ErrClock)
	}
	h := HLC{Device: s[clockHead:]}
	for i := range 13 {
		if !isDigit(s[i]) {
			return HLC{}, fmt.Errorf("synccrypt: clock: %w: the time is not of 13 digits", ErrClock)
		}
		h.Millis = h.Millis*10 + int64(s[i]-'0')
	}
	for _, c := range []byte(s[14:18]) {
		switch {
		case isDigit(c):
			c -= '0'
		case c-'a' < 6:
			c -= 'a' - 10
		default:
			return HLC{}, fmt.Errorf("synccrypt: clock: %w: the counter is not of 4 lower case hexadecimal digits", ErrClock)
		}
		h.Counter = h.Counter<<4 | uint16(c)
	}
	if !ValidDeviceID(h.Device) {
		return HLC{}, fmt.Errorf("synccrypt: clock: %w: the device id is not 1 to 64 of a-z, 0-9 and -", ErrClock)
	}
	return h, nil
}

// Tick reads the clock of a device: the result is above last whatever device
// made that, and not below wall, cut to milliseconds (D20). A counter that is
// used up moves on to the next millisecond; a wall clock before 1970 counts as
// 1970. ErrClock: the device id is none, last is out of range, or the time is
// past the last of 13 digits.
func Tick(last HLC, wall time.Time, device string) (HLC, error) {
	if !ValidDeviceID(device) {
		return HLC{}, fmt.Errorf("synccrypt: tick: %w: the device id is not 1 to 64 of a-z, 0-9 and -", ErrClock)
	}
	if last.Millis < 0 {
		return HLC{}, fmt.Errorf("synccrypt: tick: %w: the last time is negative", ErrClock)
	}
	next := HLC{Millis: max(wall.UnixMilli(), 0), Device: device}
	if next.Millis <= last.Millis {
		next.Millis, next.Counter = last.Millis, last.Counter+1
		if last.Counter == math.MaxUint16 {
			next.Millis, next.Counter = last.Millis+1, 0
		}
	}
	if next.Millis > maxMillis || last.Millis > maxMillis {
		return HLC{}, fmt.Errorf("synccrypt: tick: %w: the time has more than 13 digits", ErrClock)
	}
	return next, nil
}
