package admin

import "time"

// The metrics by shape. A name has its unit; a counter ends in _total. Adding
// a metric is adding a line here and one to the operations page.

// scalar is a metric with one value.
type scalar[T any] struct {
	name, help string
	counter    bool
	value      func(*T) float64
}

// byReason is a counter with the label reason.
type byReason[T any] struct {
	name, help string
	values     func(*T) map[string]int64
}

// distribution is a histogram.
type distribution[T any] struct {
	name, help string
	value      func(*T) *Histogram
}

const (
	isCounter = true
	isGauge   = false
)

var relayScalars = []scalar[Snapshot]{
	{"sluice_deliveries_total", "Frames of events handed to connections.", isCounter, func(s *Snapshot) float64 { return float64(s.Deliveries) }},
	{"sluice_delivered_bytes_total", "Bytes of events handed to connections.", isCounter, func(s *Snapshot) float64 { return float64(s.DeliveredBytes) }},
	{"sluice_writes_total", "Batches written to sockets.", isCounter, func(s *Snapshot) float64 { return float64(s.Writes) }},
	{"sluice_short_writes_total", "Batches that a socket took only in part.", isCounter, func(s *Snapshot) float64 { return float64(s.ShortWrites) }},
	{"sluice_shed_events_total", "Events of severity debug or info left out for a slow consumer.", isCounter, func(s *Snapshot) float64 { return float64(s.Shed) }},
	{"sluice_gaps_total", "Gaps that were reported to consumers.", isCounter, func(s *Snapshot) float64 { return float64(s.Gaps) }},
	{"sluice_passes_total", "Fan-out passes over new entries of the log.", isCounter, func(s *Snapshot) float64 { return float64(s.Passes) }},

	{"sluice_ingested_events_total", "Events admitted.", isCounter, func(s *Snapshot) float64 { return float64(s.EventsIn) }},
	{"sluice_refused_events_total", "Events refused by validation or authorisation.", isCounter, func(s *Snapshot) float64 { return float64(s.EventsRefused) }},

	{"sluice_requests_total", "HTTP requests read.", isCounter, func(s *Snapshot) float64 { return float64(s.Requests) }},
	{"sluice_upgrades_total", "Requests upgraded to a WebSocket.", isCounter, func(s *Snapshot) float64 { return float64(s.Upgrades) }},
	{"sluice_bad_requests_total", "Inputs that were not HTTP.", isCounter, func(s *Snapshot) float64 { return float64(s.BadRequests) }},

	{"sluice_sessions", "Session buffers held.", isGauge, func(s *Snapshot) float64 { return float64(s.Sessions) }},
	{"sluice_buffered_events", "Events kept for replay in all sessions.", isGauge, func(s *Snapshot) float64 { return float64(s.BufferedEvents) }},
	{"sluice_buffered_bytes", "Bytes of the events kept for replay.", isGauge, func(s *Snapshot) float64 { return float64(s.BufferedBytes) }},
	{"sluice_log_position", "Position that the next entry of the log gets.", isGauge, func(s *Snapshot) float64 { return float64(s.LogPosition) }},

	{"sluice_connections", "Open client connections.", isGauge, func(s *Snapshot) float64 { return float64(s.Connections) }},
	{"sluice_connections_limit", "Most client connections at once.", isGauge, func(s *Snapshot) float64 { return float64(s.Descriptors.Conns) }},
	{"sluice_streams", "Live event streams (SSE).", isGauge, func(s *Snapshot) float64 { return float64(s.Streams) }},
	{"sluice_sockets", "Open WebSockets.", isGauge, func(s *Snapshot) float64 { return float64(s.Sockets) }},
	{"sluice_subscriptions", "Subscriptions of streams and WebSockets.", isGauge, func(s *Snapshot) float64 { return float64(s.Subscriptions) }},
	{"sluice_claims", "Sessions claimed by a WebSocket.", isGauge, func(s *Snapshot) float64 { return float64(s.Claims) }},

	{"sluice_held_bytes", "Input held for incomplete or waiting requests.", isGauge, func(s *Snapshot) float64 { return float64(s.HeldBytes) }},
	{"sluice_held_limit_bytes", "Most input that may be held.", isGauge, func(s *Snapshot) float64 { return float64(s.HeldLimit) }},

	{"sluice_descriptors_open", "File descriptors in use.", isGauge, func(s *Snapshot) float64 { return float64(s.Descriptors.Open) }},
	{"sluice_descriptors_limit", "Limit on open file descriptors.", isGauge, func(s *Snapshot) float64 { return float64(s.Descriptors.Limit) }},
	{"sluice_descriptors_reserved", "File descriptors kept for what is not a client connection.", isGauge, func(s *Snapshot) float64 { return float64(s.Descriptors.Reserve) }},
}

var relayReasons = []byReason[Snapshot]{
	{"sluice_cuts_total", "Consumers cut off by the relay, by reason.", func(s *Snapshot) map[string]int64 { return s.Cuts }},
	{"sluice_disconnects_total", "Connections that ended otherwise, by reason.", func(s *Snapshot) map[string]int64 { return s.Disconnects }},
	{"sluice_timeouts_total", "Connections ended for taking too long, by reason.", func(s *Snapshot) map[string]int64 { return s.Timeouts }},
	{"sluice_refusals_total", "Connections and requests refused before they were served, by reason.", func(s *Snapshot) map[string]int64 { return s.Refusals }},
}

var relayDistributions = []distribution[Snapshot]{
	{"sluice_consumer_unsent_bytes", "Bytes that wait for each consumer now. A distribution over consumers, not over time: it also falls.", func(s *Snapshot) *Histogram { return &s.Unsent }},
	{"sluice_consumer_lag_events", "Events that wait for each consumer now. A distribution over consumers, not over time: it also falls.", func(s *Snapshot) *Histogram { return &s.Lag }},
}

// The metrics of one loop have the label loop.
var loopScalars = []scalar[LoopStats]{
	{"sluice_loop_turns_total", "Turns of the loop.", isCounter, func(l *LoopStats) float64 { return float64(l.Turns) }},
	{"sluice_loop_wakes_total", "Turns asked for from outside the loop.", isCounter, func(l *LoopStats) float64 { return float64(l.Wakes) }},
	{"sluice_loop_busy_seconds_total", "Time spent in turns.", isCounter, func(l *LoopStats) float64 { return l.Busy.Seconds() }},
	{"sluice_loop_panics_total", "Panics that were contained.", isCounter, func(l *LoopStats) float64 { return float64(l.Panics) }},
	{"sluice_loop_last_turn_timestamp_seconds", "When the loop turned last, 0 for never.", isGauge, func(l *LoopStats) float64 { return unixSeconds(l.LastTurn) }},
	{"sluice_loop_connections", "Open client connections of the loop.", isGauge, func(l *LoopStats) float64 { return float64(l.Conns) }},
	{"sluice_loop_members", "Connections with a subscription.", isGauge, func(l *LoopStats) float64 { return float64(l.Members) }},
	{"sluice_loop_groups", "Groups of connections that get the same bytes.", isGauge, func(l *LoopStats) float64 { return float64(l.Groups) }},
}

var loopDistributions = []distribution[LoopStats]{
	{"sluice_loop_pass_seconds", "Duration of fan-out passes.", func(l *LoopStats) *Histogram { return &l.PassSeconds }},
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
