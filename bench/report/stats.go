package report

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNotMeasured tells that a report does not hold what was asked for. The
// text says what is missing and, if the report knows it, why.
var ErrNotMeasured = errors.New("not measured")

// Measure is one number of a result. Immutable.
type Measure struct {
	Name string
	// Of returns the number, false if the result does not have it.
	Of func(*Result) (float64, bool)
	// Text returns a value for people.
	Text func(float64) string
	// Less says that smaller is better.
	Less bool
}

// The measures. Shared, immutable.
var (
	PerSecond = Measure{
		Name: "per second", Text: textCount,
		Of: func(r *Result) (float64, bool) { return positive(r.PerSecond()) },
	}
	DeliveriesPerSecond = Measure{
		Name: "deliveries/s", Text: textCount,
		Of: func(r *Result) (float64, bool) { return positive(perSecond(r.Deliveries, r.Wall)) },
	}
	EventsPerSecond = Measure{
		Name: "events/s", Text: textCount,
		Of: func(r *Result) (float64, bool) { return positive(r.EventsPerSecond()) },
	}
	// Achieved is the part of the offered deliveries that were made in time.
	Achieved = Measure{
		Name: "achieved", Text: textPercent,
		Of: func(r *Result) (float64, bool) {
			offered := r.Rate * float64(r.Consumers)
			if offered <= 0 || r.Wall <= 0 {
				return 0, false
			}
			return perSecond(r.Deliveries, r.Wall) / offered, true
		},
	}
	CPUPerDelivery = Measure{
		Name: "CPU per delivery", Text: textNanos, Less: true,
		Of: func(r *Result) (float64, bool) { return positive(r.CPUPerDelivery()) },
	}
	CPUPerEvent = Measure{
		Name: "CPU per event", Text: textNanos, Less: true,
		Of: func(r *Result) (float64, bool) { return positive(r.CPUPerEvent()) },
	}
	// CPUEach is the CPU per delivery, or per event where nobody is delivered
	// to.
	CPUEach = Measure{
		Name: "CPU each", Text: textNanos, Less: true,
		Of: func(r *Result) (float64, bool) {
			if r.Deliveries > 0 {
				return positive(r.CPUPerDelivery())
			}
			return positive(r.CPUPerEvent())
		},
	}
	P50  = latency("p50", func(q *Quantiles) time.Duration { return q.P50 })
	P90  = latency("p90", func(q *Quantiles) time.Duration { return q.P90 })
	P99  = latency("p99", func(q *Quantiles) time.Duration { return q.P99 })
	P999 = latency("p99.9", func(q *Quantiles) time.Duration { return q.P999 })
	Max  = latency("max", func(q *Quantiles) time.Duration { return q.Max })

	LastP99 = Measure{
		Name: "last consumer's p99", Text: textNanos, Less: true,
		Of: func(r *Result) (float64, bool) { return float64(r.LastLatency.P99), r.LastLatency.Count > 0 },
	}
	ProbeP99 = Measure{
		Name: "health check p99", Text: textNanos, Less: true,
		Of: func(r *Result) (float64, bool) {
			if r.Probe == nil || r.Probe.Count == 0 {
				return 0, false
			}
			return float64(r.Probe.P99), true
		},
	}
	AllocsPerDelivery = Measure{
		Name: "allocations per delivery", Text: textSmall, Less: true,
		Of: func(r *Result) (float64, bool) { return optional(r.AllocsPerDelivery) },
	}
	IdleBytesPerConn = Measure{
		Name: "memory per connection", Text: textBytes, Less: true,
		Of: func(r *Result) (float64, bool) { return optional(r.IdleBytesPerConn) },
	}
	PeakRSS = Measure{
		Name: "peak RSS", Text: textBytes, Less: true,
		Of: func(r *Result) (float64, bool) { return positive(float64(r.PeakRSSBytes)) },
	}
)

// latency returns the measure of one quantile of Result.Latency.
func latency(name string, of func(*Quantiles) time.Duration) Measure {
	return Measure{
		Name: name, Text: textNanos, Less: true,
		Of: func(r *Result) (float64, bool) { return float64(of(&r.Latency)), r.Latency.Count > 0 },
	}
}

// extra returns the measure of a number in Result.Extra.
func extra(name string) Measure {
	return Measure{Name: name, Text: textNumber, Of: func(r *Result) (float64, bool) {
		v, ok := r.Extra[name]
		return v, ok
	}}
}

func positive(v float64) (float64, bool) { return v, v > 0 }

func optional(p *float64) (float64, bool) {
	if p == nil {
		return 0, false
	}
	return *p, true
}

// Spread is a value over the rounds: Min <= Median <= Max, Rounds >= 1.
type Spread struct {
	Median, Min, Max float64
	Rounds           int
}

// spreadOf returns the spread of at least one value, which it sorts.
func spreadOf(values []float64) Spread {
	slices.Sort(values)
	n := len(values)
	median := values[n/2]
	if n%2 == 0 {
		median = (values[n/2-1] + values[n/2]) / 2
	}
	return Spread{Median: median, Min: values[0], Max: values[n-1], Rounds: n}
}

// overlaps reports whether two spreads share a value.
func (s Spread) overlaps(o Spread) bool { return s.Min <= o.Max && o.Min <= s.Max }

// Key names what was measured: a scenario against a target.
type Key struct{ Scenario, Target string }

// Median returns the median of a measure over the rounds of a scenario
// against a target, or ErrNotMeasured (B1, B3).
func Median(results []Result, scenario, target string, m Measure) (Spread, error) {
	key := Key{scenario, target}
	byRound, err := rounds(results, key, m)
	if err != nil {
		return Spread{}, err
	}
	values := make([]float64, 0, len(byRound))
	for _, v := range byRound {
		values = append(values, v)
	}
	return spreadOf(values), nil
}

// Ratio returns over/under: the median of the ratios of equal rounds, or
// ErrNotMeasured (B2, B3).
func Ratio(results []Result, over, under Key, m Measure) (Spread, error) {
	above, err := rounds(results, over, m)
	if err != nil {
		return Spread{}, err
	}
	below, err := rounds(results, under, m)
	if err != nil {
		return Spread{}, err
	}
	var values []float64
	for round, v := range above {
		if w, both := below[round]; both && w > 0 {
			values = append(values, v/w)
		}
	}
	if len(values) == 0 {
		return Spread{}, fmt.Errorf("%w: %s of %s and %s in no common round", ErrNotMeasured, m.Name, over, under)
	}
	return spreadOf(values), nil
}

// String returns the key as the errors name it.
func (k Key) String() string { return k.Target + " in " + k.Scenario }

// rounds returns the values of a measure by round; at least one, or
// ErrNotMeasured.
func rounds(results []Result, key Key, m Measure) (map[int]float64, error) {
	values := map[int]float64{}
	ran, why := false, ""
	for i := range results {
		r := &results[i]
		switch {
		case r.Scenario != key.Scenario || r.Target != key.Target:
		case r.Skipped:
			why = r.Note
		default:
			ran = true
			if v, ok := m.Of(r); ok {
				values[r.Round] = v
			}
		}
	}
	switch {
	case len(values) > 0:
		return values, nil
	case ran:
		return nil, fmt.Errorf("%w: no %s of %s", ErrNotMeasured, m.Name, key)
	case why != "":
		return nil, fmt.Errorf("%w: %s: %s", ErrNotMeasured, key, why)
	}
	return nil, fmt.Errorf("%w: %s did not run", ErrNotMeasured, key)
}
