package report

import (
	"math"
	"strings"
)

// Goals returns all goals, in the order of the report.
func Goals() []Goal {
	return []Goal{
		newGoal("one event in flight, 1k/10k/19k", "server CPU per delivery against the write(2) floor",
			"at most 1.10x", atMost(1.10), textRatio, oneAgainstFloor(TargetSluice)),
		newGoal("one event in flight, 1k/10k/19k", "the same, writing by io_uring where it exists",
			"at most 0.75x", atMost(0.75), textRatio, oneAgainstFloor(TargetSluiceUring)),
		newGoal("32 in flight, 10k", "deliveries/s against the coalesced floor",
			"at least 0.95x", atLeast(0.95), textRatio, []part{
				against("", Key{FanoutWS10kSat, TargetSluice}, Key{FanoutWS10kSat, TargetFloorCat}, DeliveriesPerSecond),
			}),
		newGoal("300k deliveries/s offered, 1k", "achieved",
			"at least 98 %", atLeast(0.98), textPercent, []part{median("", Key{Paced1k, TargetSluice}, Achieved)}),
		newGoal("300k deliveries/s offered, 1k", "p99 against the coalesced floor's",
			"at most 2x", atMost(2), textRatio, []part{
				against("", Key{Paced1k, TargetSluice}, Key{Paced1k, TargetFloorCat}, P99),
			}),
		allocations(),
		newGoal("10,000 own-session filters against 10", "CPU per event delivered once",
			"at most 1.3x", atMost(1.3), textRatio, []part{
				against("", Key{Filters10k, TargetSluice}, Key{Filters10, TargetSluice}, CPUPerEvent),
			}),
		newGoal("10,000 own-session filters", "CPU per event delivered once",
			"at most 20 us", atMost(20e3), textNanos, []part{median("", Key{Filters10k, TargetSluice}, CPUPerEvent)}),
		newGoal("fan-out saturating, 10k", "deliveries/s against each goroutine-per-connection rival",
			"at least 10x", atLeast(10), textRatio, againstRivals(fanOutRivals, FanoutWS10kSat, DeliveriesPerSecond)),
		newGoal("idle WebSocket or SSE, 10k", "relay memory (RSS) per connection",
			"at most 1.5 KB", atMost(1500), textBytes, []part{
				median("WebSocket", Key{IdleWS10k, TargetSluice}, IdleBytesPerConn),
				median("SSE", Key{IdleSSE10k, TargetSluice}, IdleBytesPerConn),
			}),
		newGoal("NDJSON ingest, 100 x 600 B", "CPU per event, all in",
			"at most 3 us", atMost(3e3), textNanos, []part{median("", Key{IngestNDJSON, TargetSluice}, CPUPerEvent)}),
		newGoal("NDJSON ingest, 100 x 600 B", "CPU per event against each rival, so the best",
			"at most 0.5x", atMost(0.5), textRatio, againstRivals(ingestRivals, IngestNDJSON, CPUPerEvent)),
		newGoal("20 stalled among 200", "healthy p99 against none stalled",
			"at most 1.5x", atMost(1.5), textRatio, []part{
				against("", Key{Stalled20, TargetSluice}, Key{StalledNone, TargetSluice}, P99),
			}),
		newGoal("all readers slightly behind, 5k", "server CPU per delivery against room in the buffers",
			"at most 1.5x", atMost(1.5), textRatio, []part{
				against("", Key{Behind5k, TargetSluice}, Key{Behind5kRoom, TargetSluice}, CPUPerDelivery),
			}),
	}
}

// oneAgainstFloor has the CPU per delivery against the floor's with one event
// in flight.
func oneAgainstFloor(target string) []part {
	var parts []part
	for _, s := range []struct{ label, scenario string }{
		{"1k", FanoutWS1kOne}, {"10k", FanoutWS10kOne}, {"19k", FanoutWS19kOne},
	} {
		parts = append(parts, against(s.label, Key{s.scenario, target}, Key{s.scenario, TargetFloor}, CPUPerDelivery))
	}
	return parts
}

// againstRivals has the relay against each rival in one scenario.
func againstRivals(rivals []string, scenario string, m Measure) []part {
	var parts []part
	for _, rival := range rivals {
		parts = append(parts, against(rival, Key{scenario, TargetSluice}, Key{scenario, rival}, m))
	}
	return parts
}

// allocations is the goal about all fan-outs; of its many values only the
// worst is shown.
func allocations() Goal {
	var parts []part
	for _, scenario := range fanOutScenarios {
		parts = append(parts, median(scenario, Key{scenario, TargetSluice}, AllocsPerDelivery))
	}
	g := newGoal("any fan-out", "allocations per delivery", "at most 0.01", atMost(0.01), textSmall, parts)
	all := g.Value
	g.Value = func(r *Report) Reading {
		reading := all(r)
		for _, p := range parts {
			if s, err := p.spread(r); err == nil && s.Median == reading.Value {
				reading.Text = "worst " + textSmall(s.Median) + " in " + p.label
				reading.Spread = "worst " + textSpread(s, textSmall) + " in " + p.label
				break
			}
		}
		return reading
	}
	return g
}

// part is one of the values that a goal rests on.
type part struct {
	label  string
	keys   []Key // the relay's
	spread func(*Report) (Spread, error)
}

// median is the value of one target alone.
func median(label string, key Key, m Measure) part {
	return part{label: label, keys: []Key{key}, spread: func(r *Report) (Spread, error) {
		return Median(r.Results, key.Scenario, key.Target, m)
	}}
}

// against is the ratio of the relay's value to another, which may be one of
// the relay's as well.
func against(label string, over, under Key, m Measure) part {
	keys := []Key{over}
	if under.Target == over.Target {
		keys = append(keys, under)
	}
	return part{label: label, keys: keys, spread: func(r *Report) (Spread, error) {
		return Ratio(r.Results, over, under, m)
	}}
}

// bound is a limit with its direction.
type bound struct {
	limit float64
	less  bool
}

func atMost(limit float64) bound  { return bound{limit, true} }
func atLeast(limit float64) bound { return bound{limit, false} }

// newGoal returns a goal that rests on all the parts; the worst decides (B5).
func newGoal(name, measure, reach string, b bound, text func(float64) string, parts []part) Goal {
	g := Goal{Name: name, Measure: measure, Reach: reach, Limit: b.limit, Less: b.less}
	for _, p := range parts {
		g.Keys = append(g.Keys, p.keys...)
	}
	g.Value = func(r *Report) Reading {
		out := Reading{Value: math.NaN()}
		var texts, spreads []string
		for _, p := range parts {
			s, err := p.spread(r)
			if err != nil {
				out.Missing = append(out.Missing, err)
				continue
			}
			if math.IsNaN(out.Value) || b.less == (s.Median > out.Value) {
				out.Value = s.Median
			}
			texts = append(texts, strings.TrimSpace(p.label+" "+text(s.Median)))
			spreads = append(spreads, strings.TrimSpace(p.label+" "+textSpread(s, text)))
		}
		out.Text, out.Spread = strings.Join(texts, ", "), strings.Join(spreads, ", ")
		return out
	}
	return g
}
