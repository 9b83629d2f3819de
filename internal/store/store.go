package store

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Store is the database of the sync relay. Any goroutine may call its methods;
// those without "Async" in their name block.
type Store struct {
	// immutable after construction
	cfg     Config
	id      string
	writer  *sqldb.Conn
	readers *readers
	files   *sqldb.Whereabouts
	queue   *queue
	done    chan struct{} // closed when the writer has ended
	stop    chan struct{} // closed by Close
	ended   sync.WaitGroup
	closing sync.Once
	closed  error

	// atomic
	stats counts
}

// Open opens or makes the database, brings its schema up to date, and starts
// the writer. ErrNewerSchema: a newer program made it (S50).
func Open(cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	db, err := sqldb.Open(sqldb.Source(cfg.Path, cfg.BusyTimeout,
		"journal_mode(WAL)", "synchronous("+cfg.Synchronous+")", "foreign_keys(ON)",
		"wal_autocheckpoint("+strconv.Itoa(autoCheckpointPages)+")",
		"journal_size_limit("+strconv.Itoa(walKeepBytes)+")",
		"cache_size(-16384)", "temp_store(MEMORY)"))
	if err != nil {
		return nil, fmt.Errorf("store: opening %s: %w", cfg.Path, err)
	}
	s := &Store{
		cfg: cfg, writer: db, queue: sqldb.NewQueue[request](cfg.QueueCount, cfg.QueueBytes, ErrStopped),
		done: make(chan struct{}), stop: make(chan struct{}),
	}
	w, lastRun, err := s.prepare()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: opening %s: %w", cfg.Path, err), db.Close())
	}
	s.readers, err = openReaders(sqldb.Source(cfg.Path, cfg.BusyTimeout,
		"query_only(ON)", "cache_size(-4096)", "temp_store(MEMORY)"), cfg.Readers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: opening %s to read: %w", cfg.Path, err), db.Close())
	}
	s.files, err = sqldb.WhereaboutsOf(cfg.Path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: opening %s: %w", cfg.Path, err), s.readers.close(), db.Close())
	}
	go w.run()
	s.ended.Go(func() { s.maintain(lastRun) })
	return s, nil
}

// prepare migrates and reads what the writer starts from.
func (s *Store) prepare() (w *writer, lastRun time.Time, err error) {
	now := s.cfg.Now()
	if err := migrate(s.writer, migrations, now); err != nil {
		return nil, lastRun, err
	}
	w = &writer{
		maxGroup: s.cfg.GroupCount, leastGroup: minGroupTime, crowded: crowdedPages,
		s: s, db: s.writer, queue: s.queue, started: now,
		making: make(map[string]*compactFirst), dense: make(map[string]struct{}),
	}
	if err := w.load(); err != nil {
		return nil, lastRun, err
	}
	ran, err := meta(s.writer, metaCompacted)
	if err != nil {
		return nil, lastRun, err
	}
	err = s.writer.Row("SELECT value FROM relay_meta WHERE key = ?", []any{metaStoreID}, &s.id)
	if err != nil {
		return nil, lastRun, err
	}
	w.saved.start(s.cfg.Floor, now)
	w.cur = w.saved
	s.stats.publish(w.saved)
	return w, time.UnixMilli(ran), w.resumeSweeps()
}

// resumeInterval is how often the rows of closed owners are looked at again
// when their deletion had failed.
const resumeInterval = time.Minute

// maintain starts compactions when they are due, counted from the stored last
// run (S37), and repeats failed sweeps.
func (s *Store) maintain(lastRun time.Time) {
	resume := time.NewTicker(resumeInterval)
	defer resume.Stop()
	compact := time.NewTimer(time.Hour)
	defer compact.Stop()
	interval := s.cfg.CompactionInterval
	if interval < 0 {
		compact.Stop()
	} else {
		compact.Reset(max(0, interval-s.cfg.Now().Sub(lastRun)))
	}
	for {
		select {
		case <-s.stop:
			return
		case <-resume.C:
			s.submit(resumeRequest{}, func(error) {})
		case <-compact.C:
			// A failed run is repeated after a whole interval too: it failed for want
			// of space or on a broken file, which trying again does not mend.
			_, _ = s.CompactAll()
			compact.Reset(interval)
		}
	}
}

// Close answers waiting writes with ErrStopped, ends the writer after its
// transaction and closes the connections. It may be called more than once.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.stop)
		s.queue.Stop()
		<-s.done
		s.ended.Wait()
		// The writing connection closes last: it cleans the write-ahead log up.
		s.closed = errors.Join(s.readers.close(), s.writer.Close())
	})
	return s.closed
}

// StoreID is the database's random identity, for logs.
func (s *Store) StoreID() string { return s.id }
