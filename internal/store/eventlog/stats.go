package eventlog

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Stats are counters since the start, and gauges, for metrics.
type Stats struct {
	// Opened tells whether there is a database. Without one the gauges are 0.
	Opened bool
	// FileBytes and WALBytes are the sizes of the database and of its log's file.
	FileBytes, WALBytes int64
	// Groups is how many commits were made for Requests, the largest of MaxGroup.
	// They took CommitTime together, the longest MaxCommit.
	Groups, Requests uint64
	MaxGroup         int
	CommitTime       time.Duration
	MaxCommit        time.Duration
	// Events of EventBytes of text were stored; Duplicates were found stored and
	// Conflicts refused with ErrDuplicateID.
	Events, EventBytes, Duplicates, Conflicts uint64
	// Evicted events have left the log, in Slices beside what went with groups.
	Evicted, Slices uint64
	// DeadLetters were stored, Dead of them are kept.
	DeadLetters uint64
	Dead        int64
	// Checkpoints moved the write-ahead log into the database, besides SQLite's
	// own.
	Checkpoints uint64
	// QueueCount requests of QueueBytes wait, those of the open group included.
	QueueCount int
	QueueBytes int64
	// Busy counts calls that failed for the queue's bounds or another process's
	// lock, Failed those that failed for the disk or the database.
	Busy, Failed uint64
	// Log is what the log holds.
	Log State
}

// counts are the sources of Stats. All are atomic; but for the last row only the
// writer changes them.
type counts struct {
	groups, requests, events, eventBytes, duplicates atomic.Uint64
	evicted, slices, deadLetters, checkpoints        atomic.Uint64
	maxGroup, commitTime, maxCommit, dead            atomic.Int64
	busy, failed, conflicts                          atomic.Uint64
}

func (c *counts) group(requests int, took time.Duration) {
	c.groups.Add(1)
	c.requests.Add(uint64(requests))
	c.commitTime.Add(int64(took))
	c.maxGroup.Store(max(c.maxGroup.Load(), int64(requests)))
	c.maxCommit.Store(max(c.maxCommit.Load(), int64(took)))
}

// landed counts what a transaction has changed.
func (c *counts) landed(before, after *counters, fresh []Stored, duplicates uint64) {
	c.duplicates.Add(duplicates)
	for i := range fresh {
		c.eventBytes.Add(uint64(len(fresh[i].Text)))
	}
	c.events.Add(uint64(len(fresh)))
	c.evicted.Add(uint64(after.evicted - before.evicted)) // numbers are dense (E2)
	c.deadLetters.Add(uint64(after.deadLast - before.deadLast))
	c.publish(after)
}

func (c *counts) publish(n *counters) { c.dead.Store(n.dead) }

func (c *counts) failure(err error) {
	switch {
	case err == nil, errors.Is(err, ErrStopped), errors.Is(err, ErrInvalid), errors.Is(err, ErrEvicted):
	case errors.Is(err, ErrDuplicateID):
		c.conflicts.Add(1)
	case errors.Is(err, ErrBusy):
		c.busy.Add(1)
	default:
		c.failed.Add(1)
	}
}

// Stats is a snapshot of counters and gauges. It costs two stats of files and a
// short lock.
func (l *Log) Stats() Stats {
	c := &l.stats
	st := Stats{
		Opened: l.opened.Load() != nil,
		Groups: c.groups.Load(), Requests: c.requests.Load(), MaxGroup: int(c.maxGroup.Load()),
		CommitTime: time.Duration(c.commitTime.Load()), MaxCommit: time.Duration(c.maxCommit.Load()),
		Events: c.events.Load(), EventBytes: c.eventBytes.Load(),
		Duplicates: c.duplicates.Load(), Conflicts: c.conflicts.Load(),
		Evicted: c.evicted.Load(), Slices: c.slices.Load(),
		DeadLetters: c.deadLetters.Load(), Dead: c.dead.Load(),
		Checkpoints: c.checkpoints.Load(), Busy: c.busy.Load(), Failed: c.failed.Load(),
		Log: l.State(),
	}
	st.QueueCount, st.QueueBytes = l.queue.Load()
	if st.Opened {
		st.FileBytes, st.WALBytes = sqldb.Size(l.cfg.Path), sqldb.Size(l.cfg.Path+"-wal")
	}
	return st
}
