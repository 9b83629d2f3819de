package eventlog

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Bounds of the write-ahead log, in pages of 4 KiB where nothing else is said.
const (
	// checkpointPages, estimated, are let into the log before the writer moves them
	// into the database, after its answers. SQLite's own checkpoint inside a commit
	// waits for autoCheckpointPages.
	checkpointPages     = 1000
	autoCheckpointPages = 4000
	// crowdedPages mean that pages that are read keep the log from starting over:
	// it is then moved while nobody reads.
	crowdedPages = 2 * autoCheckpointPages
	// walKeepBytes is what the log's file is cut to after a large transaction.
	walKeepBytes = 64 << 20
)

// readerCount is how many pages are read at once; more wait.
const readerCount = 4

// database is an open file: a connection that writes, and some that read.
type database struct {
	// Immutable after construction.
	files   *sqldb.Whereabouts
	readers chan *sqldb.Conn // those not in use
	count   int              // of readers
	stopped chan struct{}    // closed by close

	// Owned by the writer's goroutine, and after its end by close.
	writer *sqldb.Conn

	// open is held for reading while a state is, after its connection was got.
	open sync.RWMutex
}

// openDatabase opens the file or makes it, and brings its tables up to date.
func openDatabase(path string, busy time.Duration) (*database, counters, error) {
	w, err := sqldb.Open(sqldb.Source(path, busy, "synchronous(FULL)",
		"wal_autocheckpoint("+strconv.Itoa(autoCheckpointPages)+")",
		"journal_size_limit("+strconv.Itoa(walKeepBytes)+")",
		"cache_size(-16384)", "temp_store(MEMORY)"))
	if err != nil {
		return nil, counters{}, explain(err)
	}
	d := &database{writer: w, readers: make(chan *sqldb.Conn, readerCount), stopped: make(chan struct{})}
	var n counters
	if err = prepare(w); err == nil {
		n, err = examine(w)
	}
	for err == nil && d.count < readerCount {
		var r *sqldb.Conn
		r, err = sqldb.Open(sqldb.Source(path, busy, "query_only(ON)", "cache_size(-4096)", "temp_store(MEMORY)"))
		if err == nil {
			d.readers <- r
			d.count++
		}
	}
	if err == nil {
		d.files, err = sqldb.WhereaboutsOf(path)
	}
	if err != nil {
		return nil, counters{}, errors.Join(explain(err), d.close())
	}
	return d, n, nil
}

// close waits for the reads under way. It closes the writing connection last: it
// cleans the log up.
func (d *database) close() error {
	close(d.stopped)
	var errs []error
	for range d.count {
		errs = append(errs, (<-d.readers).Close())
	}
	return errors.Join(append(errs, d.writer.Close())...)
}

// read runs f on one state of the database. It waits for a connection.
func (d *database) read(f func(*sqldb.Conn) error) error {
	var c *sqldb.Conn
	select {
	case <-d.stopped:
		return ErrStopped
	case c = <-d.readers:
	}
	defer func() { d.readers <- c }()
	d.open.RLock() // the state is taken by the first statement, not by BEGIN
	defer d.open.RUnlock()
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	err := f(c)
	return errors.Join(err, c.Exec("ROLLBACK"))
}

// moveLog moves the write-ahead log into the database as far as readers allow,
// and returns how many pages it has. A failure leaves the pages where they are,
// safe; the next one tries again.
func (d *database) moveLog() (pages int64) {
	var busy, moved int64
	_ = d.writer.Row("PRAGMA wal_checkpoint(PASSIVE)", nil, &busy, &pages, &moved)
	return pages
}

// moveLogAlone is moveLog while nobody reads. Reads that come meanwhile wait.
func (d *database) moveLogAlone() (pages int64) {
	d.open.Lock()
	defer d.open.Unlock()
	return d.moveLog()
}
