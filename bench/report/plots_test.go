package report

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// texts returns what an SVG file writes, and fails unless it is valid XML.
func texts(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	within := ""
	for d := xml.NewDecoder(strings.NewReader(string(content))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			within = token.Name.Local
		case xml.EndElement:
			within = ""
		case xml.CharData:
			if within == "text" {
				out = append(out, string(token))
			}
		}
	}
}

func TestPlots(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	odd := result(FanoutWS10kOne, `a<b>&"c"`, 1, 9000, 1e5, time.Millisecond)
	r.Results = append(r.Results, odd)
	dir := t.TempDir()
	files, err := WritePlots(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{PlotLatency, PlotThroughput, PlotCPU, PlotMemory}
	if len(files) != len(want) {
		t.Fatalf("got %v, want %v", files, want)
	}
	f := func(plot string, wanted ...string) {
		t.Helper()
		file := filepath.Join(dir, plot)
		if !slices.Contains(files, file) {
			t.Fatalf("%s is not among %v", file, files)
		}
		got := texts(t, file)
		for _, text := range wanted {
			if !slices.Contains(got, text) {
				t.Errorf("%s has no %q: %q", plot, text, got)
			}
		}
	}
	f(PlotLatency, append(targetsOf(r, FanoutWS10kOne),
		"Latency, one event to 10,000 WebSocket consumers", "p50", "p90", "p99", "p99.9", "max",
		"percentile of deliveries", "time from the intended sending (log scale)", "100 ms", "1 s")...)
	f(PlotThroughput, append(targetsOf(r, FanoutWS10kSat),
		"1,000", "10,000", "19,000", "100 k", "1 M", "10 M", "deliveries per second (log scale)", "WebSocket consumers")...)
	f(PlotCPU, append(targetsOf(r, FanoutWS10kOne), "multiple of the write(2) floor", "1.06x", "4.44x", "5.00x")...)
	f(PlotMemory, append(targetsOf(r, IdleWS10k), "WebSocket", "SSE", "1.62 KB", "80 KB",
		"resident bytes per connection")...)
}

// TestPlotsWithoutData: what was not measured is not drawn, and the Markdown
// links what was.
func TestPlotsWithoutData(t *testing.T) {
	t.Parallel()
	f := func(name string, r *Report, want ...string) {
		t.Helper()
		dir := t.TempDir()
		files, err := WritePlots(dir, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var b strings.Builder
		if err := WriteMarkdown(&b, r); err != nil {
			t.Fatal(err)
		}
		for _, plot := range []string{PlotLatency, PlotThroughput, PlotCPU, PlotMemory} {
			drawn := slices.Contains(files, filepath.Join(dir, plot))
			linked := strings.Contains(b.String(), "]("+plot+")")
			if wanted := slices.Contains(want, plot); drawn != wanted || linked != wanted {
				t.Errorf("%s: %s: drawn %v, linked %v, want %v", name, plot, drawn, linked, wanted)
			}
		}
	}
	idle := Result{Scenario: IdleWS10k, Target: "a", Round: 1}
	f("empty", newReport())
	f("no floor", newReport(result(FanoutWS1kOne, "a", 1, 1, 1, 1)), PlotLatency)
	f("short suite", newReport(result(FanoutWS1kOne, TargetFloor, 1, 1, 1, 1)), PlotLatency, PlotCPU)
	f("one size", newReport(result(FanoutWS1kSat, "a", 1, 1, 1, 1)), PlotThroughput)
	f("idle without a number", newReport(idle))
	idle.IdleBytesPerConn = pointer(900)
	f("idle", newReport(idle), PlotMemory)
}

func TestPlotsReportDirectory(t *testing.T) {
	t.Parallel()
	if _, err := WritePlots(filepath.Join(t.TempDir(), "absent"), fixture(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for longest := 0.013; longest < 1e9; longest *= 1.07 {
		step, count := ticks(longest)
		reach := step * float64(count)
		if reach < longest*(1-1e-9) || reach-step >= longest || count < 3 || count > 7 {
			t.Errorf("%v: %d steps of %v", longest, count, step)
		}
		digit := step / math.Pow(10, math.Floor(math.Log10(step)+1e-9))
		if !slices.ContainsFunc([]float64{1, 2, 5}, func(d float64) bool { return math.Abs(d-digit) < 1e-6 }) {
			t.Errorf("%v: step %v is not round", longest, step)
		}
	}
	if step, count := ticks(0); step != 1 || count != 1 {
		t.Errorf("of nothing: %d steps of %v", count, step)
	}
}
