package synccrypt

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestHLCForm is D12: one spelling, and nothing else is taken.
func TestHLCForm(t *testing.T) {
	for text, want := range map[string]HLC{
		"1720519200000-0000-device-a":                   {1720519200000, 0, "device-a"},
		"0000000000000-0000-a":                          {0, 0, "a"},
		"9999999999999-ffff--":                          {9_999_999_999_999, 0xffff, "-"},
		"0000000000001-0a1f-" + strings.Repeat("z", 64): {1, 0x0a1f, strings.Repeat("z", 64)},
	} {
		h, err := ParseHLC(text)
		if err != nil || h != want || h.String() != text {
			t.Errorf("%s: %+v, %v, %s", text, h, err, want.String())
		}
	}
	for _, text := range []string{
		"", "1720519200000", "1720519200000-0000", "1720519200000-0000-", "172051920000-0000-device-a",
		"17205192000000-0000-a", "1720519200000-000-device-a", "1720519200000-00000-a", "1720519200000-000A-a",
		"1720519200000-000g-a", "1720519200000_0000-a", "1720519200000-0000_a", "-720519200000-0000-a",
		"+720519200000-0000-a", " 720519200000-0000-a", "1720519200000-0000-A", "1720519200000-0000-a_b",
		"1720519200000-0000-é", "1720519200000-0000-a\n", "1720519200000-0000-" + strings.Repeat("a", 65),
		"2024-07-09T10:00:00.000Z-0000-a",
	} {
		if h, err := ParseHLC(text); !errors.Is(err, ErrClock) || h != (HLC{}) {
			t.Errorf("%q: %+v, %v", text, h, err)
		}
	}
}

// TestHLCOrder is K7: the order of texts is that of time, counter, device.
func TestHLCOrder(t *testing.T) {
	const letters = "-0123456789abcdefghijklmnopqrstuvwxyz"
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	random := func() HLC {
		device := make([]byte, 1+r.IntN(3))
		for i := range device {
			device[i] = letters[r.IntN(3)*r.IntN(12)]
		}
		return HLC{r.Int64N(3) * r.Int64N(maxMillis/2), uint16(r.IntN(3) * r.IntN(30000)), string(device)}
	}
	for range 20_000 {
		a, b := random(), random()
		want := cmp.Or(cmp.Compare(a.Millis, b.Millis), cmp.Compare(a.Counter, b.Counter), cmp.Compare(a.Device, b.Device))
		if got := cmp.Compare(a.String(), b.String()); got != want {
			t.Fatalf("seed %d: %s and %s: %d, want %d", seed, a, b, got, want)
		}
	}
}

// TestTick is D20: above the last, not below the wall, and no further than
// needed.
func TestTick(t *testing.T) {
	at := time.UnixMilli
	for _, c := range []struct {
		name string
		last HLC
		wall time.Time
		want HLC
	}{
		{"the first", HLC{}, at(5000), HLC{5000, 0, "a"}},
		{"time goes on", HLC{5000, 7, "a"}, at(5001), HLC{5001, 0, "a"}},
		{"within a millisecond", HLC{5000, 7, "a"}, at(5000).Add(999 * time.Microsecond), HLC{5000, 8, "a"}},
		{"set back", HLC{5000, 7, "a"}, at(10), HLC{5000, 8, "a"}},
		{"another device ahead", HLC{5000, 7, "z"}, at(4999), HLC{5000, 8, "a"}},
		{"the counter is used up", HLC{5000, math.MaxUint16, "a"}, at(10), HLC{5001, 0, "a"}},
		{"before 1970", HLC{}, at(-5), HLC{0, 1, "a"}},
		{"the last reading", HLC{maxMillis, 0xfffe, "a"}, at(0), HLC{maxMillis, 0xffff, "a"}},
	} {
		got, err := Tick(c.last, c.wall, "a")
		if err != nil || got != c.want || got.String() <= c.last.String() && c.last != (HLC{}) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		last   HLC
		wall   time.Time
		device string
	}{
		{HLC{}, at(1), ""},
		{HLC{}, at(1), "A"},
		{HLC{maxMillis, math.MaxUint16, "a"}, at(0), "a"},
		{HLC{maxMillis + 1, 0, "a"}, at(0), "a"},
		{HLC{-1, 0, "a"}, at(0), "a"},
		{HLC{math.MaxInt64, math.MaxUint16, "a"}, at(0), "a"},
		{HLC{}, at(maxMillis + 1), "a"},
	} {
		if got, err := Tick(c.last, c.wall, c.device); !errors.Is(err, ErrClock) || got != (HLC{}) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

// TestTickAgainstModel: with a wall clock that jumps, each reading is the least
// one that D20 allows.
func TestTickAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	last := HLC{Millis: 1000, Counter: 65_000, Device: "b"}
	number := func(h HLC) int64 { return h.Millis<<16 | int64(h.Counter) }
	for range 50_000 {
		wall := last.Millis + r.Int64N(5) - 3
		if r.IntN(100) == 0 {
			last.Counter = math.MaxUint16 - uint16(r.IntN(3))
		}
		want := max(number(last)+1, wall<<16)
		next, err := Tick(last, time.UnixMilli(wall), "a")
		if err != nil || number(next) != want || next.String() <= last.String() {
			t.Fatalf("seed %d: after %v at %d: %v, %v", seed, last, wall, next, err)
		}
		last = next
	}
}
