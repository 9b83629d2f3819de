package store

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// counts are the sources of Stats. All are atomic; the writer adds, anyone
// reads.
type counts struct {
	pushes, duplicates, events, eventBytes atomic.Uint64
	blobs, blobBytes                       atomic.Uint64
	groups, requests                       atomic.Uint64
	maxGroup, commitTime, maxCommit        atomic.Int64
	busy, full, failed                     atomic.Uint64
	compactedEvents, compactedBytes        atomic.Uint64
	slices, checkpoints                    atomic.Uint64
	totalBytes, owners, lastSeq            atomic.Int64
}

func (c *counts) pushed(r PushResult, bytes int64) {
	c.pushes.Add(1)
	c.events.Add(uint64(r.Accepted))
	c.duplicates.Add(uint64(r.Duplicate))
	c.eventBytes.Add(uint64(bytes))
}

func (c *counts) blob(stored bool, bytes int) {
	if stored {
		c.blobs.Add(1)
		c.blobBytes.Add(uint64(bytes))
	}
}

func (c *counts) compacted(events, bytes int64) {
	c.compactedEvents.Add(uint64(events))
	c.compactedBytes.Add(uint64(bytes))
}

// group counts a commit. Only the writer calls it, so a load and a store do.
func (c *counts) group(requests int, took time.Duration) {
	c.groups.Add(1)
	c.requests.Add(uint64(requests))
	c.commitTime.Add(int64(took))
	c.maxGroup.Store(max(c.maxGroup.Load(), int64(requests)))
	c.maxCommit.Store(max(c.maxCommit.Load(), int64(took)))
}

// publish makes the committed counters visible to readers.
func (c *counts) publish(n counters) {
	c.totalBytes.Store(n.total)
	c.owners.Store(n.owners)
	c.lastSeq.Store(n.last)
}

func (c *counts) failure(err error) {
	switch {
	case err == nil, errors.Is(err, ErrStopped):
	case errors.Is(err, ErrBusy):
		c.busy.Add(1)
	case errors.Is(err, ErrQuota), errors.Is(err, ErrRelayFull):
		c.full.Add(1)
	case sqldb.FromSQLite(err), errors.Is(err, ErrTakenAway):
		c.failed.Add(1)
	}
}

// Stats is a snapshot of counters and gauges. It costs one stat of a file.
func (s *Store) Stats() Stats {
	c := &s.stats
	st := Stats{
		Pushes: c.pushes.Load(), Duplicates: c.duplicates.Load(),
		Events: c.events.Load(), EventBytes: c.eventBytes.Load(),
		Blobs: c.blobs.Load(), BlobBytes: c.blobBytes.Load(),
		Groups: c.groups.Load(), Requests: c.requests.Load(), MaxGroup: int(c.maxGroup.Load()),
		CommitTime: time.Duration(c.commitTime.Load()), MaxCommit: time.Duration(c.maxCommit.Load()),
		Busy: c.busy.Load(), Full: c.full.Load(), Failed: c.failed.Load(),
		CompactedEvents: c.compactedEvents.Load(), CompactedBytes: c.compactedBytes.Load(),
		Slices: c.slices.Load(), Checkpoints: c.checkpoints.Load(),
		TotalBytes: c.totalBytes.Load(), Owners: c.owners.Load(), LastSeq: c.lastSeq.Load(),
	}
	st.QueueCount, st.QueueBytes = s.queue.Load()
	st.WALBytes = sqldb.Size(s.cfg.Path + "-wal")
	return st
}
