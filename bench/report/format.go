package report

import (
	"math"
	"strconv"
	"strings"
)

// scale is a unit and how many of the base unit it has.
type scale struct {
	factor float64
	unit   string
}

// Scales, largest first; the last is for everything below. Shared, immutable.
var (
	timeScales  = []scale{{1e9, " s"}, {1e6, " ms"}, {1e3, " us"}, {1, " ns"}}
	countScales = []scale{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}}
	byteScales  = []scale{{1e9, " GB"}, {1e6, " MB"}, {1e3, " KB"}, {1, " B"}}
)

// scaled returns v with three digits in the largest scale that v reaches.
func scaled(v float64, scales []scale) string {
	for i, s := range scales {
		text := digits(v / s.factor)
		// 999.6 k reads "1000 k" when rounded: it belongs one scale up.
		if i > 0 && strings.TrimPrefix(text, "-") == "1000" {
			return digits(v/scales[i-1].factor) + scales[i-1].unit
		}
		if math.Abs(v) >= s.factor {
			return text + s.unit
		}
	}
	return digits(v) + scales[len(scales)-1].unit
}

// digits returns v with about three significant digits.
func digits(v float64) string {
	decimals := 2
	switch a := math.Abs(v); {
	case a >= 99.95:
		decimals = 0
	case a >= 9.995:
		decimals = 1
	case a > 0 && a < 0.0995:
		decimals = 3
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// textNanos shows nanoseconds in a fitting unit.
func textNanos(v float64) string { return whole(scaled(v, timeScales)) }

// textCount shows a number of things.
func textCount(v float64) string { return whole(scaled(v, countScales)) }

// textBytes shows bytes in decimal units.
func textBytes(v float64) string { return whole(scaled(v, byteScales)) }

// textNumber shows a number without a unit.
func textNumber(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// textSmall shows a number that is far below one.
func textSmall(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// textPercent shows a part of one.
func textPercent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

// textRatio shows a ratio.
func textRatio(v float64) string { return digits(v) + "x" }

// whole drops decimals that are all zero: "2.00 us" is "2 us".
func whole(text string) string {
	number, unit, _ := strings.Cut(text, " ")
	if integer, decimals, found := strings.Cut(number, "."); found && strings.Trim(decimals, "0") == "" {
		number = integer
	}
	if unit == "" {
		return number
	}
	return number + " " + unit
}

// textSpread shows the median, and the range if there is more than one round.
func textSpread(s Spread, text func(float64) string) string {
	if s.Rounds < 2 {
		return text(s.Median)
	}
	return text(s.Median) + " (" + text(s.Min) + " to " + text(s.Max) + ")"
}

// thousands shows a whole number with commas.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return sign + text
}
