package report

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	f := func(name string, cpus []float64, want Spread) {
		t.Helper()
		var results []Result
		for i, cpu := range cpus {
			results = append(results, result("s", "a", i+1, cpu, 1e6, time.Millisecond))
		}
		// Neither another target nor another scenario has a say.
		results = append(results, result("s", "b", 1, 1, 1, 1), result("t", "a", 1, 1, 1, 1))
		got, err := Median(results, "s", "a", CPUPerDelivery)
		if err != nil || got != want {
			t.Errorf("%s: %v: got %+v %v, want %+v", name, cpus, got, err, want)
		}
	}
	f("one round", []float64{7}, Spread{7, 7, 7, 1})
	f("odd", []float64{9, 5, 7}, Spread{7, 5, 9, 3})
	f("even is the middle of two", []float64{9, 5, 7, 6}, Spread{6.5, 5, 9, 4})
}

// TestRatioByRounds: B2. The machine was slow in round 2, for both.
func TestRatioByRounds(t *testing.T) {
	t.Parallel()
	results := []Result{
		result("s", "a", 1, 100, 1e6, 1), result("s", "b", 1, 100, 1e6, 1),
		result("s", "a", 2, 330, 1e6, 1), result("s", "b", 2, 300, 1e6, 1),
		result("s", "a", 3, 240, 1e6, 1), result("s", "b", 3, 200, 1e6, 1),
		result("s", "a", 4, 900, 1e6, 1), // no partner
		result("s", "b", 5, 1, 1e6, 1),   // no partner
	}
	got, err := Ratio(results, Key{"s", "a"}, Key{"s", "b"}, CPUPerDelivery)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ got, want float64 }{{got.Median, 1.1}, {got.Min, 1.0}, {got.Max, 1.2}} {
		if math.Abs(v.got-v.want) > 1e-9 {
			t.Errorf("got %+v, want 1.1 within 1.0 and 1.2", got)
		}
	}
	if got.Rounds != 3 {
		t.Errorf("%d rounds, want the 3 that both have", got.Rounds)
	}
	// The ratio of the medians would be (240+330)/2 to 200 or 150.
}

// TestNotMeasured: B3.
func TestNotMeasured(t *testing.T) {
	t.Parallel()
	skipped := Result{Scenario: "s", Target: "c", Round: 1, Skipped: true, Note: "no such kernel"}
	zero := Result{Scenario: "s", Target: "z", Round: 1}
	results := []Result{result("s", "a", 1, 1, 1, 1), result("s", "b", 2, 1, 1, 1), skipped, zero}
	f := func(name string, err error, want string) {
		t.Helper()
		if !errors.Is(err, ErrNotMeasured) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	ratio := func(over, under string, m Measure) error {
		s, err := Ratio(results, Key{"s", over}, Key{"s", under}, m)
		if s != (Spread{}) {
			t.Errorf("%s to %s: a value %+v", over, under, s)
		}
		return err
	}
	f("absent", ratio("x", "a", P99), "x in s did not run")
	f("rival absent", ratio("a", "x", P99), "x in s did not run")
	f("skipped, with the reason", ratio("a", "c", P99), "c in s: no such kernel")
	f("no common round", ratio("a", "b", P99), "in no common round")
	f("without this number", ratio("a", "z", P99), "no p99 of z in s")
	f("without this number", ratio("a", "b", AllocsPerDelivery), "no allocations per delivery of a in s")
	_, err := Median(results, "s", "z", CPUPerDelivery)
	f("no delivery", err, "no CPU per delivery of z in s")
	_, err = Median(nil, "s", "a", CPUPerDelivery)
	f("empty report", err, "a in s did not run")
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	r := result("s", "a", 1, 250, 2e6, 9*time.Millisecond)
	r.Rate, r.Consumers = 2500, 1000 // 2.5 M deliveries/s offered
	r.LastLatency = Quantiles{Count: 1, P99: 11 * time.Millisecond}
	r.Probe = &Quantiles{Count: 1, P99: 12}
	r.AllocsPerDelivery, r.IdleBytesPerConn = pointer(0), pointer(1400)
	r.PeakRSSBytes, r.Extra = 1<<20, map[string]float64{"x_us": 3}
	ingest := result("s", "a", 1, 250, 2e6, time.Millisecond)
	ingest.Deliveries = 0
	f := func(m Measure, r Result, want float64) {
		t.Helper()
		if got, ok := m.Of(&r); !ok || math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: got %v %v, want %v", m.Name, got, ok, want)
		}
	}
	f(PerSecond, r, 2e6)
	f(DeliveriesPerSecond, r, 2e6)
	f(Achieved, r, 0.8)
	f(CPUPerDelivery, r, 250)
	f(CPUEach, r, 250)
	f(P50, r, 3e6)
	f(P90, r, 4.5e6)
	f(P99, r, 9e6)
	f(P999, r, 18e6)
	f(Max, r, 36e6)
	f(LastP99, r, 11e6)
	f(ProbeP99, r, 12)
	f(AllocsPerDelivery, r, 0) // none is a measurement
	f(IdleBytesPerConn, r, 1400)
	f(PeakRSS, r, 1<<20)
	f(extra("x_us"), r, 3)
	f(PerSecond, ingest, 2e6)
	f(EventsPerSecond, ingest, 2e6)
	f(CPUEach, ingest, 250)
	f(CPUPerEvent, ingest, 250)
	for _, m := range []Measure{
		PerSecond, DeliveriesPerSecond, EventsPerSecond, Achieved, CPUPerDelivery, CPUPerEvent, CPUEach, P50, P99,
		LastP99, ProbeP99, AllocsPerDelivery, IdleBytesPerConn, PeakRSS, extra("x_us"),
	} {
		if v, ok := m.Of(new(Result)); ok {
			t.Errorf("%s: an empty result has %v", m.Name, v)
		}
	}
}

func TestSpreadOverlaps(t *testing.T) {
	t.Parallel()
	f := func(a, b Spread, want bool) {
		t.Helper()
		if a.overlaps(b) != want || b.overlaps(a) != want {
			t.Errorf("%+v and %+v: want %v", a, b, want)
		}
	}
	f(Spread{2, 1, 3, 3}, Spread{4, 3, 5, 3}, true)
	f(Spread{2, 1, 3, 3}, Spread{2, 2, 2, 1}, true)
	f(Spread{2, 1, 3, 3}, Spread{5, 4, 6, 3}, false)
}

// The relay needed 5 % more than the floor in one round, and 3 % in the other.
func ExampleRatio() {
	results := []Result{
		{Scenario: FanoutWS10kOne, Target: TargetSluice, Round: 1, Deliveries: 1000, ServerCPU: 7350 * time.Microsecond},
		{Scenario: FanoutWS10kOne, Target: TargetFloor, Round: 1, Deliveries: 1000, ServerCPU: 7000 * time.Microsecond},
		{Scenario: FanoutWS10kOne, Target: TargetSluice, Round: 2, Deliveries: 1000, ServerCPU: 8240 * time.Microsecond},
		{Scenario: FanoutWS10kOne, Target: TargetFloor, Round: 2, Deliveries: 1000, ServerCPU: 8000 * time.Microsecond},
	}
	s, err := Ratio(results, Key{FanoutWS10kOne, TargetSluice}, Key{FanoutWS10kOne, TargetFloor}, CPUPerDelivery)
	fmt.Printf("%.2f (%.2f to %.2f) %v\n", s.Median, s.Min, s.Max, err)
	// Output: 1.04 (1.03 to 1.05) <nil>
}
