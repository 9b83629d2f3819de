package report

import (
	"cmp"
	"slices"
)

// Names of targets.
const (
	TargetSluice        = "sluice"         // the relay, writing by write(2)
	TargetSluiceUring   = "sluice-uring"   // the relay, writing by io_uring
	TargetFloor         = "floor"          // a loop of write(2), one an event
	TargetFloorCat      = "floorcat"       // the same, queued events in one write
	TargetFloorUring    = "floor-uring"    // as floor, by io_uring
	TargetFloorCatUring = "floorcat-uring" // as floorcat, by io_uring
	TargetGobwas        = "gobwas"         // goroutine per connection, gobwas/ws
	TargetGWS           = "gws"            // goroutine per connection, lxzan/gws
	TargetCentrifuge    = "centrifuge"     // goroutine per connection, the centrifuge library
	// The same, what is published within 100 ms joined into one write.
	TargetCentrifugeJoined = "centrifuge-joined"
)

// targetOrder is the order of rows, legends and colours. Shared, immutable.
var targetOrder = []string{
	TargetSluice, TargetSluiceUring, TargetFloor, TargetFloorCat, TargetFloorUring, TargetFloorCatUring,
	TargetGobwas, TargetGWS, TargetCentrifuge, TargetCentrifugeJoined,
}

// Rivals that have a goroutine for each connection: those that ingest is
// compared with, and those of a saturating fan-out, where the centrifuge
// library is set to its own best. Shared, immutable.
var (
	ingestRivals = []string{TargetGobwas, TargetGWS, TargetCentrifuge}
	fanOutRivals = []string{TargetGobwas, TargetGWS, TargetCentrifuge, TargetCentrifugeJoined}
)

// Names of scenarios. "One" has one event in flight, "Sat" saturates in
// batches of 32. Events have 600 bytes unless the name says otherwise.
const (
	FanoutWS1kOne   = "fanout-ws-1k-one"
	FanoutWS5kOne   = "fanout-ws-5k-one"
	FanoutWS10kOne  = "fanout-ws-10k-one"
	FanoutWS19kOne  = "fanout-ws-19k-one"
	FanoutSSE1kOne  = "fanout-sse-1k-one"
	FanoutSSE10kOne = "fanout-sse-10k-one"

	FanoutWS1kSat   = "fanout-ws-1k-sat"
	FanoutWS5kSat   = "fanout-ws-5k-sat"
	FanoutWS10kSat  = "fanout-ws-10k-sat"
	FanoutWS19kSat  = "fanout-ws-19k-sat"
	FanoutSSE10kSat = "fanout-sse-10k-sat"

	SizeSmall10kSat = "size-small-10k-sat" // 200 B
	SizeLarge1kSat  = "size-large-1k-sat"  // 16 KiB

	Paced1k = "paced-1k" // 300,000 deliveries/s offered
	Light1k = "light-1k" // 10 events/s

	Filters10k     = "filters-10k"     // 10,000 consumers, a session each
	Filters10      = "filters-10"      // 10 consumers, a session each
	Filters100x100 = "filters-100x100" // 100 filters with 100 consumers each
	CeilingsMixed  = "ceilings-mixed"

	StalledNone  = "stalled-none"   // 200 healthy consumers
	Stalled20    = "stalled-20"     // the same beside 20 stalled ones
	Behind5k     = "behind-5k"      // small receive buffers: writes are short
	Behind5kRoom = "behind-5k-room" // the same load, room in the buffers

	Herd5k = "herd-5k" // 5,000 reconnect at once with their positions

	IngestNDJSON = "ingest-ndjson" // batches of 100 events
	IngestSingle = "ingest-single" // an event a request

	IdleWS10k  = "idle-ws-10k"
	IdleSSE10k = "idle-sse-10k"
)

// group is a set of scenarios that share a table. Immutable.
type group struct {
	title     string
	about     string
	scenarios []string // in the order of their rows
	floor     string   // the target that others are compared with, "" = none
	perEvent  bool     // rate and CPU per event tell something
}

