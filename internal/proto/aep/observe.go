package aep

import (
	"sync/atomic"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
)

// Reasons for which the relay ends a consumer: a fixed set, so that they can be
// labels.
const (
	cutHard     = "hard-limit"  // owes more than the hard limit (R422)
	cutOverrun  = "log-overrun" // the log has moved past it (R423)
	cutStalled  = "stalled"     // took nothing for 90 s (R424)
	cutPanic    = "internal-error"
	cutSilent   = "silent"         // nothing heard for 90 s (R331)
	cutNoHello  = "hello-required" // no hello, or something else first (R306, R308)
	cutVersion  = "version-unsupported"
	cutBinary   = "binary-unsupported"
	cutBigHello = "hello-too-large"
	cutOverload = "overload" // no memory for its input (R46)
	cutShutdown = "shutdown"
)

var cutReasons = [...]string{
	cutHard, cutOverrun, cutStalled, cutPanic, cutSilent, cutNoHello, cutVersion, cutBinary, cutBigHello, cutOverload,
	cutShutdown,
}

// cutCounters counts by reason. Any goroutine.
type cutCounters [len(cutReasons)]atomic.Int64

func (c *cutCounters) add(why string) {
	for i, reason := range cutReasons {
		if reason == why {
			c[i].Add(1)
		}
	}
}

func reasonOf(c fanout.Cut) string {
	switch c {
	case fanout.CutHard:
		return cutHard
	case fanout.CutOverrun:
		return cutOverrun
	}
	return cutPanic
}

// Counters are what the surface has counted since it was made.
type Counters struct {
	EventsIn      int64
	EventsRefused int64
	RateRefused   int64            // requests and events over an address's rate
	Cuts          map[string]int64 // by reason, all of them
	Claims        int64            // now
}

// Counters returns the present values. Any goroutine.
func (s *Surface) Counters() Counters {
	c := Counters{
		EventsIn: s.ingested.Load(), EventsRefused: s.refused.Load(), RateRefused: s.overRate.Load(),
		Cuts: make(map[string]int64, len(cutReasons)), Claims: s.claims.count.Load(),
	}
	for i, reason := range cutReasons {
		c.Cuts[reason] = s.cuts[i].Load()
	}
	return c
}

// cut counts a connection that the relay ends, and writes one line for it
// unless the client broke no promise by it (R15: no query, no token).
func (s *Surface) cut(p *serve.Peer, kind, why string) {
	s.cuts.add(why)
	s.dropped.Add(p.Member().QueuedBytes())
	if why == cutShutdown {
		return
	}
	skipped, ok := s.lines.allow(p.Now())
	if !ok {
		return
	}
	s.cfg.Log.Info("connection ended by the relay", "kind", kind, "reason", why, "client", p.ClientAddr().String(),
		"queued_bytes", p.Member().QueuedBytes(), "lines_left_out", skipped)
}

// DroppedBytes returns how many bytes were owed to connections when they were
// ended. Any goroutine.
func (s *Surface) DroppedBytes() int64 { return s.dropped.Load() }

// Ready tells whether ingest would succeed now: the log has room. Any
// goroutine.
func (s *Surface) Ready() bool { return s.hasRoom() }
