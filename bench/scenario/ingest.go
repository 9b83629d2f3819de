package scenario

import (
	"context"
	"fmt"

	"github.com/sluice-relay/sluice/bench/load"
)

// ingestSessions is how many sessions the posted events belong to.
const ingestSessions = 10

// ingest posts events of which each is new. Unlike with a fan-out, the kernel
// and the socket are a small part of what it costs.
func (r *runner) ingest(ctx context.Context, l Load) error {
	shape, err := newShape(l.SizeBytes, ingestSessions)
	if err != nil {
		return err
	}
	first := r.events
	r.events += l.Warmup + l.Events
	m := r.meter(l)
	out, err := load.Ingest(ctx, load.IngestLoad{
		Addr: r.server.addr, Conns: l.Conns, Requests: (l.Warmup + l.Events) / l.Lines, Warmup: l.Warmup / l.Lines,
		Body: func(dst []byte, request int) []byte {
			return shape.appendRequest(dst, first+request*l.Lines, l.Lines)
		},
		OnMeasure: m.mark, Timeout: loadPatience,
	})
	m.end()
	switch {
	case err != nil:
		return err
	case m.err != nil:
		return m.err
	}
	res := r.result(l)
	m.fill(&res)
	res.Events, res.Wall, res.ClientCPU = int64(l.Events), out.Wall, out.ClientCPU
	res.Latency, res.FailedCalls = quantiles(out.Latency), out.Failed
	r.results = append(r.results, res)
	return nil
}

// appendRequest appends one POST of the events [first, first+n).
func (s *shape) appendRequest(dst []byte, first, n int) []byte {
	kind := "application/x-ndjson"
	if n == 1 {
		kind = "application/json"
	}
	dst = fmt.Appendf(dst, "POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAEP-Version: 0.1\r\nContent-Type: %s\r\n"+
		"Content-Length: %d\r\n\r\n", kind, n*(len(s.text)+1))
	for i := range n {
		dst = append(s.appendText(dst, first+i), '\n')
	}
	return dst
}
