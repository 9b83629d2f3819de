package scenario

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/bench/report"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// asServer makes the test binary a server that ends with the exit code that the
// variable holds.
const asServer = "SCENARIO_TEST_AS_SERVER"

func TestMain(m *testing.M) {
	testrelay.Main()
	as := os.Getenv(asServer)
	if as == "" {
		os.Exit(m.Run())
	}
	var code int
	_, _ = fmt.Sscan(as, &code)
	fmt.Fprintln(os.Stderr, "for this reason")
	os.Exit(code)
}

// testOptions has the test binary run as a server, with a variable for it.
func testOptions(t *testing.T, as string) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(as, "=")
	t.Setenv(name, value)
	return Options{Relay: self}
}

// small scenarios of every kind, with what each of their loads delivers.
func miniatures() (suite []Scenario, deliveries map[string]int64) {
	one := Load{Name: "one", SizeBytes: usual, Events: 20, Warmup: 2, Window: 1}
	with := func(name string) []Load {
		l := one
		l.Name = name
		return []Load{l}
	}
	suite = []Scenario{
		{Name: "ws", Consumers: 20, Loads: []Load{
			one,
			{Name: "sat", SizeBytes: small, Events: 64, Warmup: 32, Window: 32, Batch: 32},
			{Name: "paced", SizeBytes: large, Events: 20, Rate: 200},
		}},
		{Name: "sse", Kind: load.SSE, Consumers: 20, Loads: with("sse")},
		{Name: "filters", Consumers: 20, Filters: 10, Loads: with("filters")},
		{Name: "filters-sse", Kind: load.SSE, Consumers: 20, Filters: 10, Loads: with("filters-sse")},
		{Name: "ceilings", Consumers: 20, Split: ByCeiling, Loads: with("ceilings")},
		{Name: "ceilings-sse", Kind: load.SSE, Consumers: 20, Split: ByCeiling, Loads: with("ceilings-sse")},
		{Name: "stalled", Consumers: 20, Stalled: 3, Loads: append([]Load{{SizeBytes: usual, Events: 100, Window: 10}}, with("stalled")...)},
		{Name: "herd", Kind: load.SSE, Consumers: 20, Herd: true, Loads: []Load{{Name: "herd", Kind: Herd, SizeBytes: usual, Events: 100}}},
		{Name: "ingest", Loads: []Load{{Name: "ingest", Kind: Ingest, SizeBytes: usual, Events: 1000, Warmup: 100, Lines: 100, Conns: 2}}},
		{Name: "idle", Consumers: 20, Settle: time.Millisecond, Loads: []Load{{Name: "idle", Kind: Idle}}},
	}
	for i := range suite {
		suite[i].Targets, suite[i].Rounds = []string{sluice}, 1
	}
	suite[1].Absent = map[string]string{"nobody": "there is none"}
	return suite, map[string]int64{
		"one": 400, "sat": 1280, "paced": 400, "sse": 400, "filters": 40, "filters-sse": 40, "ceilings": 400,
		"ceilings-sse": 400, "stalled": 400, "herd": 20 * 80, "ingest": 0, "idle": 0,
	}
}

// Each kind of scenario delivers to the relay's consumers exactly what it says.
func TestMiniatures(t *testing.T) {
	suite, want := miniatures()
	results, err := run(t.Context(), testOptions(t, testrelay.Environ()), suite)
	if err != nil {
		t.Fatal(err)
	}
	absent := 0
	for i := range results {
		r := &results[i]
		if r.Target == "nobody" {
			if absent++; !r.Skipped || r.Note != "there is none" || r.Scenario != "sse" {
				t.Errorf("who is absent: %+v", r)
			}
			continue
		}
		n, known := want[r.Scenario]
		if !known || r.Deliveries != n || r.Wrong() != 0 || r.Skipped || r.ConnsLost != 0 {
			t.Errorf("%s: %+v, want %d deliveries", r.Scenario, r, n)
		}
		delete(want, r.Scenario)
		if r.Scenario != "idle" && (r.ServerCPU <= 0 || r.Wall <= 0 || r.Latency.Max <= 0) {
			t.Errorf("%s: CPU %v, wall %v, latency %+v", r.Scenario, r.ServerCPU, r.Wall, r.Latency)
		}
		if r.Scenario == "one" && (r.AllocsPerDelivery == nil || r.Extra["deliveries_per_write"] != 1) {
			t.Errorf("one event in flight: %v, %v", r.AllocsPerDelivery, r.Extra)
		}
		if (r.Scenario == "herd") != (r.Probe != nil) {
			t.Errorf("%s: probe %+v", r.Scenario, r.Probe)
		}
	}
	if absent != 1 {
		t.Errorf("%d results of who is absent", absent)
	}
	if len(want) > 0 {
		t.Errorf("no result of %v", want)
	}
}

// Who watches sees each load of the relay once, and it goes on for that time.
func TestDuring(t *testing.T) {
	o := testOptions(t, testrelay.Environ())
	var mu sync.Mutex
	var seen []string
	o.Length = 2 * time.Second // more than 20 events take by themselves
	o.During = func(load, admin string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, load)
		if !strings.HasPrefix(admin, "127.0.0.1:") {
			t.Errorf("admin listener at %q", admin)
		}
	}
	suite := []Scenario{{
		Name: "ws", Consumers: 5, Targets: []string{sluice}, Rounds: 1,
		Loads: []Load{{SizeBytes: usual, Events: 5, Window: 1}, {Name: "one", SizeBytes: usual, Events: 20, Window: 1}},
	}}
	results, err := run(t.Context(), o, suite)
	if err != nil || len(seen) != 1 || seen[0] != "one" {
		t.Fatalf("seen %v, %v", seen, err)
	}
	if len(results) != 2 || results[1].Events <= results[0].Events {
		t.Errorf("the watched load is no longer: %+v", results)
	}
}

// A server that fails is told of, and the others go on; that it is the relay
// makes the run fail.
func TestFailures(t *testing.T) {
	f := func(exit string, target string, failed bool, note string) {
		t.Helper()
		o := testOptions(t, asServer+"="+exit)
		o.Rivals = o.Relay
		suite := []Scenario{
			{Name: "a", Consumers: 2, Targets: []string{target}, Rounds: 2, Loads: []Load{{Name: "a", SizeBytes: usual, Events: 1}}},
		}
		results, err := run(t.Context(), o, suite)
		if errors.Is(err, ErrFailed) != failed || !failed && err != nil {
			t.Errorf("exit %s of %s: %v", exit, target, err)
		}
		if len(results) == 0 {
			t.Fatalf("exit %s of %s: no result", exit, target)
		}
		for _, r := range results {
			if !r.Skipped || !strings.Contains(r.Note, note) || r.Deliveries != 0 {
				t.Errorf("exit %s of %s: %+v, want a note of %q", exit, target, r, note)
			}
		}
	}
	f("1", floor, false, "ended: for this reason")
	f("3", floor, false, ErrUnavailable.Error()+": for this reason")
	f("1", report.TargetSluice, true, "for this reason")

	if _, err := run(t.Context(), Options{Relay: "/nonexistent"}, Suite()); err == nil || errors.Is(err, ErrFailed) {
		t.Errorf("no relay: %v", err)
	}
}
