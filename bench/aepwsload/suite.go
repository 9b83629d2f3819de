package aepwsload

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/bench/report"
)

// Options say how much is measured.
type Options struct {
	Rounds int // but for Fans
	Fans   []Fan
	Flood  Flood
	Beats  Beats
	Replay Replay
}

// Standard is what the binding's issue asked for; Quick is a smoke, whose figures
// do not count.
var (
	Standard = Options{
		Rounds: 3, Fans: []Fan{{1000, 7, 60, 20, 100, 100}, {10_000, 5, 25, 5, 40, 100}},
		Flood:  Flood{32, 64, 5 * time.Second},
		Beats:  Beats{10_000, 30 * time.Second, 3},
		Replay: Replay{100_000, 100, 200, 6 * time.Second},
	}
	Quick = Options{
		Rounds: 1, Fans: []Fan{{100, 1, 20, 3, 5, 5}},
		Flood:  Flood{4, 16, 300 * time.Millisecond},
		Beats:  Beats{100, time.Second, 2},
		Replay: Replay{2000, 5, 100, 300 * time.Millisecond},
	}
)

// WithRounds returns the options with so many rounds of everything.
func (o Options) WithRounds(n int) Options {
	o.Rounds, o.Fans = n, slices.Clone(o.Fans)
	for i := range o.Fans {
		o.Fans[i].Rounds = n
	}
	return o
}

// suite is one run. Owned by one goroutine.
type suite struct {
	p        Program
	o        Options
	progress io.Writer
	rows     []row
}

// row is one line of the report.
type row struct{ load, measure, value string }

// Run measures and writes a report in Markdown. progress gets a line a step.
func Run(ctx context.Context, p Program, o Options, out, progress io.Writer) error {
	s := &suite{p: p, o: o, progress: progress}
	for _, f := range o.Fans {
		if err := s.fanOut(ctx, f); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{s.floods, s.replays, s.beats} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.write(out)
}

func (s *suite) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.progress, format+"\n", args...)
}

func (s *suite) add(load, measure, format string, args ...any) {
	s.rows = append(s.rows, row{load, measure, fmt.Sprintf(format, args...)})
	s.say("%s: %s %s", load, measure, fmt.Sprintf(format, args...))
}

// median returns the middle of values; of an even number of them the upper one.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// spread writes the median of ratios, with the least and the greatest.
func spread(ratios []float64) string {
	if len(ratios) == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// write writes the report.
func (s *suite) write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# The aep-0.1 binding\n\n%s. Medians of %d rounds unless said otherwise, ratios of one round; client and relay share the\n"+
		"machine.\n\n| Load | Measure | Value |\n|---|---|---|\n", report.Describe(), s.o.Rounds)
	last := ""
	for _, r := range s.rows {
		name := r.load
		if name == last {
			name = ""
		}
		last = r.load
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, r.measure, r.value)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
