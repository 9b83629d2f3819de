package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Bounds of one group, beside groupTime, and of one slice, which are S38's.
const (
	groupCount = 256
	groupBytes = 8 << 20
	sliceRows  = 2000
	sliceTime  = 10 * time.Millisecond
	// checkpointPages of 4 KiB, estimated, are let into the write-ahead log before
	// the writer moves them into the database after its answers. SQLite's own
	// checkpoint inside a commit waits for autoCheckpointPages.
	checkpointPages     = 1000
	autoCheckpointPages = 4000
	// crowdedPages in the log mean that readers keep it from starting over: it
	// does so in a moment when nobody reads its pages only, and pulls that overlap
	// leave none (213 MB of pushes made 213 MB of log).
	crowdedPages = 2 * autoCheckpointPages
	// walKeepBytes is what the log's file is cut to after a large transaction.
	walKeepBytes = 64 << 20
)

// writer owns the writing connection. Its fields belong to its goroutine.
type writer struct {
	s       *Store
	db      *sqldb.Conn
	queue   *queue
	started time.Time

	// saved is what the last commit holds, cur what the open transaction makes.
	saved, cur counters
	// dataVersion tells whether another process has written.
	dataVersion int64
	// stamp is the time of the open transaction in S9's form.
	stamp string

	// maxGroup is Config.GroupCount.
	maxGroup   int
	lastCommit time.Duration
	leastGroup time.Duration // minGroupTime
	group      []outcome
	background []request
	// compacting is the running S37, if any; sweepFailed asks for another look at
	// the rows of closed owners.
	compacting  *compactAll
	sweepFailed bool
	// making holds the compactions that requests wait for (S23a), by owner; dense
	// the owners that got no event since such a compaction.
	making map[string]*compactFirst
	dense  map[string]struct{}
	// walPages went into the write-ahead log since the last checkpoint, pages
	// into the open transaction; both are estimated.
	walPages, pages int64
	// crowded is the size of the log, in pages, at which pulls are paused.
	crowded int64
}

// outcome is a request of a group and what came of it.
type outcome struct {
	r    request
	more bool
	err  error
}

func (w *writer) now() time.Time { return w.s.cfg.Now() }

// run is the writer's goroutine: groups and slices take turns.
func (w *writer) run() {
	defer close(w.s.done)
	for {
		waiting, stopped := w.queue.State()
		if stopped {
			w.refuseAll()
			return
		}
		if waiting == 0 && len(w.background) == 0 {
			<-w.queue.Ready()
			continue
		}
		if waiting > 0 {
			w.runGroup(waiting)
		}
		if len(w.background) > 0 {
			r := w.background[0]
			w.background = w.background[1:]
			w.s.stats.slices.Add(1)
			w.alone(r)
		}
		if w.walPages >= checkpointPages {
			w.checkpoint()
		}
	}
}

// refuseAll answers everything that waits; the queue takes no more.
func (w *writer) refuseAll() {
	for r := w.queue.Take(); r != nil; r = w.queue.Take() {
		w.finish(r, ErrStopped)
	}
	rest := w.background
	w.background = nil
	for _, r := range rest {
		w.finish(r, ErrStopped)
	}
	if len(w.background) > 0 { // pushes that waited for a compaction
		w.refuseAll()
	}
}

// runGroup takes requests as they wait and come into one transaction.
//
// Where there is none to be had it refuses those that waited for it: what comes
// meanwhile has a try of its own.
func (w *writer) runGroup(waiting int) {
	w.group = w.group[:0]
	if err := w.begin(); err != nil {
		w.refuseGroup(min(waiting, groupCount), err)
		return
	}
	began := time.Now()
	var size int64
	for len(w.group) < w.maxGroup && size < groupBytes && time.Since(began) < w.groupTime() {
		r := w.queue.Take()
		if r == nil {
			break
		}
		size += r.bytes()
		o := outcome{r: r}
		o.more, o.err = w.apply(r)
		w.group = append(w.group, o)
		if sqldb.FromSQLite(o.err) {
			w.rollback()
			w.eachAlone()
			return
		}
	}
	if err := w.commit(len(w.group)); err != nil {
		w.rollback()
		if len(w.group) == 1 {
			w.group[0].err = err
			w.settle(w.group[0])
			return
		}
		w.eachAlone()
		return
	}
	for i := range w.group {
		w.settle(w.group[i])
		w.group[i] = outcome{}
	}
}

// A group ends when it has taken groupShare times as long as its commit will, so
// that answers do not wait for much more than what they share: batches gain
// nothing from a group, single events most of their time.
const (
	groupShare   = 3
	minGroupTime = time.Millisecond
	maxGroupTime = 10 * time.Millisecond
)

func (w *writer) groupTime() time.Duration {
	return max(min(groupShare*w.lastCommit, maxGroupTime), w.leastGroup)
}

// refuseGroup answers so many requests.
func (w *writer) refuseGroup(count int, err error) {
	for range count {
		r := w.queue.Take()
		if r == nil {
			return
		}
		w.finish(r, err)
	}
}

// eachAlone repeats the requests of a failed group one by one, so that one
// which the database cannot take does not hurt the others.
func (w *writer) eachAlone() {
	for i := range w.group {
		w.alone(w.group[i].r)
		w.group[i] = outcome{}
	}
}

