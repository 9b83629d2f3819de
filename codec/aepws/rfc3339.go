package aepws

import "github.com/sluice-relay/sluice/codec/jsontext"

import "time"

// parseTime reads an RFC 3339 time with a zone (B21), in UTC. It takes what
// section 5.6 does: any number of fraction digits, small t and z, and second
// 60. It does not allocate, which time.Parse does for most zones.
func parseTime(p []byte) (t time.Time, ok bool) {
	const date = "0000-00-00T00:00:00"
	if len(p) < len(date)+1 {
		return t, false
	}
	for i := range date {
		c := p[i]
		switch want := date[i]; {
		case want == '0' && !jsontext.IsDigit(c), want == 'T' && c|0x20 != 't',
			(want == '-' || want == ':') && c != want:
			return t, false
		}
	}
	year := number(p[0:2])*100 + number(p[2:4])
	month, day := time.Month(number(p[5:7])), number(p[8:10])
	hour, minute, second := number(p[11:13]), number(p[14:16]), number(p[17:19])
	if month < 1 || month > 12 || day < 1 || day > daysIn(month, year) ||
		hour > 23 || minute > 59 || second > 60 {
		return t, false
	}
	nanos, rest, ok := fraction(p[len(date):])
	if !ok {
		return t, false
	}
	offset, ok := zone(rest)
	if !ok {
		return t, false
	}
	return time.Date(year, month, day, hour, minute, second, nanos, time.UTC).Add(-offset), true
}

// number reads two digits.
func number(p []byte) int { return int(p[0]-'0')*10 + int(p[1]-'0') }

// fraction reads the optional fraction of a second, and cuts it to nanoseconds.
func fraction(p []byte) (nanos int, rest []byte, ok bool) {
	if p[0] != '.' {
		return 0, p, true
	}
	end := jsontext.DigitsEnd(p, 1)
	for i := 1; i < 10; i++ {
		nanos *= 10
		if i < end {
			nanos += int(p[i] - '0')
		}
	}
	return nanos, p[end:], end > 1
}

// zone reads Z or an offset of hours and minutes.
func zone(p []byte) (offset time.Duration, ok bool) {
	if len(p) == 1 {
		return 0, p[0]|0x20 == 'z'
	}
	if len(p) != len("+00:00") || p[0] != '+' && p[0] != '-' || p[3] != ':' ||
		!jsontext.IsDigit(p[1]) || !jsontext.IsDigit(p[2]) || !jsontext.IsDigit(p[4]) || !jsontext.IsDigit(p[5]) {
		return 0, false
	}
	hours, minutes := number(p[1:3]), number(p[4:6])
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if p[0] == '-' {
		offset = -offset
	}
	return offset, hours <= 23 && minutes <= 59
}

func daysIn(month time.Month, year int) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
