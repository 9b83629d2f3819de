package aep

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

func mustInteger(t testing.TB, raw string) Integer {
	t.Helper()
	n, ok := ParseInteger([]byte(raw))
	if !ok {
		t.Fatalf("%.60s is refused", raw)
	}
	return n
}

// TestParseInteger is R117: spellings, canonical keys and values.
func TestParseInteger(t *testing.T) {
	for raw, key := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "0e5": "0", "-0.0E-7": "0",
		"0e-99999999999999999999": "0", "0e99999999999999999999": "0",
		"5": "5e0", "5.0": "5e0", "5e0": "5e0", "50e-1": "5e0", "0.05e2": "5e0",
		"-5": "-5e0", "500": "5e2", "5e2": "5e2", "0.5E+3": "5e2",
		"12.5e1": "125e0", "10.01e2": "1001e0", "100.10e3": "1001e2",
		"1e1000000000":                       "1e1000000000",
		"100e999999998":                      "1e1000000000",
		"1e00000000000000000000005":          "1e5",
		"1e999999999999999999":               "1e999999999999999999",
		"10e999999999999999999":              "1e1000000000000000000",
		"1e1000000000000000000":              "1e1000000000000000000",
		"0.1e1000000000000000000":            "1e999999999999999999",
		"0.001e1000000000000000001":          "1e999999999999999998",
		"1000e999999999999999999999":         "1e1000000000000000000002",
		"0.01e1000000000000000000001":        "1e999999999999999999999",
		"0.01e2000000000000000000001":        "1e1999999999999999999999",
		"10e0099999999999999999999999999999": "1e100000000000000000000000000000",
	} {
		if got := string(mustInteger(t, raw).AppendKey(nil)); got != key {
			t.Errorf("%s is %s, want %s", raw, got, key)
		}
	}
	for _, raw := range []string{
		"1.5", "0.1", "1e-1", "15e-2", "10e-2", "1.05e1", "-0.5", "1e-1000000000",
		"1e-99999999999999999999", "1e-999999999999999999",
	} {
		if n, ok := ParseInteger([]byte(raw)); ok {
			t.Errorf("%s is %s", raw, n.AppendKey(nil))
		}
	}
}

func TestIntegerInt64(t *testing.T) {
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, "5e0": 5, "12.5e1": 125, "1e18": 1e18,
		"9223372036854775807":     math.MaxInt64,
		"9223372036854775807.0":   math.MaxInt64,
		"-9223372036854775808":    math.MinInt64,
		"-922337203685477580.8e1": math.MinInt64,
	} {
		if n, ok := mustInteger(t, raw).Int64(); !ok || n != want {
			t.Errorf("%s is %d, %v", raw, n, ok)
		}
	}
	for _, raw := range []string{
		"9223372036854775808", "-9223372036854775809", "1e19", "-1e19", "1e20",
		"9999999999999999999", "18446744073709551616", "1e1000000000",
		"1e9999999999999999999999", "123456789012345678901",
	} {
		if n, ok := mustInteger(t, raw).Int64(); ok {
			t.Errorf("%s is %d", raw, n)
		}
	}
}

// TestIntegerEqual: Equal agrees with the keys, for all pairs.
func TestIntegerEqual(t *testing.T) {
	all := []string{
		"0", "-0.0", "1", "1.0", "10e-1", "-1", "10", "1e1", "12", "1.2e1", "21",
		"1e999999999999999999", "10e999999999999999998", "1e1000000000000000000",
		"10e999999999999999999", "1e10000000000000000000", "-1e10000000000000000000",
	}
	for _, a := range all {
		for _, b := range all {
			x, y := mustInteger(t, a), mustInteger(t, b)
			same := string(x.AppendKey(nil)) == string(y.AppendKey(nil))
			if x.Equal(y) != same {
				t.Errorf("%s and %s: %v", a, b, !same)
			}
		}
	}
}

// TestIntegerIsNotExpanded: numbers of a million digits and huge exponents
// cost no more than reading them.
func TestIntegerIsNotExpanded(t *testing.T) {
	nines := strings.Repeat("9", 1_000_000)
	start := time.Now()
	a := mustInteger(t, nines+"e"+nines)
	same := mustInteger(t, nines+"0e"+nines[1:]+"8")
	other := mustInteger(t, nines+"0e"+nines[1:]+"7")
	if !a.Equal(same) || a.Equal(other) {
		t.Error("comparison")
	}
	one := mustInteger(t, "1"+strings.Repeat("0", 1_000_000))
	if !one.Equal(mustInteger(t, "1e1000000")) {
		t.Error("zeros")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestIntegerDoesNotAllocate(t *testing.T) {
	raws := [][]byte{[]byte("1842"), []byte("5.0"), []byte("-12e3"), []byte("1e1000000000")}
	var key [64]byte
	allocs := testing.AllocsPerRun(100, func() {
		for _, raw := range raws {
			n, _ := ParseInteger(raw)
			n.Equal(n)
			n.Int64()
			n.AppendKey(key[:0])
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// FuzzParseInteger compares with exact rational arithmetic, for exponents that
// math/big can take.
func FuzzParseInteger(f *testing.F) {
	for _, raw := range []string{
		"0", "-0", "5", "5.0", "50e-1", "1.5", "1e-1", "12.5e1", "0.05e2",
		"9223372036854775808", "-9223372036854775808", "100e-2", "1e300", "0e-9",
	} {
		f.Add(raw, raw+"0")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		x, ok := exactNumber(first)
		if !ok {
			return
		}
		a, isInteger := ParseInteger([]byte(first))
		if isInteger != x.IsInt() {
			t.Fatalf("%s: %v", first, isInteger)
		}
		if !isInteger {
			return
		}
		if n, fits := a.Int64(); fits != x.Num().IsInt64() || fits && n != x.Num().Int64() {
			t.Fatalf("%s: %d %v", first, n, fits)
		}
		key := string(a.AppendKey(nil))
		if back, ok := ParseInteger([]byte(key)); !ok || !back.Equal(a) {
			t.Fatalf("%s: key %s is another number", first, key)
		}
		y, ok := exactNumber(second)
		if !ok || !y.IsInt() {
			return
		}
		b, _ := ParseInteger([]byte(second))
		same := x.Cmp(y) == 0
		if a.Equal(b) != same || key == string(b.AppendKey(nil)) != same {
			t.Fatalf("%s and %s: want equal %v", first, second, same)
		}
	})
}

// exactNumber returns the value of a JSON number with an exponent of up to
// three digits.
func exactNumber(raw string) (*big.Rat, bool) {
	var s Scanner
	if s.Scan([]byte(raw)) != nil || raw != strings.TrimSpace(raw) ||
		!strings.ContainsAny(raw[:1], "-0123456789") {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(raw), "e"); ok {
		var n int
		if _, err := fmt.Sscan(exponent, &n); err != nil || n > 999 || n < -999 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(raw)
}