// alone runs one request, or its next slice, in a transaction of its own.
func (w *writer) alone(r request) {
	o := outcome{r: r}
	if err := w.begin(); err != nil {
		o.err = err
		w.settle(o)
		return
	}
	o.more, o.err = w.apply(r)
	if sqldb.FromSQLite(o.err) {
		w.rollback()
	} else if err := w.commit(1); err != nil {
		w.rollback()
		o.err = err
	}
	w.settle(o)
}

// apply runs r inside a savepoint (S21); a failure leaves no trace.
func (w *writer) apply(r request) (more bool, err error) {
	before, pages := w.cur, w.pages
	if err := w.db.Exec("SAVEPOINT request"); err != nil {
		return false, err
	}
	more, err = guarded(r, w)
	if err == nil {
		return more, w.db.Exec("RELEASE request")
	}
	if sqldb.FromSQLite(err) {
		return false, err
	}
	w.cur, w.pages = before, pages
	if undo := w.db.Exec("ROLLBACK TO request"); undo != nil {
		return false, errors.Join(err, undo)
	}
	return false, errors.Join(err, w.db.Exec("RELEASE request"))
}

// guarded turns a panic of a request, such as of the sequence it reads, into
// that request's error.
func guarded(r request, w *writer) (more bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			more, err = false, fmt.Errorf("store: request panicked: %v", p)
		}
	}()
	return r.apply(w)
}

func (w *writer) begin() error {
	if err := w.s.files.Check(); err != nil {
		return err
	}
	err := w.db.Begin()
	if err == nil {
		if err = w.refresh(); err != nil {
			w.rollback()
		}
	}
	w.cur, w.pages, w.stamp = w.saved, 0, isoTime(w.now())
	return err
}

// refresh reads the counters again when another process has written since the
// last transaction: an operator's shell, or a second relay by mistake.
func (w *writer) refresh() error {
	version, err := w.db.Int("PRAGMA data_version")
	if err != nil || version == w.dataVersion {
		return err
	}
	if err := w.load(); err != nil {
		return err
	}
	w.dataVersion = version
	return nil
}

// load reads the counters. An epoch that this run has open is left when the
// numbers went on without it (S30).
func (w *writer) load() error {
	c := w.saved
	for _, f := range []struct {
		value *int64
		query string
	}{
		{&c.last, "SELECT CAST(value AS INTEGER) FROM relay_meta WHERE key = 'last_seq'"},
		{&c.total, "SELECT CAST(value AS INTEGER) FROM relay_meta WHERE key = 'total_bytes'"},
		{&c.owners, "SELECT count(*) FROM owners"},
	} {
		n, err := w.db.Int(f.query)
		if err != nil {
			return err
		}
		*f.value = n
	}
	if c.last != w.saved.last {
		c.epoch = 0
	}
	w.saved = c
	return nil
}

// commit writes the counters and commits.
func (w *writer) commit(requests int) error {
	if w.cur.last != w.saved.last {
		if err := w.saveEpoch(); err != nil {
			return err
		}
		if err := setMeta(w.db, metaLastSeq, w.cur.last); err != nil {
			return err
		}
	}
	if w.cur.total != w.saved.total {
		if err := setMeta(w.db, metaTotalBytes, w.cur.total); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := w.db.Exec("COMMIT"); err != nil {
		return err
	}
	w.lastCommit = time.Since(began)
	w.s.stats.group(requests, w.lastCommit)
	w.saved = w.cur
	w.s.stats.publish(w.saved)
	w.walPages += w.pages
	return nil
}

// rollback ends the transaction and forgets what it would have changed.
func (w *writer) rollback() {
	w.db.Rollback()
	w.cur = w.saved
}

// settle follows a request's transaction: an answer, or its next slice.
func (w *writer) settle(o outcome) {
	if o.err == nil {
		o.r.committed(w)
	}
	if o.err == nil && o.more {
		w.background = append(w.background, o.r)
		return
	}
	if c, ok := o.r.(compactable); ok && errors.Is(o.err, ErrQuota) && c.mayCompact() && w.compactThen(c.owner(), o.r) {
		return
	}
	w.finish(o.r, o.err)
}

func (w *writer) finish(r request, err error) {
	w.s.stats.failure(err)
	if _, internal := r.(internalRequest); !internal {
		w.queue.Release(r.bytes())
	}
	r.answer(w, err)
}

// internalRequest marks work that did not come through the queue.
type internalRequest interface{ internal() }

// checkpoint moves the log's pages into the database as far as readers allow. A
// log that is too long in spite of that starts over with the next transaction,
// once it was moved while nobody read: who reads later needs the database only.
func (w *writer) checkpoint() {
	w.walPages = 0
	w.s.stats.checkpoints.Add(1)
	log := w.moveLog()
	if log < w.crowded {
		if log < crowdedPages {
			w.crowded = crowdedPages
		}
		return
	}
	w.s.readers.pause(func() { log = w.moveLog() })
	// Against a reader outside of this process a pause does not help. It is
	// not repeated at each checkpoint then.
	w.crowded = log + crowdedPages
}

// moveLog returns how many pages the log has. A failure leaves the pages where
// they are, safe; the next one tries again.
func (w *writer) moveLog() (pages int64) {
	var busy, moved int64
	_ = w.db.Row("PRAGMA wal_checkpoint(PASSIVE)", nil, &busy, &pages, &moved)
	return pages
}
