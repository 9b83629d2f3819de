package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/bench/report"
)

// ceilings are what consumers ask for in a scenario split by ceiling.
var ceilings = []string{"none", "metadata", "redacted", "full"}

// sessions is how many sessions the events of the scenario belong to.
func (s *Scenario) sessions() int { return max(s.Filters, 1) }

// classes returns the consumers of the scenario.
func (r *runner) classes() []load.Class {
	s := &r.step.s
	var classes []load.Class
	add := func(name string, n int, a ask, stalled bool) {
		a.kind = s.Kind
		c := load.Class{Name: name, Count: n, Kind: s.Kind, RecvBytes: s.RecvBytes, Stalled: stalled}
		if stalled {
			c.RecvBytes = 4 << 10
		}
		r.t.consumer(&c, a)
		classes = append(classes, c)
	}
	switch {
	case s.Filters > 0:
		for i := range s.Filters {
			a := ask{session: fmt.Sprintf("s%05d", i)}
			add(a.session, s.Consumers/s.Filters, a, false)
		}
	case s.Split == ByCeiling:
		for _, c := range ceilings {
			add(c, s.Consumers/len(ceilings), ask{capture: c}, false)
		}
	default:
		add("all", s.Consumers, ask{}, false)
	}
	if s.Stalled > 0 {
		add("stalled", s.Stalled, ask{}, true)
	}
	return classes
}

// owners returns which classes get an event, nil when all do.
func (s *Scenario) owners() func(event int) []int {
	if s.Filters == 0 {
		return nil
	}
	one := make([]int, 1)
	return func(event int) []int {
		one[0] = event % s.Filters
		return one
	}
}

// fanOut publishes the events of one load and counts their deliveries.
func (r *runner) fanOut(ctx context.Context, l Load) error {
	s := &r.step.s
	shape, err := newShape(l.SizeBytes, s.sessions())
	if err != nil {
		return err
	}
	first := r.events
	r.events += l.Warmup + l.Events
	m := r.meter(l)
	out, err := r.client.Run(ctx, load.Load{
		Publisher: r.t.publisher(shape, s.Filters > 0),
		First:     first, Events: l.Warmup + l.Events, Warmup: l.Warmup,
		Window: l.Window, Batch: l.Batch, Rate: l.Rate,
		Owners: s.owners(), OnMeasure: m.mark, Timeout: loadPatience,
	})
	m.end()
	if err != nil {
		return err
	}
	if m.err != nil {
		return m.err
	}
	if l.Name == "" {
		return nil
	}
	res := r.result(l)
	fill(&res, out)
	m.fill(&res)
	r.results = append(r.results, res)
	return nil
}

// fill takes over what the client saw.
func fill(res *report.Result, out load.Outcome) {
	res.Events, res.Deliveries = out.Events, out.Deliveries
	res.Lost, res.Repeated, res.Disordered = out.Lost, out.Repeated, out.Disordered
	res.Foreign, res.Corrupt, res.ConnsLost = out.Foreign, out.Corrupt, out.ConnsLost
	res.Wall, res.ClientCPU = out.Wall, out.ClientCPU
	res.Latency, res.LastLatency = quantiles(out.Latency), quantiles(out.LastLatency)
}

func quantiles(h *load.Histogram) report.Quantiles {
	return report.Quantiles{
		Count: h.Count(), P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99),
		P999: h.Quantile(0.999), Max: h.Max(),
	}
}

// meter reads the server's gauges at the edges of what is measured. mark is
// called on the client's thread.
type meter struct {
	s      *server
	during func()
	wait   sync.WaitGroup

	cpu  time.Duration
	peak int64
	err  error

	asks          bool // the server is the relay, which tells more
	before, after gauges
	asking        float64 // allocations that one question costs
}

func (r *runner) meter(l Load) *meter {
	m := &meter{s: r.server, asks: r.step.target == report.TargetSluice && l.Kind == FanOut}
	if l.watched {
		m.during = func() { r.o.During(l.Name, r.server.admin) }
	}
	return m
}

// mark is load.Load.OnMeasure. The relay is asked outside of the time whose CPU
// counts.
func (m *meter) mark(begin bool) {
	if begin {
		first := m.ask()
		m.before = m.ask()
		m.asking = m.before.mallocs - first.mallocs
		if m.during != nil {
			m.wait.Go(m.during)
		}
		m.cpu = -m.clock()
		return
	}
	m.cpu += m.clock()
	m.after = m.ask()
	m.peak, _ = load.RSSBytes(m.s.pid())
}

func (m *meter) clock() time.Duration {
	v, err := load.CPUTime(m.s.pid())
	m.err = errors.Join(m.err, err)
	return v
}

func (m *meter) ask() gauges {
	if !m.asks {
		return gauges{}
	}
	g, err := m.s.gauges()
	m.err = errors.Join(m.err, err)
	return g
}

// end waits for whoever watches the load.
func (m *meter) end() { m.wait.Wait() }

// fill takes over what was read, for as many deliveries as res has.
func (m *meter) fill(res *report.Result) {
	res.ServerCPU, res.PeakRSSBytes = m.cpu, m.peak
	if !m.asks || res.Deliveries == 0 {
		return
	}
	// Asking does not always cost the same: what is less than nothing is none.
	allocs := max(m.after.mallocs-m.before.mallocs-m.asking, 0) / float64(res.Deliveries)
	res.AllocsPerDelivery = &allocs
	writes := m.after.writes - m.before.writes
	res.Extra = map[string]float64{"deliveries_per_write": float64(res.Deliveries) / max(writes, 1)}
	if short := m.after.short - m.before.short; short > 0 {
		res.Extra["short_writes_percent"] = 100 * short / max(writes, 1)
	}
}

// summary is one line for people who wait.
func (r *runner) summary(err error) string {
	if err != nil {
		return err.Error()
	}
	text := ""
	for i := range r.results {
		res := &r.results[i]
		if text != "" {
			text += "; "
		}
		switch {
		case res.Deliveries > 0:
			text += fmt.Sprintf("%.2f M/s, %.2f us each", res.PerSecond()/1e6, res.CPUPerDelivery()/1e3)
			if short := res.Extra["short_writes_percent"]; short >= 1 {
				text += fmt.Sprintf(", %.0f %% short", short)
			}
		case res.Events > 0:
			text += fmt.Sprintf("%.2f us an event", res.CPUPerEvent()/1e3)
		case res.IdleBytesPerConn != nil:
			text += fmt.Sprintf("%.0f bytes each", *res.IdleBytesPerConn)
		}
		if n := res.Wrong(); n > 0 {
			text += fmt.Sprintf(" (%d WRONG)", n)
		}
	}
	return text
}
