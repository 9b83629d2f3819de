package report

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// allReached returns a report in which every goal is reached, in two rounds.
func allReached() *Report {
	r := newReport()
	for round := 1; round <= 2; round++ {
		add := func(scenario, target string, cpu, rate float64, p99 time.Duration) *Result {
			r.Results = append(r.Results, result(scenario, target, round, cpu, rate, p99))
			return &r.Results[len(r.Results)-1]
		}
		for _, s := range fanOutScenarios {
			x := add(s, TargetSluice, 7000, 2e6, 10*time.Millisecond)
			x.AllocsPerDelivery = pointer(0.001)
			if s == Paced1k {
				x.Rate, x.Wall = 300, 3367*time.Millisecond // 297,000 deliveries/s
			}
		}
		for _, s := range []string{FanoutWS1kOne, FanoutWS10kOne, FanoutWS19kOne} {
			add(s, TargetFloor, 6900, 1e5, 10*time.Millisecond)
			add(s, TargetSluiceUring, 4500, 1e5, 10*time.Millisecond)
		}
		add(FanoutWS10kSat, TargetFloorCat, 500, 2.05e6, 10*time.Millisecond)
		add(Paced1k, TargetFloorCat, 500, 3e5, 6*time.Millisecond)
		for _, rival := range fanOutRivals {
			add(FanoutWS10kSat, rival, 9000, 1.5e5, 10*time.Millisecond)
			add(IngestNDJSON, rival, 6000, 1e5, time.Millisecond).Deliveries = 0
		}
		add(IngestNDJSON, TargetSluice, 2500, 3e5, time.Millisecond).Deliveries = 0
		add(Filters10, TargetSluice, 9000, 1e4, time.Millisecond)
		add(Filters10k, TargetSluice, 10000, 1e4, time.Millisecond)
		add(StalledNone, TargetSluice, 9000, 1e4, 10*time.Millisecond)
		add(Stalled20, TargetSluice, 9000, 1e4, 14*time.Millisecond)
		add(Behind5kRoom, TargetSluice, 7000, 1e4, 10*time.Millisecond)
		add(Behind5k, TargetSluice, 10000, 1e4, 10*time.Millisecond)
		for _, s := range []string{IdleWS10k, IdleSSE10k} {
			x := Result{Scenario: s, Target: TargetSluice, Round: round, IdleBytesPerConn: pointer(1400)}
			r.Results = append(r.Results, x)
		}
	}
	return r
}

// change applies f to all rounds of a key.
func change(key Key, f func(*Result)) func(*Report) {
	return func(r *Report) {
		for i := range r.Results {
			if x := &r.Results[i]; x.Scenario == key.Scenario && x.Target == key.Target {
				f(x)
			}
		}
	}
}

// without removes all rounds of a key.
func without(key Key) func(*Report) {
	return func(r *Report) {
		r.Results = slices.DeleteFunc(r.Results, func(x Result) bool {
			return x.Scenario == key.Scenario && x.Target == key.Target
		})
	}
}

// scaleCPU multiplies the server's CPU time.
func scaleCPU(by float64) func(*Result) {
	return func(r *Result) { r.ServerCPU = time.Duration(float64(r.ServerCPU) * by) }
}

