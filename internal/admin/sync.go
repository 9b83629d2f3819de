package admin

import "time"

// SyncStats are the numbers of the sync relay at one moment. Counters count from
// the start of the process.
type SyncStats struct {
	// Counters.
	Requests       int64
	Pages          int64            // of pulls and waits, that were sent
	Refused        map[string]int64 // by error code of the contract, those that occurred
	Pushes         uint64           // stored, also those that brought duplicates only
	Duplicates     uint64           // events of these that were there
	Events         uint64           // events of these that were new
	EventBytes     uint64           // bytes of the new events
	Blobs          uint64           // chunks stored
	BlobBytes      uint64           // bytes of these
	Commits        uint64           // groups of requests that were committed
	CommitRequests uint64           // requests in these
	CommitTime     time.Duration    // of all commits together
	LongestCommit  time.Duration
	// CompactedEvents and CompactedBytes went by compaction; Slices are its
	// transactions, and those that delete the rows of closed owners.
	CompactedEvents, CompactedBytes uint64
	Slices, Checkpoints             uint64

	// Gauges.
	Waiting      int64 // devices that wait for events (S52)
	SpoolBytes   int64 // of push bodies on disk (S20a)
	LentBytes    int64 // of large answers that readers have not taken yet
	QueuedWrites int   // requests that wait for the writer
	QueuedBytes  int64 // bytes of these
	WALBytes     int64 // size of the write-ahead log
	StoredBytes  int64 // of all owners
	Owners       int64
	LastSeq      int64 // newest sequence number issued
}

var syncScalars = []scalar[SyncStats]{
	{"sluice_sync_requests_total", "Requests on the sync relay's paths.", isCounter, func(s *SyncStats) float64 { return float64(s.Requests) }},
	{"sluice_sync_pages_total", "Pages of events sent to devices.", isCounter, func(s *SyncStats) float64 { return float64(s.Pages) }},
	{"sluice_sync_pushes_total", "Pushes stored.", isCounter, func(s *SyncStats) float64 { return float64(s.Pushes) }},
	{"sluice_sync_events_total", "New events stored.", isCounter, func(s *SyncStats) float64 { return float64(s.Events) }},
	{"sluice_sync_event_bytes_total", "Bytes of new events stored.", isCounter, func(s *SyncStats) float64 { return float64(s.EventBytes) }},
	{"sluice_sync_duplicates_total", "Events pushed that were stored already.", isCounter, func(s *SyncStats) float64 { return float64(s.Duplicates) }},
	{"sluice_sync_blobs_total", "Chunks of blobs stored.", isCounter, func(s *SyncStats) float64 { return float64(s.Blobs) }},
	{"sluice_sync_blob_bytes_total", "Bytes of chunks stored.", isCounter, func(s *SyncStats) float64 { return float64(s.BlobBytes) }},
	{"sluice_sync_commits_total", "Groups of writes committed.", isCounter, func(s *SyncStats) float64 { return float64(s.Commits) }},
	{"sluice_sync_commit_requests_total", "Writes in these groups.", isCounter, func(s *SyncStats) float64 { return float64(s.CommitRequests) }},
	{"sluice_sync_commit_seconds_total", "Time spent in commits.", isCounter, func(s *SyncStats) float64 { return s.CommitTime.Seconds() }},
	{"sluice_sync_commit_longest_seconds", "Longest commit since the start.", isGauge, func(s *SyncStats) float64 { return s.LongestCommit.Seconds() }},
	{"sluice_sync_compacted_events_total", "Events deleted by compaction.", isCounter, func(s *SyncStats) float64 { return float64(s.CompactedEvents) }},
	{"sluice_sync_compacted_bytes_total", "Bytes freed by compaction.", isCounter, func(s *SyncStats) float64 { return float64(s.CompactedBytes) }},
	{"sluice_sync_slices_total", "Transactions of compaction and of deletion after a close.", isCounter, func(s *SyncStats) float64 { return float64(s.Slices) }},
	{"sluice_sync_checkpoints_total", "Checkpoints of the write-ahead log.", isCounter, func(s *SyncStats) float64 { return float64(s.Checkpoints) }},

	{"sluice_sync_waiting_devices", "Devices that wait for events.", isGauge, func(s *SyncStats) float64 { return float64(s.Waiting) }},
	{"sluice_sync_spool_bytes", "Push bodies in spool files.", isGauge, func(s *SyncStats) float64 { return float64(s.SpoolBytes) }},
	{"sluice_sync_lent_bytes", "Large answers that their readers have not taken yet.", isGauge, func(s *SyncStats) float64 { return float64(s.LentBytes) }},
	{"sluice_sync_queued_writes", "Writes that wait for a commit.", isGauge, func(s *SyncStats) float64 { return float64(s.QueuedWrites) }},
	{"sluice_sync_queued_bytes", "Bytes of the writes that wait.", isGauge, func(s *SyncStats) float64 { return float64(s.QueuedBytes) }},
	{"sluice_sync_wal_bytes", "Size of the write-ahead log.", isGauge, func(s *SyncStats) float64 { return float64(s.WALBytes) }},
	{"sluice_sync_stored_bytes", "Bytes stored for all owners.", isGauge, func(s *SyncStats) float64 { return float64(s.StoredBytes) }},
	{"sluice_sync_owners", "Owners, closed ones too.", isGauge, func(s *SyncStats) float64 { return float64(s.Owners) }},
	{"sluice_sync_last_seq", "Newest sequence number issued.", isGauge, func(s *SyncStats) float64 { return float64(s.LastSeq) }},
}

var syncReasons = []byReason[SyncStats]{
	{"sluice_sync_refused_total", "Requests refused, by the error code of the answer.", func(s *SyncStats) map[string]int64 { return s.Refused }},
}
