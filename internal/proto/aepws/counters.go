package aepws

import "sync/atomic"

// Reasons of refused handshakes, as Counters has them.
const (
	refusedRequest = iota
	refusedOrigin
	refusedToken
	refusedSubprotocol
	refusedConnections
	refusals
)

var refusalNames = [refusals]string{"request", "origin", "token", "subprotocol", "connections"}

// counts are the surface's counters. Atomic.
type counts struct {
	connected atomic.Int64
	records   [recordCount]atomic.Int64
	refused   [refusals]atomic.Int64

	published atomic.Int64
	acked     atomic.Int64
	rejected  atomic.Int64
	discarded atomic.Int64
	stalled   atomic.Int64
	held      atomic.Int64
}

// Counters are numbers of a Surface at one moment. All but the gauges count from
// its start.
type Counters struct {
	// Gauges.
	Connections int64 // open sockets
	Sessions    int64 // of them, READY
	Pending     int64 // appends without an answer
	BusyBytes   int64 // of events that wait for room in the log's queue

	Connected    int64            // sockets that ever were
	Refused      map[string]int64 // handshakes, by reason
	Records      map[string]int64 // what sessions did and how they ended (B42)
	Published    int64            // events handed to the log
	Acknowledged int64            // to their publishers (B55)
	Rejected     int64            // events and requests answered with event.rejected
	Discarded    int64            // messages behind the end of their session (B41)
	Stalled      int64            // sockets that took nothing for the write timeout
	Held         int64            // times that a socket's input was held

	Deliveries Deliveries
}

// Deliveries are numbers of the subscriptions of a Surface. All but Subscriptions
// count from its start.
type Deliveries struct {
	Subscriptions int64 // now
	Created       int64
	Refused       int64 // requests for one (B47)
	Delivered     int64 // events, once for each subscription and sending
	Replayed      int64 // of them, in replays (B52)
	Redelivered   int64 // of them, again (B58)
	Dropped       int64 // events that best_effort subscriptions skipped (B60)
	TooSlow       int64 // subscriptions whose next event had left the log (B60)
	Failed        int64 // subscriptions ended because the log failed
	Pages         int64 // read from the log
	Unmade        int64 // dead letters that were only counted (B58)
	Unheard       int64 // dead letters that a subscription had no room for
}

// deliveries returns the numbers of the hub.
func (h *hub) deliveries() Deliveries {
	n := &h.counts
	return Deliveries{
		Subscriptions: n.subscriptions.Load(), Created: n.created.Load(), Refused: n.rejected.Load(),
		Delivered: n.delivered.Load(), Replayed: n.replayed.Load(), Redelivered: n.redelivered.Load(),
		Dropped: n.dropped.Load(), TooSlow: n.tooSlow.Load(), Failed: n.failed.Load(), Pages: n.pages.Load(),
		Unmade: n.unmade.Load(), Unheard: n.unheard.Load(),
	}
}

// Counters returns the surface's numbers. The keys of the maps are always the
// same.
func (s *Surface) Counters() Counters {
	n := &s.counts
	c := Counters{
		Connections: s.open.Load(), Sessions: int64(s.holders.size()),
		Pending: s.pending.Load(), BusyBytes: s.busy.Load(),
		Connected: n.connected.Load(), Published: n.published.Load(), Acknowledged: n.acked.Load(),
		Rejected: n.rejected.Load(), Discarded: n.discarded.Load(), Stalled: n.stalled.Load(), Held: n.held.Load(),
		Deliveries: s.hub.deliveries(),
		Refused:    make(map[string]int64, refusals), Records: make(map[string]int64, recordCount),
	}
	for i := range n.refused {
		c.Refused[refusalNames[i]] = n.refused[i].Load()
	}
	for i := range n.records {
		c.Records[record(i).String()] = n.records[i].Load()
	}
	return c
}
