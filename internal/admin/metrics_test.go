package admin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var update = flag.Bool("update", false, "rewrite the golden text from what is served")

// ownMetrics is all that a full snapshot gives, without runtime and build.
var ownMetrics = filepath.Join("testdata", "metrics.txt")

// The whole page is read by the official parser, which compares the golden
// text, and passes the official linter.
func TestMetricsGolden(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	if *update {
		if err := os.WriteFile(ownMetrics, []byte(stable(f.get("/metrics").body)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(ownMetrics)
	if err != nil {
		t.Fatal(err)
	}
	names := namesIn(string(want))
	if n := len(names); n < 45 {
		t.Fatalf("the golden text has only %d metrics", n)
	}
	err = testutil.ScrapeAndCompare("http://"+f.server.Addr()+"/metrics", strings.NewReader(string(want)), names...)
	if err != nil {
		t.Error(err)
	}
}

// stable returns what of an exposition is the same in each run.
func stable(text string) string {
	var b strings.Builder
	keep := false
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); fields[0] == "#" {
			keep = strings.HasPrefix(fields[2], "sluice_") &&
				fields[2] != "sluice_build_info" && fields[2] != "sluice_admin_connections"
		}
		if keep {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestMetricsLint(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	problems, err := promlint.New(strings.NewReader(f.get("/metrics").body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Each metric that a scrape gives is in the golden text, and has its line in
// the operations page.
func TestMetricsAreWrittenDown(t *testing.T) {
	golden, err := os.ReadFile(ownMetrics)
	if err != nil {
		t.Fatal(err)
	}
	known := append(namesIn(string(golden)), "sluice_build_info", "sluice_admin_connections")
	f := serveSource(t, &fakeSource{}, timing{})
	var served []string
	for _, name := range namesIn(f.get("/metrics").body) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		served = append(served, name)
		if !slices.Contains(known, name) {
			t.Errorf("%s is served and not in %s", name, ownMetrics)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("docs/operations.md does not exist")
	}
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, name := range metricName.FindAllString(string(page), -1) {
		documented = append(documented, seriesSuffix.ReplaceAllString(name, ""))
	}
	for _, name := range served {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/operations.md does not tell of %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(served, name) {
			t.Errorf("docs/operations.md tells of %s, which does not exist", name)
		}
	}
}

var (
	metricName   = regexp.MustCompile(`\bsluice_[a-z0-9_]+`)
	seriesSuffix = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// namesIn returns the metrics of an exposition.
func namesIn(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "TYPE" {
			names = append(names, fields[2])
		}
	}
	return names
}

// An idle relay's snapshot is the zero value.
func TestMetricsOfNothing(t *testing.T) {
	empty := func(context.Context) (*Snapshot, error) { return &Snapshot{}, nil }
	f := serveSource(t, &fakeSource{take: empty}, timing{})
	got := f.get("/metrics")
	for _, want := range []string{
		"\nsluice_deliveries_total 0\n", "\nsluice_consumer_unsent_bytes_count 0\n",
		"\nsluice_ready 1\n", "\nsluice_admin_connections 1\n",
		"\nprocess_open_fds ", "\ngo_goroutines ", `version="v1.2.3"`,
	} {
		if got.status != http.StatusOK || !strings.Contains(got.body, want) {
			t.Errorf("status %d, no %q in\n%s", got.status, want, got.body)
		}
	}
	if strings.Contains(got.body, "sluice_sync_") {
		t.Error("metrics of a surface that is off")
	}
	if media := got.header.Get("Content-Type"); !strings.HasPrefix(media, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type %q", media)
	}
}

// One snapshot a scrape: the loops do the work of each.
func TestMetricsTakeOneSnapshot(t *testing.T) {
	source := &fakeSource{}
	f := serveSource(t, source, timing{})
	for i := int64(1); i <= 3; i++ {
		f.get("/metrics")
		if n := source.calls.Load(); n != i {
			t.Fatalf("%d snapshots for %d scrapes", n, i)
		}
	}
}

func TestMetricsReady(t *testing.T) {
	f := serveSource(t, &fakeSource{ready: func() error { return errors.New("draining") }}, timing{})
	if got := f.get("/metrics"); !strings.Contains(got.body, "\nsluice_ready 0\n") {
		t.Errorf("no sluice_ready 0 in\n%s", got.body)
	}
}

// A scrape fails as a whole, and the next good one tells how many did.
func TestMetricsScrapeError(t *testing.T) {
	malformed := func(change func(*Snapshot)) func() (*Snapshot, error) {
		return func() (*Snapshot, error) {
			s := fullSnapshot()
			change(s)
			return s, nil
		}
	}
	f := func(name string, take func() (*Snapshot, error), wantStatus int, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			source := &fakeSource{}
			source.take = func(context.Context) (*Snapshot, error) {
				if source.calls.Load() <= 2 {
					return take()
				}
				return fullSnapshot(), nil
			}
			f := serveSource(t, source, timing{})
			for range 2 {
				got := f.get("/metrics")
				if got.status != wantStatus || !strings.Contains(got.body, want) || strings.Contains(got.body, "go_goroutines") {
					t.Errorf("got %d %q, want %d and %q", got.status, got.body, wantStatus, want)
				}
			}
			if got := f.get("/metrics"); !strings.Contains(got.body, `sluice_admin_failures_total{page="metrics"} 2`) {
				t.Errorf("failures are not counted:\n%s", got.body)
			}
			if n := strings.Count(f.log.String(), "admin page failed"); n != 1 {
				t.Errorf("%d log lines for two failures a moment apart, want 1", n)
			}
		})
	}
	f("error", func() (*Snapshot, error) { return nil, errors.New("loop 1 is stuck") }, 503, "loop 1 is stuck")
	f("nothing", func() (*Snapshot, error) { return nil, nil }, 503, errNoSnapshot.Error())
	f("histogram without its last count", malformed(func(s *Snapshot) {
		s.Unsent.Counts = s.Unsent.Counts[1:]
	}), 500, ErrBounds.Error())
	f("bounds that descend", malformed(func(s *Snapshot) {
		s.Loops[0].PassSeconds.Bounds = []float64{2, 1}
	}), 500, ErrBounds.Error())
	f("two loops of one name", malformed(func(s *Snapshot) { s.Loops[1].ID = 0 }), 500, "was collected before")
}

// AD3: what is no fixed name makes no series, however much of it there is.
func TestReasonsAreBounded(t *testing.T) {
	f := func(name string, in, want map[string]int64) {
		t.Helper()
		if got := boundReasons(in); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	f("none", nil, map[string]int64{})
	f("names", map[string]int64{"cap": 1, "per_address": 2, "shutting-down": 0}, map[string]int64{"cap": 1, "per_address": 2, "shutting-down": 0})
	f("no names", map[string]int64{
		"": 1, "Cap": 1, "a b": 1, "192.0.2.1": 1, "/events?access_token=x": 1, "é": 1, "\xff": 1, strings.Repeat("a", 41): 1,
	}, map[string]int64{"other": 8})
	f("other among them", map[string]int64{"other": 2, "A": 1}, map[string]int64{"other": 3})

	many := map[string]int64{}
	for i := range 1000 {
		many[fmt.Sprintf("r%03d", i)] = 1
	}
	got := boundReasons(many)
	if len(got) != maxReasons || got["other"] != 1000-(maxReasons-1) {
		t.Errorf("1000 names: %d kept, other %d", len(got), got["other"])
	}
}
