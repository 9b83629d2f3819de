package firehosestore

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Bounds of the write-ahead log, in pages of 4 KiB where nothing else is said.
const (
	// checkpointRows were written at most, each to a page of its own in the worst
	// case, before the log is moved into the database after an Apply.
	checkpointRows = 2000
	// autoCheckpointPages are what SQLite waits for inside a commit.
	autoCheckpointPages = 4000
	// crowdedPages mean that reads keep the log from starting over: it is then
	// moved while nobody reads.
	crowdedPages = 2 * autoCheckpointPages
	// walKeepBytes is what the log's file is cut to after a large transaction.
	walKeepBytes = 64 << 20
)

// database is an open file: a connection that writes, and one that reads.
type database struct {
	// Immutable after construction.
	files *sqldb.Whereabouts

	// Guarded by Store.mu.
	writer *sqldb.Conn
	rows   int // written since the log was moved

	// Guarded by mu.
	mu     sync.Mutex
	reader *sqldb.Conn // nil when closed
}

// openDatabase opens the file or makes it, and brings its tables up to date.
func openDatabase(path string, busy time.Duration) (*database, error) {
	w, err := sqldb.Open(sqldb.Source(path, busy, "synchronous(FULL)", "foreign_keys(ON)",
		"wal_autocheckpoint("+strconv.Itoa(autoCheckpointPages)+")",
		"journal_size_limit("+strconv.Itoa(walKeepBytes)+")",
		"cache_size(-16384)", "temp_store(MEMORY)"))
	if err != nil {
		return nil, explain(err)
	}
	d := &database{writer: w}
	if err = prepare(w); err == nil {
		err = examine(w)
	}
	if err == nil {
		d.reader, err = sqldb.Open(sqldb.Source(path, busy, "query_only(ON)", "cache_size(-4096)", "temp_store(MEMORY)"))
	}
	if err == nil {
		d.files, err = sqldb.WhereaboutsOf(path)
	}
	if err != nil {
		return nil, errors.Join(explain(err), d.close())
	}
	return d, nil
}

// close closes the writing connection last: it cleans the log up.
func (d *database) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.reader != nil {
		err = d.reader.Close()
		d.reader = nil
	}
	return errors.Join(err, d.writer.Close())
}

// transaction runs f in a transaction; a failure leaves no trace. It returns how
// long the commit took. The caller holds Store.mu.
func (d *database) transaction(f func(*sqldb.Conn) error) (took time.Duration, err error) {
	if err := d.files.Check(); err != nil {
		return 0, err
	}
	return d.writer.Transaction(f)
}

// read runs f on the reading connection; each of its statements sees one state.
func (d *database) read(f func(*sqldb.Conn) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reader == nil {
		return ErrStopped
	}
	return f(d.reader)
}

// wrote counts rows of a committed batch and moves the log into the database
// when there are enough: SQLite's own checkpoint would leave it to grow as long
// as reads come. It reports whether it did. The caller holds Store.mu.
func (d *database) wrote(rows int) (moved bool) {
	if d.rows += rows; d.rows < checkpointRows {
		return false
	}
	d.rows = 0
	if d.moveLog() < crowdedPages {
		return true
	}
	d.mu.Lock() // who reads after this needs the database only
	defer d.mu.Unlock()
	d.moveLog()
	return true
}

// moveLog returns how many pages the log has. A failure leaves the pages where
// they are, safe; the next one tries again.
func (d *database) moveLog() (pages int64) {
	var busy, moved int64
	_ = d.writer.Row("PRAGMA wal_checkpoint(PASSIVE)", nil, &busy, &pages, &moved)
	return pages
}
