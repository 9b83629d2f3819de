package report

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixture returns the report in testdata, which belongs to the caller.
func fixture(t testing.TB) *Report {
	t.Helper()
	r, err := ReadFile(filepath.Join("testdata", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", name, got)
	}
}

// result returns a result whose rate, CPU per delivery and per event, and
// latencies are the given numbers of nanoseconds or per second.
func result(scenario, target string, round int, cpu, rate float64, p99 time.Duration) Result {
	const n = 1_000_000
	return Result{
		Scenario: scenario, Target: target, Round: round, Title: "a scenario", Consumers: 1000, SizeBytes: 600,
		Events: n, Deliveries: n,
		Wall:      time.Duration(n / rate * 1e9),
		ServerCPU: time.Duration(n * cpu),
		Latency:   Quantiles{Count: n, P50: p99 / 3, P90: p99 / 2, P99: p99, P999: 2 * p99, Max: 4 * p99},
	}
}

// pointer returns a pointer to v.
func pointer(v float64) *float64 { return &v }

// newReport returns a report of the results.
func newReport(results ...Result) *Report {
	return &Report{
		Format: Format, Suite: SuiteFull, Revision: "r1",
		Started: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), Took: time.Minute,
		Machine: Machine{CPU: "cpu", Cores: 2, GoVersion: "go1"}, Results: results,
	}
}
