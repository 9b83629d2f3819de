package report

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Goal is one promise of the project about its speed, as a number that a
// report either holds or does not. Immutable.
type Goal struct {
	Name    string // the scenario in words
	Measure string // what is measured, in words
	Reach   string // what it must reach, in words
	Limit   float64
	Less    bool // the value may be at most Limit; else at least
	// Value reads the report.
	Value func(*Report) Reading
	// Keys are what the relay had to do for it, all of it without a fault (B4).
	Keys []Key
}

// Reading is what a report says about a goal.
type Reading struct {
	// Value is the worst of what was measured; NaN if nothing was.
	Value float64
	// Text shows all values, Spread the same with their ranges.
	Text, Spread string
	// Missing has an ErrNotMeasured for each value that the goal asks for and
	// the report does not hold.
	Missing []error
}

// Outcome is how a goal came out.
type Outcome int

// Outcomes.
const (
	NotMeasured Outcome = iota
	Reached
	Missed
)

// Verdict is a goal held against a report.
type Verdict struct {
	Goal    Goal
	Reading Reading
	Outcome Outcome
	// By is how far a missed goal is from its limit, as a part of the limit;
	// 0 if events were lost or the like.
	By float64
	// Text says the outcome with the reason.
	Text string
}

// Judge holds all goals against the report, in the order of [Goals].
func Judge(r *Report) []Verdict {
	goals := Goals()
	verdicts := make([]Verdict, len(goals))
	for i, g := range goals {
		verdicts[i] = g.Judge(r)
	}
	return verdicts
}

// Judge holds the goal against the report (B3 to B5). What was measured may
// miss a goal although something is missing; it never reaches it.
func (g Goal) Judge(r *Report) Verdict {
	v := Verdict{Goal: g, Reading: g.Value(r)}
	by := g.by(v.Reading.Value)
	switch wrong := faults(r, g.Keys); {
	case wrong != "":
		v.Outcome, v.Text = Missed, "missed: "+wrong
	case by > 0:
		v.Outcome, v.By, v.Text = Missed, by, "missed by "+textMiss(by)
		if len(v.Reading.Missing) > 0 {
			v.Text += "; " + textMissing(v.Reading.Missing)
		}
	case len(v.Reading.Missing) > 0:
		v.Text = textMissing(v.Reading.Missing)
	case math.IsNaN(v.Reading.Value):
		v.Text = ErrNotMeasured.Error()
	default:
		v.Outcome, v.Text = Reached, "reached"
	}
	return v
}

// by returns how far the value is beyond the limit, as a part of it; not
// above 0 if it is within, or not a number.
func (g Goal) by(value float64) float64 {
	if g.Less {
		return value/g.Limit - 1
	}
	return 1 - value/g.Limit
}

// faults says what went wrong in the results of the keys, "" if nothing.
func faults(r *Report, keys []Key) string {
	for _, key := range keys {
		var sum Result
		for i := range r.Results {
			if x := &r.Results[i]; x.Scenario == key.Scenario && x.Target == key.Target {
				sum.addFaults(x)
			}
		}
		if sum.Wrong() > 0 {
			return sum.faultText() + " in " + key.Scenario
		}
	}
	return ""
}

// addFaults adds what went wrong in another result.
func (r *Result) addFaults(o *Result) {
	r.Lost += o.Lost
	r.Repeated += o.Repeated
	r.Disordered += o.Disordered
	r.Foreign += o.Foreign
	r.Corrupt += o.Corrupt
	r.FailedCalls += o.FailedCalls
	r.ConnsLost += o.ConnsLost
}

// faultText names what went wrong.
func (r *Result) faultText() string {
	var parts []string
	for _, f := range faultColumns {
		if n := *f.of(r); n > 0 && f.wrong {
			parts = append(parts, thousands(n)+" "+f.name)
		}
	}
	return strings.Join(parts, ", ")
}

// faultColumn is one kind of fault. wrong means that Wrong counts it.
type faultColumn struct {
	name  string
	wrong bool
	of    func(*Result) *int64
}

// faultColumns has all kinds. Shared, immutable.
var faultColumns = []faultColumn{
	{"lost", true, func(r *Result) *int64 { return &r.Lost }},
	{"repeated", true, func(r *Result) *int64 { return &r.Repeated }},
	{"disordered", true, func(r *Result) *int64 { return &r.Disordered }},
	{"foreign", true, func(r *Result) *int64 { return &r.Foreign }},
	{"corrupt", true, func(r *Result) *int64 { return &r.Corrupt }},
	{"failed calls", true, func(r *Result) *int64 { return &r.FailedCalls }},
	{"connections lost", false, func(r *Result) *int64 { return &r.ConnsLost }},
}

// textMiss shows a part of one as percent, rounded up to a tenth, so that a
// miss is never shown as none.
func textMiss(by float64) string {
	// What is less than a millionth is an error of the arithmetic.
	tenths := max(math.Ceil(1000*by-1e-6), 1)
	return fmt.Sprintf("%.1f %%", tenths/10)
}

// textMissing shows the first reason and the number of the others.
func textMissing(missing []error) string {
	text := missing[0].Error()
	if !errors.Is(missing[0], ErrNotMeasured) {
		text = ErrNotMeasured.Error() + ": " + text
	}
	if more := len(missing) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}