// goalCases has, in the order of Goals, a change that misses the goal and the
// keys that it cannot do without.
var goalCases = []struct {
	name   string // start of Goal.Name, and a word of Goal.Measure
	word   string
	miss   func(*Report)
	missed string // the verdict then
	needs  []Key
}{
	{
		"one event in flight", "write(2) floor", change(Key{FanoutWS19kOne, TargetSluice}, scaleCPU(1.2)), "missed by 10.7 %",
		[]Key{{FanoutWS1kOne, TargetSluice}, {FanoutWS10kOne, TargetFloor}, {FanoutWS19kOne, TargetFloor}},
	},
	{
		"one event in flight", "io_uring", change(Key{FanoutWS1kOne, TargetSluiceUring}, scaleCPU(1.5)), "missed by 30.5 %",
		[]Key{{FanoutWS1kOne, TargetSluiceUring}, {FanoutWS19kOne, TargetFloor}},
	},
	{
		"32 in flight, 10k", "coalesced floor",
		change(Key{FanoutWS10kSat, TargetSluice}, func(r *Result) { r.Wall = r.Wall * 5 / 4 }), "missed by 17.9 %",
		[]Key{{FanoutWS10kSat, TargetSluice}, {FanoutWS10kSat, TargetFloorCat}},
	},
	{
		"300k deliveries/s offered", "achieved",
		change(Key{Paced1k, TargetSluice}, func(r *Result) { r.Wall = r.Wall * 11 / 10 }), "missed by 8.2 %",
		[]Key{{Paced1k, TargetSluice}},
	},
	{
		"300k deliveries/s offered", "p99",
		change(Key{Paced1k, TargetSluice}, func(r *Result) { r.Latency.P99 = 15 * time.Millisecond }), "missed by 25.0 %",
		[]Key{{Paced1k, TargetSluice}, {Paced1k, TargetFloorCat}},
	},
	{
		"any fan-out", "allocations",
		change(Key{Filters100x100, TargetSluice}, func(r *Result) { r.AllocsPerDelivery = pointer(0.0101) }), "missed by 1.0 %",
		[]Key{{CeilingsMixed, TargetSluice}, {FanoutSSE1kOne, TargetSluice}},
	},
	{
		"10,000 own-session filters against 10", "CPU per event", change(Key{Filters10, TargetSluice}, scaleCPU(0.5)), "missed by 71.0 %",
		[]Key{{Filters10k, TargetSluice}, {Filters10, TargetSluice}},
	},
	{
		"10,000 own-session filters", "CPU per event", change(Key{Filters10k, TargetSluice}, scaleCPU(2.5)), "missed by 25.0 %",
		[]Key{{Filters10k, TargetSluice}},
	},
	{
		"fan-out saturating, 10k", "rival",
		change(Key{FanoutWS10kSat, TargetGWS}, func(r *Result) { r.Wall /= 2 }), "missed by 33.4 %",
		[]Key{
			{FanoutWS10kSat, TargetGobwas},
			{FanoutWS10kSat, TargetGWS},
			{FanoutWS10kSat, TargetCentrifuge},
			{FanoutWS10kSat, TargetSluice},
		},
	},
	{
		"idle WebSocket or SSE", "memory",
		change(Key{IdleSSE10k, TargetSluice}, func(r *Result) { r.IdleBytesPerConn = pointer(1501) }), "missed by 0.1 %",
		[]Key{{IdleWS10k, TargetSluice}, {IdleSSE10k, TargetSluice}},
	},
	{
		"NDJSON ingest", "all in", change(Key{IngestNDJSON, TargetSluice}, scaleCPU(2)), "missed by 66.7 %",
		[]Key{{IngestNDJSON, TargetSluice}},
	},
	{
		"NDJSON ingest", "best", change(Key{IngestNDJSON, TargetGobwas}, scaleCPU(0.5)), "missed by 66.7 %",
		[]Key{{IngestNDJSON, TargetCentrifuge}, {IngestNDJSON, TargetGobwas}},
	},
	{
		"20 stalled among 200", "p99",
		change(Key{StalledNone, TargetSluice}, func(r *Result) { r.Latency.P99 /= 2 }), "missed by 86.7 %",
		[]Key{{StalledNone, TargetSluice}, {Stalled20, TargetSluice}},
	},
	{
		"all readers slightly behind", "CPU per delivery", change(Key{Behind5k, TargetSluice}, scaleCPU(2)), "missed by 90.5 %",
		[]Key{{Behind5k, TargetSluice}, {Behind5kRoom, TargetSluice}},
	},
}

func TestGoals(t *testing.T) {
	t.Parallel()
	if len(goalCases) != len(Goals()) {
		t.Fatalf("%d cases for %d goals", len(goalCases), len(Goals()))
	}
	for i, v := range Judge(allReached()) {
		if v.Outcome != Reached || v.Text != "reached" || v.Reading.Text == "" || len(v.Reading.Missing) > 0 {
			t.Errorf("goal %d, %s: want reached: %q %q", i, v.Goal.Measure, v.Text, v.Reading.Spread)
		}
	}
	for i, c := range goalCases {
		goal := Goals()[i]
		if !strings.HasPrefix(goal.Name, c.name) || !strings.Contains(goal.Measure, c.word) {
			t.Fatalf("case %d is for %q %q, the goal is %q %q", i, c.name, c.word, goal.Name, goal.Measure)
		}
		r := allReached()
		c.miss(r)
		if v := goal.Judge(r); v.Outcome != Missed || v.Text != c.missed || v.By <= 0 {
			t.Errorf("goal %d, %s: got %q (%s), want %q", i, goal.Measure, v.Text, v.Reading.Spread, c.missed)
		}
		for _, key := range c.needs {
			r := allReached()
			without(key)(r)
			v := goal.Judge(r)
			if v.Outcome != NotMeasured || !strings.HasPrefix(v.Text, "not measured: "+key.String()) {
				t.Errorf("goal %d, %s without %v: got %q", i, goal.Measure, key, v.Text)
			}
		}
	}
}