// groups has every scenario once. Shared, immutable.
var groups = []group{
	{
		title:     "Fan-out, one event in flight",
		about:     "The next event is sent when the last consumer has the one before. The floor is a loop of write(2).",
		scenarios: []string{FanoutWS1kOne, FanoutWS5kOne, FanoutWS10kOne, FanoutWS19kOne, FanoutSSE1kOne, FanoutSSE10kOne},
		floor:     TargetFloor,
	},
	{
		title:     "Fan-out, saturating in batches of 32",
		about:     "The floor is a loop of write(2) that joins the events it finds queued.",
		scenarios: []string{FanoutWS1kSat, FanoutWS5kSat, FanoutWS10kSat, FanoutWS19kSat, FanoutSSE10kSat},
		floor:     TargetFloorCat,
	},
	{
		title:     "Small and large events",
		scenarios: []string{SizeSmall10kSat, SizeLarge1kSat},
		floor:     TargetFloorCat,
	},
	{
		title:     "Paced and light load",
		about:     "Sent by a schedule; latency counts from the intended time.",
		scenarios: []string{Paced1k, Light1k},
		floor:     TargetFloorCat,
	},
	{
		title:     "Filters and ceilings",
		scenarios: []string{Filters10, Filters10k, Filters100x100, CeilingsMixed},
		perEvent:  true,
	},
	{
		title:     "Stalled and slow readers",
		about:     "Latency is that of the healthy consumers.",
		scenarios: []string{StalledNone, Stalled20, Behind5kRoom, Behind5k},
	},
	{
		title:     "Reconnecting herd",
		scenarios: []string{Herd5k},
	},
	{
		title:     "Ingest",
		about:     "Nobody listens; latency is that of a request's answer.",
		scenarios: []string{IngestNDJSON, IngestSingle},
		perEvent:  true,
	},
	{
		title:     "Idle connections",
		scenarios: []string{IdleWS10k, IdleSSE10k},
	},
}

// fanOutScenarios are those in which one event goes to many consumers that
// keep up. Shared, immutable.
var fanOutScenarios = slices.Concat(
	groups[0].scenarios, groups[1].scenarios, groups[2].scenarios, groups[3].scenarios,
	[]string{Filters100x100, CeilingsMixed},
)

// Scenarios returns the names of all scenarios in the order of the report.
func Scenarios() []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.scenarios...)
	}
	return names
}

// targetRank returns a target's place in targetOrder; all others share the
// last.
func targetRank(target string) int {
	if i := slices.Index(targetOrder, target); i >= 0 {
		return i
	}
	return len(targetOrder)
}

// compareTargets orders targets as the report shows them.
func compareTargets(a, b string) int {
	return cmp.Or(cmp.Compare(targetRank(a), targetRank(b)), cmp.Compare(a, b))
}

// targetsOf returns the targets that ran the scenario, in order. An empty
// name stands for any scenario.
func targetsOf(r *Report, scenario string) []string {
	var targets []string
	for i := range r.Results {
		if x := &r.Results[i]; !x.Skipped && (scenario == "" || x.Scenario == scenario) {
			targets = append(targets, x.Target)
		}
	}
	slices.SortFunc(targets, compareTargets)
	return slices.Compact(targets)
}

// groupsOf returns the groups that the report has results for; scenarios of
// no group come in one of their own, last.
func groupsOf(r *Report) []group {
	seen := map[string]bool{}
	var order []string // as they ran
	for i := range r.Results {
		if name := r.Results[i].Scenario; !seen[name] {
			seen[name] = true
			order = append(order, name)
		}
	}
	var out []group
	for _, g := range groups {
		g.scenarios = slices.DeleteFunc(slices.Clone(g.scenarios), func(s string) bool { return !seen[s] })
		for _, s := range g.scenarios {
			delete(seen, s)
		}
		if len(g.scenarios) > 0 {
			out = append(out, g)
		}
	}
	other := group{title: "Other scenarios", perEvent: true}
	for _, name := range order {
		if seen[name] {
			other.scenarios = append(other.scenarios, name)
		}
	}
	if len(other.scenarios) > 0 {
		out = append(out, other)
	}
	return out
}
