package firehosestore

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
	// Commits took CommitTime together, the longest MaxCommit.
	Commits    uint64
	CommitTime time.Duration
	MaxCommit  time.Duration
	// Repos and Cursors were stored by batches, each save counted.
	Repos, Cursors uint64
	// Checkpoints moved the log into the database, besides SQLite's own.
	Checkpoints uint64
	// Busy counts calls that failed for another process's lock, Failed those that
	// failed for the disk or the database. What was invalid is in neither.
	Busy, Failed uint64
}

// counts are the sources of Stats. All are atomic; max is written with Store.mu
// held.
type counts struct {
	commits, repos, cursors, checkpoints, busy, failed atomic.Uint64
	total, max                                         atomic.Int64
}

func (c *counts) committed(took time.Duration) {
	c.commits.Add(1)
	c.total.Add(int64(took))
	c.max.Store(max(c.max.Load(), int64(took)))
}

func (c *counts) failure(err error) {
	switch {
	case err == nil, errors.Is(err, ErrStopped), errors.Is(err, ErrInvalid), errors.Is(err, ErrUnknownHost):
	case errors.Is(err, ErrBusy):
		c.busy.Add(1)
	default:
		c.failed.Add(1)
	}
}

// Stats is a snapshot of counters and gauges. It costs two stats of files and
// waits for nobody.
func (s *Store) Stats() Stats {
	c := &s.stats
	st := Stats{
		Opened:  s.opened.Load() != nil,
		Commits: c.commits.Load(), CommitTime: time.Duration(c.total.Load()), MaxCommit: time.Duration(c.max.Load()),
		Repos: c.repos.Load(), Cursors: c.cursors.Load(), Checkpoints: c.checkpoints.Load(),
		Busy: c.busy.Load(), Failed: c.failed.Load(),
	}
	if st.Opened {
		st.FileBytes, st.WALBytes = sqldb.Size(s.cfg.Path), sqldb.Size(s.cfg.Path+"-wal")
	}
	return st
}
