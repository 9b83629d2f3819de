package admin

import "time"

// AEPWSStats are the numbers of the aep-0.1 binding at one moment. Counters count
// from the start of the process.
type AEPWSStats struct {
	// Counters.
	Connected    int64            // sockets that ever were
	Refused      map[string]int64 // handshakes, by reason
	Records      map[string]int64 // what sessions did and how they ended (B42)
	Published    int64            // events handed to the log
	Acknowledged int64            // events, to their publishers (B55)
	Rejected     int64            // events and requests answered with event.rejected
	Discarded    int64            // messages behind the end of their session (B41)
	Stalled      int64            // sockets cut because they took nothing
	Held         int64            // times that a socket's input had to wait
	Stored       uint64           // events
	StoredBytes  uint64           // bytes of their texts
	Duplicates   uint64           // events that were in the log (B56)
	Conflicts    uint64           // ids that were taken by another event (B56)

	Commits        uint64        // groups of requests that were committed
	CommitRequests uint64        // requests in these
	CommitTime     time.Duration // of all commits together
	LongestCommit  time.Duration
	Evicted        uint64 // events that have left the log (B62)
	DeadLetters    uint64 // stored (B58)
	Busy           uint64 // times that the log had no room
	Failed         uint64 // requests that failed for the disk or the database

	Created     int64 // subscriptions
	Delivered   int64 // events, once for each subscription and sending
	Replayed    int64 // of them, in replays (B52)
	Redelivered int64 // of them, again (B58)
	Dropped     int64 // events that best_effort subscriptions skipped (B60)
	TooSlow     int64 // subscriptions whose next event had left the log (B60)
	LogFailed   int64 // subscriptions ended because the log failed
	Pages       int64 // read from the log
	Unmade      int64 // dead letters that were only counted (B58)
	Unheard     int64 // dead letters that a subscription had no room for

	// Gauges.
	Subscriptions int64
	Connections   int64 // open sockets
	Sessions      int64 // of them, READY
	Pending       int64 // appends without an answer
	BusyBytes     int64 // of events that wait for room in the log's queue
	QueuedWrites  int   // requests that wait for the writer
	QueuedBytes   int64 // bytes of these
	KeptEvents    int64
	KeptBytes     int64
	FileBytes     int64 // size of the database
	WALBytes      int64 // size of its write-ahead log
	Newest        int64 // highest number ever given (B51)
	EvictedSeq    int64 // highest number that has left the log
}

