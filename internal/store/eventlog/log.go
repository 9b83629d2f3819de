package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Log is the durable event log, whose file is made when something is first
// stored. Any goroutine may call its methods; see the package for those that
// block.
type Log struct {
	// Immutable after construction.
	cfg   Config
	queue *queue
	done  chan struct{} // closed when the writer has ended

	// Atomic.
	opened atomic.Pointer[database]
	failed atomic.Pointer[error] // why the database could not be made
	state  atomic.Pointer[State]
	stats  counts

	// closed is written once, inside closing.
	closing sync.Once
	closed  error
}

// Open opens the database if it is there, and otherwise waits for the first
// append. It starts the writer's goroutine. Errors: ErrUnreadable,
// ErrNewerSchema, ErrBusy, and those of the file system; the file is left as it
// is.
func Open(cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, queue: sqldb.NewQueue[request](cfg.QueueCount, cfg.QueueBytes, ErrStopped), done: make(chan struct{})}
	l.state.Store(&State{})
	w := newWriter(l)
	there, err := exists(cfg.Path)
	if err == nil && there {
		err = w.open()
	}
	if err != nil {
		return nil, err
	}
	go w.run()
	return l, nil
}

// exists tells whether there is a database to open. An empty file is none: a
// disk without room leaves one.
func exists(path string) (bool, error) {
	if sqldb.Size(path) == 0 && sqldb.Size(path+"-wal") != 0 {
		// SQLite would throw the log away, and the numbers given in it.
		return false, fmt.Errorf("%w: %s-wal has no database: put it beside the log, or move the log away",
			ErrUnreadable, path)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("event log: opening %s: %w", path, err)
	}
	return true, nil
}

// Append stores the event, or finds it stored (B56), and calls done once: on the
// writer's goroutine after the commit (E1), or before Append returns when it is
// refused at once, with ErrBusy, ErrStopped or ErrInvalid. Later errors are
// ErrDuplicateID, ErrDiskFull, ErrBusy, ErrTakenAway, ErrTwoRelays, ErrStopped
// and those of the file system. It takes a short lock only. The event's text is
// the log's from now on, unless it was refused at once.
func (l *Log) Append(e Event, done func(Result, error)) {
	err := e.check()
	if err == nil {
		r := &appendRequest{event: e, done: done}
		err = l.queue.Put(r, r.bytes())
	}
	if err != nil {
		l.stats.failure(err)
		done(Result{}, err)
	}
}

// DeadLetter stores d, and drops the oldest dead letters when MaxDeadLetters or
// MaxDeadLetterBytes is passed (B58). It waits in the same queue as events do,
// and answers and fails as Append does.
func (l *Log) DeadLetter(d DeadLetter, done func(error)) {
	err := d.check()
	if err == nil {
		r := &deadRequest{letter: d, done: done}
		err = l.queue.Put(r, r.bytes())
	}
	if err != nil {
		l.stats.failure(err)
		done(err)
	}
}

// State is what the log holds as of the last commit. It waits for nobody. A
// reader in another goroutine may see a commit's events a moment before.
func (l *Log) State() State { return *l.state.Load() }

// Evicted is State's, B51's E.
func (l *Log) Evicted() int64 { return l.state.Load().Evicted }

// Oldest is State's, B51's O; 0 when the log is empty.
func (l *Log) Oldest() int64 { return l.state.Load().Oldest }

// Newest is State's, B51's H.
func (l *Log) Newest() int64 { return l.state.Load().Newest }

// Ping reads one row of a database that is still at its place. Where the last
// attempt to make it failed, it returns why.
func (l *Log) Ping() error {
	d := l.opened.Load()
	if d == nil {
		if err := l.failed.Load(); err != nil {
			return *err
		}
		return nil
	}
	if err := d.files.Check(); err != nil {
		return err
	}
	return d.read(func(c *sqldb.Conn) error {
		_, err := load(c)
		return err
	})
}

// Close waits for the commit under way, answers all that waits with ErrStopped,
// and closes the database, if it was made, when the reads under way have ended.
// Later calls fail with ErrStopped. It may be called more than once, and not by
// a callback.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.queue.Stop()
		<-l.done
		if d := l.opened.Load(); d != nil {
			l.closed = d.close()
		}
	})
	return l.closed
}
