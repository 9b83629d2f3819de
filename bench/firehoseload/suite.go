package firehoseload

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-relay/sluice/bench/report"
)

// Options say how much is measured.
type Options struct {
	Rounds     int // but for Fans
	Fans       []Fan
	Healthy    int   // consumers that read beside those that stall
	Stalled    int   // consumers that stall
	BoundBytes int64 // FIREHOSE_REPLAY_BYTES beside them
	Upstream   int   // frames of another host
}

// Standard is what the stream's issue asked for; Quick is a smoke, whose figures
// do not count.
var (
	Standard = Options{
		Rounds: 3, Fans: []Fan{{1000, 15, 100, 20, true}, {10_000, 7, 40, 8, false}},
		Healthy: 100, Stalled: 1000, BoundBytes: 16 << 20, Upstream: 200_000,
	}
	Quick = Options{
		Rounds: 1, Fans: []Fan{{200, 2, 50, 5, true}},
		Healthy: 10, Stalled: 50, BoundBytes: 2 << 20, Upstream: 5000,
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
	sample   sample
	progress io.Writer
	rows     []row
}

// row is one line of the report.
type row struct{ load, measure, value string }

// Run measures and writes a report in Markdown. progress gets a line a step.
func Run(ctx context.Context, p Program, o Options, out, progress io.Writer) error {
	sample, err := newSample()
	if err != nil {
		return err
	}
	s := &suite{p: p, o: o, sample: sample, progress: progress}
	for _, f := range o.Fans {
		if err := s.fanOut(ctx, f); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{s.stalls, s.upstreams} {
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
	fmt.Fprintf(&b, "# The firehose\n\n%s. Medians of %d rounds unless said otherwise, ratios of one round; client, relay and source share the\n"+
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