// TestGoalOfEmptyReport: B3.
func TestGoalOfEmptyReport(t *testing.T) {
	t.Parallel()
	for i, v := range Judge(newReport()) {
		if v.Outcome != NotMeasured || !math.IsNaN(v.Reading.Value) || !strings.HasPrefix(v.Text, "not measured: ") {
			t.Errorf("goal %d: %+v", i, v)
		}
	}
}

// TestGoalWithFaults: B4. A relay that is fast because it loses events has
// reached nothing.
func TestGoalWithFaults(t *testing.T) {
	t.Parallel()
	f := func(name string, key Key, fault func(*Result), goal int, outcome Outcome, text string) {
		t.Helper()
		r := allReached()
		change(key, fault)(r)
		if v := Goals()[goal].Judge(r); v.Outcome != outcome || v.Text != text {
			t.Errorf("%s: got %q, want %q", name, v.Text, text)
		}
	}
	key := Key{FanoutWS10kSat, TargetSluice}
	f("lost", key, func(r *Result) { r.Lost = 1000 }, 2, Missed, "missed: 2,000 lost in "+FanoutWS10kSat)
	f("all kinds", key, func(r *Result) {
		r.Repeated, r.Disordered, r.Foreign, r.Corrupt, r.FailedCalls = 1, 2, 3, 4, 5
	}, 2, Missed, "missed: 2 repeated, 4 disordered, 6 foreign, 8 corrupt, 10 failed calls in "+FanoutWS10kSat)
	f("both sides are the relay's", Key{Filters10, TargetSluice}, func(r *Result) { r.Lost = 1 }, 6, Missed,
		"missed: 2 lost in "+Filters10)
	f("a rival's are its own", Key{FanoutWS10kSat, TargetGWS}, func(r *Result) { r.Lost = 1 }, 8, Reached, "reached")
	f("a stalled consumer may be cut", Key{Stalled20, TargetSluice}, func(r *Result) { r.ConnsLost = 20 }, 12, Reached, "reached")
}

// TestGoalPartlyMeasured: B3 and B5.
func TestGoalPartlyMeasured(t *testing.T) {
	t.Parallel()
	r := allReached()
	without(Key{FanoutWS1kOne, TargetFloor})(r)
	without(Key{FanoutWS10kOne, TargetFloor})(r)
	v := Goals()[0].Judge(r)
	want := "not measured: floor in fanout-ws-1k-one did not run (and 1 more)"
	if v.Text != want || v.Reading.Text != "19k 1.01x" {
		t.Errorf("got %q %q, want %q", v.Text, v.Reading.Text, want)
	}
	change(Key{FanoutWS19kOne, TargetSluice}, scaleCPU(2))(r)
	if v := Goals()[0].Judge(r); v.Outcome != Missed || v.Text != "missed by 84.5 %; "+want {
		t.Errorf("a miss of one value is a miss: got %q", v.Text)
	}
}

// TestGoalLimit: a value at the limit has reached it.
func TestGoalLimit(t *testing.T) {
	t.Parallel()
	f := func(g Goal, value float64, want Outcome, text string) {
		t.Helper()
		g.Value = func(*Report) Reading { return Reading{Value: value} }
		if v := g.Judge(newReport()); v.Outcome != want || v.Text != text {
			t.Errorf("%v of %+v: got %q", value, g.Limit, v.Text)
		}
	}
	less, more := Goal{Limit: 1.1, Less: true}, Goal{Limit: 10}
	f(less, 1.1, Reached, "reached")
	f(less, 0, Reached, "reached")
	f(less, 1.1001, Missed, "missed by 0.1 %")
	f(less, 2.2, Missed, "missed by 100.0 %")
	f(less, math.Inf(1), Missed, "missed by +Inf %")
	f(less, math.NaN(), NotMeasured, "not measured")
	f(more, 10, Reached, "reached")
	f(more, 9.9999999, Missed, "missed by 0.1 %")
	f(more, 0, Missed, "missed by 100.0 %")
}

func TestScenariosAreDistinct(t *testing.T) {
	t.Parallel()
	names := Scenarios()
	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) || len(names) != 28 {
		t.Errorf("%d scenarios, want 28 distinct ones: %v", len(names), names)
	}
	for _, g := range Goals() {
		for _, key := range g.Keys {
			if !slices.Contains(names, key.Scenario) {
				t.Errorf("goal %q rests on %q, which no group has", g.Name, key.Scenario)
			}
		}
	}
}
