package syncload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/bench/report"
)

// Options say how much is measured.
type Options struct {
	Rounds  int
	Push    time.Duration // of one load of pushes
	Events  int           // that are pulled
	Chunks  int           // that are stored and read
	Devices int           // that wait
	Probe   time.Duration // of one look at the AEP relay
}

// Standard is what the issue of the sync relay asked for; Quick is a smoke, whose
// figures do not count.
var (
	Standard = Options{Rounds: 3, Push: 8 * time.Second, Events: 100_000, Chunks: 1000, Devices: 10_000, Probe: 8 * time.Second}
	Quick    = Options{Rounds: 1, Push: time.Second, Events: 5_000, Chunks: 50, Devices: 200, Probe: 2 * time.Second}
)

// suite is one run. Owned by one goroutine.
type suite struct {
	p        Program
	o        Options
	progress io.Writer
	rows     []row
	probes   map[string][]Latency
}

// row is one line of the report.
type row struct{ load, measure, value string }

// Run measures and writes a report in Markdown. progress gets a line a step.
func Run(ctx context.Context, p Program, o Options, out, progress io.Writer) error {
	s := &suite{p: p, o: o, progress: progress, probes: map[string][]Latency{}}
	for _, step := range []func(context.Context) error{s.pushes, s.reads, s.waits, s.devices, s.neighbours} {
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

// with runs f on a fresh relay.
func (s *suite) with(group int, f func(*relay) error) error {
	r, err := s.p.start(group)
	if err != nil {
		return err
	}
	return errors.Join(f(r), r.stop())
}

const milli = float64(time.Millisecond)

// pushes compares group commit with a transaction for each push, in turns: of
// batches, whose rows cost more than their commit, and of single events.
func (s *suite) pushes(ctx context.Context) error {
	return errors.Join(s.pushesOf(ctx, batch), s.pushesOf(ctx, 1))
}

func (s *suite) pushesOf(ctx context.Context, batch int) error {
	var grouped, alone, ratios, p99, alone99, size []float64
	for round := range s.o.Rounds {
		for _, group := range []int{0, 1} {
			err := s.with(group, func(r *relay) error {
				perSecond, h, err := push(ctx, r.addr, "push", batch, s.o.Push)
				if err != nil {
					return err
				}
				s.say("round %d, group %d: %.0f events/s", round+1, group, perSecond)
				if group == 1 {
					alone = append(alone, perSecond)
					alone99 = append(alone99, float64(h.Quantile(0.99))/milli)
					return nil
				}
				grouped = append(grouped, perSecond)
				p99 = append(p99, float64(h.Quantile(0.99))/milli)
				commits, err := r.Metric("sluice_sync_commits_total")
				if err != nil {
					return err
				}
				requests, err := r.Metric("sluice_sync_commit_requests_total")
				size = append(size, requests/commits)
				return err
			})
			if err != nil {
				return err
			}
		}
		ratios = append(ratios, grouped[round]/alone[round])
	}
	name := fmt.Sprintf("64 owners, %d events of 1 KB a push", batch)
	s.add(name, "events/s, group commit, `FULL`", "%.0f", median(grouped))
	s.add(name, "events/s, a transaction a push, `FULL`", "%.0f", median(alone))
	s.add(name, "ratio of one round", "%.2f", median(ratios))
	s.add(name, "p99 of a push, group commit / a transaction each", "%.0f ms / %.0f ms", median(p99), median(alone99))
	s.add(name, "pushes in one commit", "%.1f", median(size))
	return nil
}

// reads measures pulls and chunks.
func (s *suite) reads(ctx context.Context) error {
	var events, mib, p99, put, get []float64
	for round := range s.o.Rounds {
		err := s.with(0, func(r *relay) error {
			if err := fill(ctx, r.addr, "puller", s.o.Events); err != nil {
				return err
			}
			began := time.Now()
			n, size, h, err := pull(ctx, r.addr, "puller")
			took := time.Since(began).Seconds()
			if err == nil && n != s.o.Events {
				err = fmt.Errorf("%w: %d events of %d", errStatus, n, s.o.Events)
			}
			if err != nil {
				return err
			}
			events, mib = append(events, float64(n)/took), append(mib, float64(size)/took/(1<<20))
			p99 = append(p99, float64(h.Quantile(0.99))/milli)
			up, err := blobs(ctx, r.addr, s.o.Chunks, fmt.Sprint(round), false)
			if err != nil {
				return err
			}
			down, err := blobs(ctx, r.addr, s.o.Chunks, fmt.Sprint(round), true)
			put, get = append(put, up), append(get, down)
			return err
		})
		if err != nil {
			return err
		}
	}
	name := fmt.Sprintf("pull of %d events in pages of 1,000", s.o.Events)
	s.add(name, "events/s; MiB/s", "%.0f; %.0f", median(events), median(mib))
	s.add(name, "p99 of a page", "%.1f ms", median(p99))
	name = fmt.Sprintf("%d chunks of 256 KiB over 8 connections", s.o.Chunks)
	s.add(name, "stored a second; MiB/s", "%.0f; %.0f", median(put), median(put)/4)
	s.add(name, "read a second; MiB/s", "%.0f; %.0f", median(get), median(get)/4)
	return nil
}

// waits measures devices that wait.
func (s *suite) waits(ctx context.Context) error {
	var memory, p50, p99, last []float64
	for range s.o.Rounds {
		err := s.with(0, func(r *relay) error {
			w, err := wait(ctx, r, s.o.Devices)
			memory = append(memory, w.memoryBytes)
			p50 = append(p50, float64(w.wake.Quantile(0.5))/milli)
			p99 = append(p99, float64(w.wake.Quantile(0.99))/milli)
			last = append(last, float64(w.wake.Max())/milli)
			return err
		})
		if err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%d devices wait, 64 pushes wake them all", s.o.Devices)
	s.add(name, "resident memory of one that waits, beside its connection's", "%.0f B", median(memory))
	s.add(name, "woken after: median, p99, last", "%.0f ms, %.0f ms, %.0f ms", median(p50), median(p99), median(last))
	return nil
}

// probe looks at the AEP relay from a process of its own.
func (s *suite) probe(ctx context.Context, name string, r *relay) error {
	args := s.p.Probe(r.addr, s.o.Probe)
	cmd := exec.CommandContext(ctx, s.p.Path, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("syncload: prober: %w: %s", err, errs.String())
	}
	var l Latency
	if err := json.Unmarshal(out, &l); err != nil {
		return err
	}
	s.probes[name] = append(s.probes[name], l)
	return nil
}

// neighbours measures the AEP relay alone and beside each load of the sync
// relay.
func (s *suite) neighbours(ctx context.Context) error {
	loads := []struct {
		name string
		run  func(ctx context.Context, r *relay) error
	}{
		{"nothing", func(ctx context.Context, _ *relay) error { <-ctx.Done(); return nil }},
		{"paced pushes, 20 a second", paced},
		{"pushes of 64 owners", func(ctx context.Context, r *relay) error {
			_, _, err := push(ctx, r.addr, "neighbour", batch, time.Hour)
			return err
		}},
		{"pulls", func(ctx context.Context, r *relay) error {
			for ctx.Err() == nil {
				if _, _, _, err := pull(ctx, r.addr, "puller"); err != nil {
					return err
				}
			}
			return nil
		}},
		{"uploads of chunks", func(ctx context.Context, r *relay) error {
			for n := 0; ctx.Err() == nil; n++ {
				if _, err := blobs(ctx, r.addr, 200, fmt.Sprint("neighbour ", n), false); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	for round := range s.o.Rounds {
		err := s.with(0, func(r *relay) error {
			if err := fill(ctx, r.addr, "puller", s.o.Events/10); err != nil {
				return err
			}
			for i := range loads { // each round begins with another one
				l := loads[(i+round)%len(loads)]
				loadCtx, cancel := context.WithCancel(ctx)
				done := make(chan error, 1)
				go func() { done <- l.run(loadCtx, r) }()
				err := s.probe(ctx, l.name, r)
				cancel()
				if loadErr := <-done; loadErr != nil && !errors.Is(loadErr, context.Canceled) {
					return errors.Join(err, loadErr)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, l := range loads {
		var p50, p99, ratio []float64
		for i, got := range s.probes[l.name] {
			p50, p99 = append(p50, float64(got.P50)/milli), append(p99, float64(got.P99)/milli)
			ratio = append(ratio, float64(got.P99)/float64(s.probes["nothing"][i].P99))
		}
		s.add("AEP subscriber, 200 events/s, beside "+l.name, "latency p50, p99; p99 against nothing beside it",
			"%.2f ms, %.2f ms; %.2f", median(p50), median(p99), median(ratio))
	}
	return nil
}

// paced pushes a batch of 100 events 20 times a second: what a busy relay gets,
// not what it can take.
func paced(ctx context.Context, r *relay) error {
	return each(ctx, r.addr, 1, func(int) string { return "paced" }, func(_ int, d *device) error {
		var body, buf []byte
		tick := time.NewTicker(time.Second / 20)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			body = pushBody(body[:0], d.owner, n*batch, batch, eventBytes)
			var err error
			if buf, err = d.do("POST", "/v1/events", body, buf); err != nil {
				return err
			}
		}
	})
}

// write writes the report.
func (s *suite) write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# The sync relay\n\n%s. Medians of %d rounds, ratios of one round; client, prober and relay share the\n"+
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
