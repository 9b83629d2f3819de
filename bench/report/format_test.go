package report

import "testing"

func TestTexts(t *testing.T) {
	t.Parallel()
	f := func(text func(float64) string, v float64, want string) {
		t.Helper()
		if got := text(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
	f(textNanos, 0, "0 ns")
	f(textNanos, 0.5, "0.50 ns")
	f(textNanos, 412, "412 ns")
	f(textNanos, 999.4, "999 ns")
	f(textNanos, 999.6, "1 us")
	f(textNanos, 7321, "7.32 us")
	f(textNanos, 98.76e6, "98.8 ms")
	f(textNanos, 1.5e9, "1.50 s")
	f(textNanos, 1234e9, "1234 s")
	f(textCount, 847, "847")
	f(textCount, 5.38, "5.38")
	f(textCount, 2_611_000, "2.61 M")
	f(textCount, 10_000, "10 k")
	f(textBytes, 1432, "1.43 KB")
	f(textBytes, 64e6, "64 MB")
	f(textBytes, -300, "-300 B")
	f(textRatio, 1, "1.00x")
	f(textRatio, 0.0523, "0.052x")
	f(textRatio, 14.66, "14.7x")
	f(textRatio, 9.996, "10.0x")
	f(textRatio, 213.4, "213x")
	f(textRatio, 0, "0.00x")
	f(textPercent, 0.9949, "99.5 %")
	f(textSmall, 0.00042, "0.0004")
	f(textNumber, 12345678, "1.235e+07")
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