var aepwsScalars = []scalar[AEPWSStats]{
	{"sluice_aepws_connected_total", "Sockets of the aep-0.1 binding that were opened.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Connected) }},
	{"sluice_aepws_published_total", "Events handed to the log.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Published) }},
	{"sluice_aepws_acknowledged_total", "Events acknowledged to their publishers.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Acknowledged) }},
	{"sluice_aepws_rejected_total", "Events and requests answered with event.rejected.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Rejected) }},
	{"sluice_aepws_discarded_total", "Messages that came behind the end of their session.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Discarded) }},
	{"sluice_aepws_stalled_total", "Sockets cut because they took nothing for the write timeout.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Stalled) }},
	{"sluice_aepws_held_total", "Times that a socket's input had to wait.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Held) }},
	{"sluice_aepws_events_total", "New events stored.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Stored) }},
	{"sluice_aepws_event_bytes_total", "Bytes of new events stored.", isCounter, func(s *AEPWSStats) float64 { return float64(s.StoredBytes) }},
	{"sluice_aepws_duplicates_total", "Events published that were stored already.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Duplicates) }},
	{"sluice_aepws_conflicts_total", "Events refused because their id is another event's.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Conflicts) }},
	{"sluice_aepws_commits_total", "Groups of events committed.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Commits) }},
	{"sluice_aepws_commit_requests_total", "Requests in these groups.", isCounter, func(s *AEPWSStats) float64 { return float64(s.CommitRequests) }},
	{"sluice_aepws_commit_seconds_total", "Time spent in commits.", isCounter, func(s *AEPWSStats) float64 { return s.CommitTime.Seconds() }},
	{"sluice_aepws_commit_longest_seconds", "Longest commit since the start.", isGauge, func(s *AEPWSStats) float64 { return s.LongestCommit.Seconds() }},
	{"sluice_aepws_evicted_total", "Events that have left the log.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Evicted) }},
	{"sluice_aepws_dead_letters_total", "Dead letters stored.", isCounter, func(s *AEPWSStats) float64 { return float64(s.DeadLetters) }},
	{"sluice_aepws_busy_total", "Times that the log's queue had no room.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Busy) }},
	{"sluice_aepws_failed_total", "Requests that failed for the disk or the database.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Failed) }},

	{"sluice_aepws_subscriptions_total", "Subscriptions that were created.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Created) }},
	{"sluice_aepws_deliveries_total", "Events sent, once for each subscription and sending.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Delivered) }},
	{"sluice_aepws_replayed_total", "Events sent in replays.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Replayed) }},
	{"sluice_aepws_redelivered_total", "Events sent again because they were not acknowledged.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Redelivered) }},
	{"sluice_aepws_dropped_total", "Events that best_effort subscriptions skipped.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Dropped) }},
	{"sluice_aepws_too_slow_total", "Subscriptions whose next event had left the log.", isCounter, func(s *AEPWSStats) float64 { return float64(s.TooSlow) }},
	{"sluice_aepws_log_failed_total", "Subscriptions ended because the log could not be read.", isCounter, func(s *AEPWSStats) float64 { return float64(s.LogFailed) }},
	{"sluice_aepws_pages_total", "Pages read from the log for subscriptions that are behind.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Pages) }},
	{"sluice_aepws_dead_letters_unmade_total", "Dead letters that were only counted.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Unmade) }},
	{"sluice_aepws_dead_letters_unheard_total", "Dead letters that a subscription had no room for.", isCounter, func(s *AEPWSStats) float64 { return float64(s.Unheard) }},

	{"sluice_aepws_subscriptions", "Subscriptions.", isGauge, func(s *AEPWSStats) float64 { return float64(s.Subscriptions) }},
	{"sluice_aepws_connections", "Open sockets of the binding.", isGauge, func(s *AEPWSStats) float64 { return float64(s.Connections) }},
	{"sluice_aepws_sessions", "Sessions that are ready.", isGauge, func(s *AEPWSStats) float64 { return float64(s.Sessions) }},
	{"sluice_aepws_pending_appends", "Events that wait for the log's answer.", isGauge, func(s *AEPWSStats) float64 { return float64(s.Pending) }},
	{"sluice_aepws_busy_bytes", "Bytes of events that wait for room in the log's queue.", isGauge, func(s *AEPWSStats) float64 { return float64(s.BusyBytes) }},
	{"sluice_aepws_queued_writes", "Requests that wait for a commit.", isGauge, func(s *AEPWSStats) float64 { return float64(s.QueuedWrites) }},
	{"sluice_aepws_queued_bytes", "Bytes of the requests that wait.", isGauge, func(s *AEPWSStats) float64 { return float64(s.QueuedBytes) }},
	{"sluice_aepws_kept_events", "Events kept for replay.", isGauge, func(s *AEPWSStats) float64 { return float64(s.KeptEvents) }},
	{"sluice_aepws_kept_bytes", "Bytes of the events kept.", isGauge, func(s *AEPWSStats) float64 { return float64(s.KeptBytes) }},
	{"sluice_aepws_file_bytes", "Size of the database.", isGauge, func(s *AEPWSStats) float64 { return float64(s.FileBytes) }},
	{"sluice_aepws_wal_bytes", "Size of the write-ahead log.", isGauge, func(s *AEPWSStats) float64 { return float64(s.WALBytes) }},
	{"sluice_aepws_last_seq", "Highest number given.", isGauge, func(s *AEPWSStats) float64 { return float64(s.Newest) }},
	{"sluice_aepws_evicted_seq", "Highest number that has left the log.", isGauge, func(s *AEPWSStats) float64 { return float64(s.EvictedSeq) }},
}

var aepwsReasons = []byReason[AEPWSStats]{
	{"sluice_aepws_refused_total", "Handshakes refused.", func(s *AEPWSStats) map[string]int64 { return s.Refused }},
	{"sluice_aepws_sessions_total", "What sessions did, and how they ended.", func(s *AEPWSStats) map[string]int64 { return s.Records }},
}
