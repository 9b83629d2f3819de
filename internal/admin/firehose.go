package admin

// FirehoseStats are the numbers of the atproto firehose at one moment. Counters
// count from the start of the process.
type FirehoseStats struct {
	// Counters.
	Connected  int64            // consumers that ever were
	TooSlow    int64            // ended with ConsumerTooSlow (F32)
	Future     int64            // ended with FutureCursor (F23)
	Outdated   int64            // told OutdatedCursor (F22)
	Stalled    int64            // took nothing for the write timeout
	Unanswered int64            // did not answer pings (F6)
	Published  int64            // frames handed in over HTTP (F52)
	Refused    map[string]int64 // requests, those reasons that occurred

	// Gauges.
	Consumers   int64
	HeldFrames  int   // in the ring
	HeldBytes   int64 // of these
	HeldCommits int   // that wait for their log (F43)
	LastSeq     int64 // L: the highest number taken
	OutdatedSeq int64 // E: the highest that a consumer may have missed

	// Upstream mode: sums over the hosts, and hosts by name.
	Frames          int64            // read
	Sequenced       int64            // of them, published with a number of ours
	Dropped         map[string]int64 // by reason
	Misfits         map[string]int64 // commits that did not fit what is known (F64)
	Failures        map[string]int64 // connections that failed, by reason
	PublishFailures int64
	StateWrites     int64
	StateFailures   int64
	Hosts           []FirehoseHost
}

// FirehoseHost is a host that is followed.
type FirehoseHost struct {
	Name      string // lower case; the operator's word
	Connected bool
	LastSeq   int64 // the host's own number through which all is done, -1 for none
}

// maxHosts bounds the values of the label host (AD3).
const maxHosts = 100

var labelHost = []string{"host"}

var firehoseScalars = []scalar[FirehoseStats]{
	{"sluice_firehose_connected_total", "Consumers of the firehose that connected.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Connected) }},
	{"sluice_firehose_too_slow_total", "Consumers ended with ConsumerTooSlow.", isCounter, func(s *FirehoseStats) float64 { return float64(s.TooSlow) }},
	{"sluice_firehose_future_cursor_total", "Consumers ended with FutureCursor.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Future) }},
	{"sluice_firehose_outdated_cursor_total", "Consumers told that their cursor is outdated.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Outdated) }},
	{"sluice_firehose_stalled_total", "Consumers cut because they took nothing for the write timeout.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Stalled) }},
	{"sluice_firehose_unanswered_total", "Consumers cut because they answered no ping.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Unanswered) }},
	{"sluice_firehose_published_total", "Frames published over HTTP.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Published) }},

	{"sluice_firehose_consumers", "Consumers of the firehose.", isGauge, func(s *FirehoseStats) float64 { return float64(s.Consumers) }},
	{"sluice_firehose_held_frames", "Frames held for replay.", isGauge, func(s *FirehoseStats) float64 { return float64(s.HeldFrames) }},
	{"sluice_firehose_held_bytes", "Bytes of the frames held for replay.", isGauge, func(s *FirehoseStats) float64 { return float64(s.HeldBytes) }},
	{"sluice_firehose_held_commits", "Commits that wait for their log to be synced.", isGauge, func(s *FirehoseStats) float64 { return float64(s.HeldCommits) }},
	{"sluice_firehose_last_seq", "Highest number taken.", isGauge, func(s *FirehoseStats) float64 { return float64(s.LastSeq) }},
	{"sluice_firehose_outdated_seq", "Highest number that a consumer may have missed.", isGauge, func(s *FirehoseStats) float64 { return float64(s.OutdatedSeq) }},

	{"sluice_firehose_upstream_frames_total", "Frames read from the hosts that are followed.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Frames) }},
	{"sluice_firehose_upstream_published_total", "Frames of these hosts that were published.", isCounter, func(s *FirehoseStats) float64 { return float64(s.Sequenced) }},
	{"sluice_firehose_upstream_publish_failures_total", "Times that a frame of these hosts could not be published; it is tried again.", isCounter, func(s *FirehoseStats) float64 { return float64(s.PublishFailures) }},
	{"sluice_firehose_upstream_writes_total", "Batches of cursors and repositories that were stored.", isCounter, func(s *FirehoseStats) float64 { return float64(s.StateWrites) }},
	{"sluice_firehose_upstream_write_failures_total", "Batches of cursors and repositories that could not be stored; they are tried again.", isCounter, func(s *FirehoseStats) float64 { return float64(s.StateFailures) }},
}

var firehoseReasons = []byReason[FirehoseStats]{
	{"sluice_firehose_refused_total", "Requests refused on the firehose's paths.", func(s *FirehoseStats) map[string]int64 { return s.Refused }},
	{"sluice_firehose_upstream_dropped_total", "Frames of the hosts that were not passed on.", func(s *FirehoseStats) map[string]int64 { return s.Dropped }},
	{"sluice_firehose_upstream_misfits_total", "Commits passed on that do not fit what is known of their repository.", func(s *FirehoseStats) map[string]int64 { return s.Misfits }},
	{"sluice_firehose_upstream_failures_total", "Connections to the hosts that failed or were lost.", func(s *FirehoseStats) map[string]int64 { return s.Failures }},
}

var firehoseHosts = []scalar[FirehoseHost]{
	{"sluice_firehose_upstream_connected", "1 while the host is connected, else 0.", isGauge, func(h *FirehoseHost) float64 {
		if h.Connected {
			return 1
		}
		return 0
	}},
	{"sluice_firehose_upstream_seq", "The host's own number through which all is done, -1 for none.", isGauge, func(h *FirehoseHost) float64 { return float64(h.LastSeq) }},
}

// addFirehose adds the firehose's metrics. Hosts past maxHosts have none of their
// own.
func addFirehose(out scrape, s *FirehoseStats) scrape {
	out = addScalars(out, firehoseScalars, s, nil)
	out = addReasons(out, firehoseReasons, s)
	for i := range s.Hosts[:min(len(s.Hosts), maxHosts)] {
		out = addScalars(out, firehoseHosts, &s.Hosts[i], labelHost, s.Hosts[i].Name)
	}
	return out
}
