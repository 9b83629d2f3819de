package devicestore

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Bounds of the write-ahead log.
const (
	// autoCheckpointPages of 4 KiB are what SQLite waits for inside a commit.
	autoCheckpointPages = 2000
	// crowdedBytes mean that reads kept the log from starting over: it is then
	// moved while this process does not read. It is also what the log's file is cut
	// to after a large transaction.
	crowdedBytes = 64 << 20
)

// database is an open file: a connection that writes, and one that reads.
type database struct {
	// Immutable after construction.
	path  string
	files *sqldb.Whereabouts

	// Guarded by Store.mu.
	writer *sqldb.Conn

	// Guarded by mu.
	mu     sync.Mutex
	reader *sqldb.Conn // nil when closed
}

// openDatabase opens the file and has prepare see to its tables.
func openDatabase(path string, busy time.Duration, prepare func(*sqldb.Conn) error) (*database, error) {
	w, err := sqldb.Open(sqldb.Source(path, busy, "synchronous(FULL)",
		"wal_autocheckpoint("+strconv.Itoa(autoCheckpointPages)+")",
		"journal_size_limit("+strconv.Itoa(crowdedBytes)+")",
		"cache_size(-16384)", "temp_store(MEMORY)"))
	if err != nil {
		return nil, explain(err)
	}
	d := &database{path: path, writer: w}
	if err = prepare(w); err == nil {
		d.reader, err = sqldb.Open(sqldb.Source(path, busy, "query_only(ON)", "cache_size(-8192)", "temp_store(MEMORY)"))
	}
	if err == nil {
		_, err = d.reader.Int("SELECT count(*) FROM state") // makes the log's file
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

// transaction runs f in a transaction that holds the lock among all processes,
// so that what f reads stays true until it commits (V2); a failure leaves no
// trace. The caller holds Store.mu.
func (d *database) transaction(f func(*sqldb.Conn) error) error {
	if err := d.files.Check(); err != nil {
		return err
	}
	if _, err := d.writer.Transaction(f); err != nil {
		return err
	}
	d.boundLog()
	return nil
}

// boundLog moves a log that has grown large into the database. A failure leaves
// the pages where they are, safe; the next commit tries again.
func (d *database) boundLog() {
	if sqldb.Size(d.path+"-wal") <= crowdedBytes {
		return
	}
	d.mu.Lock() // who reads after this needs the database only
	defer d.mu.Unlock()
	var busy, pages, moved int64
	_ = d.writer.Row("PRAGMA wal_checkpoint(PASSIVE)", nil, &busy, &pages, &moved)
}

// read runs f on the reading connection; each of its statements sees one state.
func (d *database) read(f func(*sqldb.Conn) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reader == nil {
		return ErrClosed
	}
	return f(d.reader)
}
