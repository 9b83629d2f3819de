package relay

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/admin"
)

const (
	// slowestTold is how many of the slowest consumers are told.
	slowestTold = 50
	// readyTurn is how long a loop may not have turned in a ready relay;
	// beatInterval is how often loops are rung for that.
	readyTurn    = time.Second
	beatInterval = 200 * time.Millisecond
)

var (
	errDraining = errors.New("draining")
	errIngest   = errors.New("ingest has no room: a loop is behind")
	errBudget   = errors.New("ingest has no memory left for bodies")
	errLoop     = errors.New("a loop does not turn")
)

// loopReport is what one loop tells for a snapshot.
type loopReport struct {
	stats   admin.LoopStats
	fanout  fanout.Stats
	serve   serve.Stats
	unsent  admin.Histogram
	lag     admin.Histogram
	slowest []serve.Consumer
}

// Snapshot implements admin.Source.
func (r *Relay) Snapshot(ctx context.Context) (*admin.Snapshot, error) {
	reports := make(chan *loopReport, len(r.workers))
	for _, w := range r.workers {
		if err := w.Loop().Post(func() { reports <- report(w) }); err != nil {
			return nil, err
		}
	}
	s := r.base()
	for range r.workers {
		select {
		case rep := <-reports:
			if err := addReport(s, rep); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s, nil
}

// Ready implements admin.Source.
func (r *Relay) Ready() error {
	switch {
	case r.draining.Load():
		return errDraining
	case !r.surface.Ready():
		return errIngest
	case r.budget.UsedBytes() >= heldBytes:
		return errBudget
	}
	for _, w := range r.workers {
		if last := w.Loop().LastTurn(); !last.IsZero() && time.Since(last) > readyTurn {
			return errLoop
		}
	}
	return nil
}

// report gathers one loop's numbers. Loop only.
func report(w *serve.Worker) *loopReport {
	l, set := w.Loop(), w.Set()
	r := &loopReport{
		fanout: set.Stats(), serve: w.Stats(),
		unsent: admin.NewHistogram(admin.UnsentBounds), lag: admin.NewHistogram(admin.LagBounds),
	}
	stats := l.Stats()
	r.stats = admin.LoopStats{
		ID: l.ID, Turns: stats.Turns, Wakes: stats.Wakes, Busy: stats.BusyTime,
		Panics: l.Panics(), LastTurn: l.LastTurn(), PassSeconds: passSeconds(set.PassDurations()),
		Conns: w.Conns(), Members: set.Members(), Groups: set.Groups(),
	}
	r.slowest = w.EachConsumer(slowestTold, func(s fanout.State) {
		r.unsent.Observe(float64(s.QueuedBytes))
		r.lag.Observe(float64(s.LagEvents))
	})
	return r
}

func passSeconds(d fanout.Durations) admin.Histogram {
	h := admin.Histogram{Sum: d.Sum.Seconds()}
	for _, b := range fanout.PassBounds {
		h.Bounds = append(h.Bounds, b.Seconds())
	}
	for _, n := range d.Counts {
		h.Counts = append(h.Counts, uint64(n))
	}
	return h
}

// base is what is known without the loops.
func (r *Relay) base() *admin.Snapshot {
	counts, counters := r.surface.Counts(), r.surface.Counters()
	refused, limits := r.server.Refused(), r.server.Limits()
	return &admin.Snapshot{
		EventsIn:      counters.EventsIn,
		EventsRefused: counters.EventsRefused,
		Cuts:          counters.Cuts,
		Timeouts:      map[string]int64{},
		Disconnects:   map[string]int64{},
		Refusals: map[string]int64{
			"cap": refused.Cap, "descriptors": refused.Descriptors, "failed": refused.Failed,
			"accept_errors": refused.AcceptErrors, "rate": counters.RateRefused, "per_address": 0,
		},
		Sessions:       r.buffers.Sessions(),
		BufferedEvents: r.buffers.Events(),
		BufferedBytes:  r.buffers.Bytes(),
		LogPosition:    uint64(r.events.Next()),
		Connections:    r.server.Conns(),
		Streams:        counts.Streams,
		Sockets:        counts.Connections,
		Subscriptions:  counts.Subscribers,
		Claims:         counters.Claims,
		HeldBytes:      r.budget.UsedBytes(),
		HeldLimit:      heldBytes,
		Descriptors: admin.Descriptors{
			Open: openDescriptors(), Limit: limits.Descriptors, Reserve: limits.Reserve, Conns: limits.Conns,
		},
		Unsent: admin.NewHistogram(admin.UnsentBounds),
		Lag:    admin.NewHistogram(admin.LagBounds),
		Sync:   r.syncStats(), Firehose: r.firehoseStats(), AEPWS: r.aepwsStats(),
	}
}

// openDescriptors counts the descriptors in use, 0 where that cannot be told.
func openDescriptors() int {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names) - 1 // dir itself
}

func addReport(s *admin.Snapshot, r *loopReport) error {
	s.Loops = append(s.Loops, r.stats)
	s.Deliveries += r.fanout.Deliveries
	s.DeliveredBytes += r.fanout.Bytes
	s.Writes += r.fanout.Writes
	s.ShortWrites += r.fanout.ShortWrite
	s.Shed += r.fanout.Shed
	s.Gaps += r.fanout.Gaps
	s.Passes += r.fanout.Passes
	s.Requests += r.serve.Requests
	s.Upgrades += r.serve.Upgrades
	s.BadRequests += r.serve.Refused
	s.Timeouts["head"] += r.serve.HeadTimeouts
	s.Timeouts["body"] += r.serve.BodyTimeouts
	s.Timeouts["idle"] += r.serve.IdleTimeouts
	s.Timeouts["stalled"] += r.serve.Stalled
	s.Disconnects["held-input"] += r.serve.OverLimit
	s.Disconnects["websocket-protocol"] += r.serve.ProtocolErrors
	s.Refusals["per_address"] += r.serve.PerAddress
	for _, c := range r.slowest {
		kind := "sse"
		if c.WebSocket {
			kind = "websocket"
		}
		s.Slowest = append(s.Slowest, admin.Consumer{
			Remote: c.Remote.String(), Kind: kind, Filters: c.Filters,
			LagEvents: c.LagEvents, QueuedBytes: c.QueuedBytes, UnackedBytes: c.UnackedBytes,
			Shed: c.ShedEvents, Age: c.Age, Stalled: c.Stalled,
		})
	}
	return errors.Join(s.Unsent.Merge(r.unsent), s.Lag.Merge(r.lag))
}
