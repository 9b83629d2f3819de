package firehosestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Errors of the store. Each may be wrapped; use errors.Is.
var (
	// ErrBusy: another process held the database's lock for longer than the busy
	// timeout. Nothing was stored; it may be tried again.
	ErrBusy = sqldb.ErrBusy
	// ErrDiskFull: there was no room. Nothing was stored; reads go on.
	ErrDiskFull = sqldb.ErrDiskFull
	// ErrTakenAway: the database or its log was removed or replaced under the
	// running relay. Nothing is stored any more until it is back.
	ErrTakenAway = sqldb.ErrTakenAway
	// ErrNewerSchema stops a start: a newer program has made the database.
	ErrNewerSchema = sqldb.ErrNewerSchema
	// ErrUnreadable stops a start: the file is there, and what is in it is not
	// what this package wrote (K4).
	ErrUnreadable = errors.New("firehose store: the state cannot be read")
	// ErrTwoRelays: another process has reserved numbers in this database since
	// this one read it (K2).
	ErrTwoRelays = errors.New("firehose store: another relay takes numbers from this database")
	// ErrInvalid is of values that no row can have. Nothing was stored.
	ErrInvalid = errors.New("firehose store: invalid value")
	// ErrUnknownHost is of a batch that names a host without a row. Nothing was
	// stored.
	ErrUnknownHost = errors.New("firehose store: unknown host")
	// ErrStopped: the store is closed.
	ErrStopped = errors.New("firehose store: closed")
)

// DefaultBusyTimeout is that of a zero Config.BusyTimeout.
const DefaultBusyTimeout = 5 * time.Second

// Config is what a Store needs. A zero field but Path takes its default.
type Config struct {
	// Path is the database file. It and its directory are made when something is
	// first stored.
	Path string
	// OnStore, if set, is called once, when the database is opened: by Open if it
	// is there, or before the first write. It must not call the store.
	OnStore func()
	// BusyTimeout is how long a lock of another process is waited for.
	BusyTimeout time.Duration
	// Now is the clock of created_at and updated_at, default time.Now.
	Now func() time.Time
}

// Store is the firehose's database, made when something is first stored. Any
// goroutine that may block may call its methods.
type Store struct {
	// Immutable after construction.
	cfg Config

	// Atomic.
	opened atomic.Pointer[database]
	failed atomic.Pointer[error] // why the database could not be made
	stats  counts

	// Guarded by mu, which is held during writes, opening and closing.
	mu       sync.Mutex
	taken    int64 // what this process knows as reserved (K2)
	closed   bool
	closeErr error
}

// Store keeps the numbers (F25).
var _ firehose.Marks = (*Store)(nil)

// Open opens the database if it is there, and otherwise waits for the first
// write. Errors: ErrUnreadable, ErrNewerSchema, ErrBusy, and those of the file
// system; the file is left as it is.
func Open(cfg Config) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("firehose store: no path")
	}
	if cfg.BusyTimeout <= 0 {
		cfg.BusyTimeout = DefaultBusyTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.OnStore == nil {
		cfg.OnStore = func() {}
	}
	s := &Store{cfg: cfg}
	if sqldb.Size(cfg.Path) == 0 && sqldb.Size(cfg.Path+"-wal") != 0 {
		// SQLite would throw the log away, and what was reserved in it.
		return nil, fmt.Errorf("%w: %s-wal has no database: put it beside the log, or move the log away",
			ErrUnreadable, cfg.Path)
	}
	switch info, err := os.Stat(cfg.Path); {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return s, nil // a disk without room leaves an empty file
	case err != nil:
		return nil, fmt.Errorf("firehose store: opening %s: %w", cfg.Path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.openLocked(); err != nil {
		return nil, err
	}
	st, err := s.load()
	if err != nil {
		return nil, errors.Join(err, s.closeLocked())
	}
	s.taken = st.Reserved
	return s, nil
}

// openLocked returns the database, which it makes unless it is there. What it
// fails with is tried again with the next write: a disk may get room.
func (s *Store) openLocked() (*database, error) {
	if s.closed {
		return nil, ErrStopped
	}
	if d := s.opened.Load(); d != nil {
		return d, nil
	}
	err := sqldb.MakeDir(filepath.Dir(s.cfg.Path))
	var d *database
	if err == nil {
		d, err = openDatabase(s.cfg.Path, s.cfg.BusyTimeout)
	}
	if err != nil {
		err = fmt.Errorf("firehose store: opening %s: %w", s.cfg.Path, err)
		s.failed.Store(&err)
		return nil, err
	}
	s.failed.Store(nil)
	s.opened.Store(d)
	s.cfg.OnStore()
	return d, nil
}

// write runs f in one transaction of its own, all or nothing, which is on the
// medium when write returns nil (K1). f runs with mu held.
func (s *Store) write(f func(*sqldb.Conn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(f)
}

func (s *Store) writeLocked(f func(*sqldb.Conn) error) error {
	d, err := s.openLocked()
	if err == nil {
		var took time.Duration
		if took, err = d.transaction(f); err == nil {
			s.stats.committed(took)
			return nil
		}
	}
	s.stats.failure(err)
	return err
}

// read runs f on the reading connection. Without a database it does not run it.
func (s *Store) read(f func(*sqldb.Conn) error) error {
	d := s.opened.Load()
	if d == nil {
		return nil
	}
	err := d.read(f)
	s.stats.failure(err)
	return err
}

// Ping reads one row of a database that is still at its place. Where the last
// attempt to make it failed, it returns why.
func (s *Store) Ping() error {
	d := s.opened.Load()
	if d == nil {
		if err := s.failed.Load(); err != nil {
			return *err
		}
		return nil
	}
	if err := d.files.Check(); err != nil {
		return err
	}
	_, err := s.load()
	return err
}

// Close waits for the write under way and closes the database, if it was made.
// Later writes fail with ErrStopped. It may be called more than once.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeLocked()
}

func (s *Store) closeLocked() error {
	if s.closed {
		return s.closeErr
	}
	s.closed = true
	if d := s.opened.Load(); d != nil {
		s.closeErr = d.close()
	}
	return s.closeErr
}
