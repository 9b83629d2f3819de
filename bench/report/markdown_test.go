package report

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMarkdownGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := WriteMarkdown(&b, fixture(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.md", b.String())
}

func TestHeadlineGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := WriteHeadline(&b, fixture(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "headline.md", b.String())
}

func TestCompareGolden(t *testing.T) {
	t.Parallel()
	old, now := fixture(t), fixture(t)
	now.Revision, now.Machine.Cores = "v0.1.0-15-g1234567", 4
	change(Key{FanoutWS10kOne, TargetSluice}, scaleCPU(0.8))(now)
	change(Key{IngestNDJSON, TargetSluice}, scaleCPU(1.01))(now)
	without(Key{IdleSSE10k, TargetGobwas})(now)
	now.Results = append(now.Results, result("new-scenario", TargetSluice, 1, 1, 1, time.Millisecond))
	golden(t, "compare.md", Compare(old, now))
}

func TestCompareSameMachine(t *testing.T) {
	t.Parallel()
	r := newReport(result("s", "a", 1, 100, 1e6, time.Millisecond))
	got := Compare(r, r)
	if strings.Contains(got, "machines differ") || strings.Contains(got, "Only in") {
		t.Errorf("the same report differs:\n%s", got)
	}
	if want := "| s | a | 1 M to 1 M: 1.00x ~ | 100 ns to 100 ns: 1.00x ~ | 1 ms to 1 ms: 1.00x ~ |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestMarkdownTables: every row has as many cells as its head, whatever texts
// the report holds.
func TestMarkdownTables(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.Machine.CPU = "a | b\nc"
	r.Results[0].Title = "a\n\n| b |"
	r.Results = append(r.Results, result("other | x", "t | y`", 1, 1, 1, 1))
	var b strings.Builder
	if err := errors.Join(WriteMarkdown(&b, r), WriteHeadline(&b, r)); err != nil {
		t.Fatal(err)
	}
	b.WriteString(Compare(r, r))
	cells, rows := 0, 0
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells == 0 {
			cells = n
		}
		rows++
		if n != cells {
			t.Errorf("%d cells, the head has %d: %s", n-1, cells-1, line)
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows", rows)
	}
}

// TestFaultColumns: no column without a fault, and a loud one with any.
func TestFaultColumns(t *testing.T) {
	t.Parallel()
	f := func(name string, fault func(*Result), want ...string) {
		t.Helper()
		x := result(FanoutWS10kSat, TargetSluice, 1, 1, 1, 1)
		fault(&x)
		var b strings.Builder
		if err := WriteMarkdown(&b, newReport(x)); err != nil {
			t.Fatal(err)
		}
		tables := b.String()[strings.Index(b.String(), "## Fan-out"):]
		for _, column := range faultColumns {
			head := "**" + strings.ToUpper(column.name) + "**"
			wanted := false
			for _, w := range want {
				wanted = wanted || w == head
			}
			if strings.Contains(tables, head) != wanted {
				t.Errorf("%s: column %s, want it: %v\n%s", name, head, wanted, tables)
			}
		}
		if loud := strings.Contains(tables, "[!WARNING]"); loud != (x.Wrong() > 0) {
			t.Errorf("%s: warning is %v", name, loud)
		}
	}
	f("none", func(*Result) {})
	f("lost", func(r *Result) { r.Lost = 1 }, "**LOST**")
	f("repeated", func(r *Result) { r.Repeated = 1 }, "**REPEATED**")
	f("disordered", func(r *Result) { r.Disordered = 1 }, "**DISORDERED**")
	f("foreign", func(r *Result) { r.Foreign = 1 }, "**FOREIGN**")
	f("corrupt", func(r *Result) { r.Corrupt = 1 }, "**CORRUPT**")
	f("failed calls", func(r *Result) { r.FailedCalls = 1 }, "**FAILED CALLS**")
	f("connections", func(r *Result) { r.ConnsLost = 1 }, "**CONNECTIONS LOST**")
}

func TestMarkdownOfEmptyReport(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := WriteMarkdown(&b, newReport()); err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{"## Plots", "## Notes", "## Fan-out"} {
		if strings.Contains(b.String(), no) {
			t.Errorf("an empty report has %q", no)
		}
	}
	if want := "0 of 14 reached, 0 missed, 14 not measured"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

var errWrite = errors.New("no room")

// fullWriter takes nothing.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errWrite }

func TestMarkdownReportsWriter(t *testing.T) {
	t.Parallel()
	if err := WriteMarkdown(fullWriter{}, fixture(t)); !errors.Is(err, errWrite) {
		t.Errorf("got %v", err)
	}
	if err := WriteHeadline(fullWriter{}, fixture(t)); !errors.Is(err, errWrite) {
		t.Errorf("got %v", err)
	}
}
