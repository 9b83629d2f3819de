package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

const (
	// herdSeen is how many of the events the herd has seen before.
	herdSeen = 20
	// probeEvery is how often somebody asks for the relay's health meanwhile.
	probeEvery = 20 * time.Millisecond
)

// herd publishes the load's events, opens all consumers at once with the
// position of the last event that they have seen, and waits until all have the
// rest. What it takes is told from the first connect on.
func (r *runner) herd(ctx context.Context) error {
	s, l := &r.step.s, r.step.s.Loads[0]
	shape, err := newShape(l.SizeBytes, 1)
	if err != nil {
		return err
	}
	if _, err := load.Ingest(ctx, load.IngestLoad{
		Addr: r.server.addr, Conns: 1, Requests: 1, Timeout: loadPatience,
		Body: func(dst []byte, _ int) []byte { return shape.appendRequest(dst, 0, l.Events) },
	}); err != nil {
		return err
	}
	c := load.Class{Name: "herd", Count: s.Consumers, Kind: s.Kind, First: herdSeen}
	r.t.consumer(&c, ask{
		kind: s.Kind, session: relaySession, after: fmt.Sprintf("%s:0:%d", relaySession, firstSeq+herdSeen-1),
	})

	m := r.meter(l)
	m.asks = false
	prober := load.StartProber(r.server.addr, "/healthz", probeEvery, connectPatience)
	m.mark(true)
	began := time.Now()
	_, out, err := r.client.Herd(ctx, []load.Class{c}, load.Load{Published: l.Events, Timeout: loadPatience})
	took := time.Since(began)
	m.mark(false)
	health := prober.Stop()
	m.end()
	if err != nil {
		return err
	}
	res := r.result(l)
	res.IdleBytesPerConn = nil
	fill(&res, out)
	m.fill(&res)
	res.Wall = took
	q := quantiles(health.Latency)
	res.FailedCalls = health.Failed
	res.Probe = &q
	r.results = append(r.results, res)
	return nil
}
