package eventlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// groupBytes bounds one commit, beside Config.GroupCount and groupTime: what it
// holds is rewritten when a group fails.
const groupBytes = 8 << 20

// A group ends when it has taken groupShare times as long as its commit will, so
// that answers do not wait for much more than what they share.
const (
	groupShare   = 3
	minGroupTime = time.Millisecond
	maxGroupTime = 10 * time.Millisecond
)

// writer makes all transactions. Its fields belong to its goroutine.
type writer struct {
	l     *Log
	queue *queue
	db    *database // nil until something was stored
	timer *time.Timer

	// saved is what the last commit holds, cur what the open transaction makes.
	saved, cur counters
	// dataVersion tells whether another process has written.
	dataVersion int64
	// now is the time of the open transaction, in unix milliseconds.
	now int64
	// fresh are the new events of the open transaction; duplicates were found.
	fresh      []Stored
	duplicates uint64
	group      []outcome

	maxGroup              int // Config.GroupCount
	maxDead, maxDeadBytes int64
	lastCommit            time.Duration
	leastGroup            time.Duration // minGroupTime

	// retryAt is when retention is tried again, after a failure.
	retryAt time.Time
	// walPages went into the write-ahead log since it was moved, pages into the
	// open transaction; both are estimated.
	walPages, pages int64
	// crowded is the size of the log, in pages, at which reads are paused.
	crowded int64
}

// outcome is a request of a group and what came of it.
type outcome struct {
	r   request
	err error
}

func newWriter(l *Log) *writer {
	return &writer{
		l: l, queue: l.queue, timer: time.NewTimer(time.Hour), crowded: crowdedPages,
		maxGroup: l.cfg.GroupCount, leastGroup: minGroupTime,
		maxDead: MaxDeadLetters, maxDeadBytes: MaxDeadLetterBytes,
	}
}

// open opens the database, or makes it. What it fails with is tried again with
// the next group: a disk may get room.
func (w *writer) open() error {
	err := sqldb.MakeDir(filepath.Dir(w.l.cfg.Path))
	var d *database
	var n counters
	if err == nil {
		d, n, err = openDatabase(w.l.cfg.Path, w.l.cfg.BusyTimeout)
	}
	if err != nil {
		err = fmt.Errorf("event log: opening %s: %w", w.l.cfg.Path, err)
		w.l.failed.Store(&err)
		return err
	}
	w.db, w.saved, w.cur = d, n, n
	w.l.failed.Store(nil)
	w.l.state.Store(n.state())
	w.l.stats.publish(&n)
	w.l.opened.Store(d)
	w.l.cfg.OnStore()
	return nil
}

// run is the writer's goroutine: groups and slices of retention take turns.
func (w *writer) run() {
	defer close(w.l.done)
	defer w.timer.Stop()
	for {
		waiting, stopped := w.queue.State()
		if stopped {
			w.refuse(w.l.cfg.QueueCount, ErrStopped)
			return
		}
		due := w.due()
		if waiting == 0 && due > 0 {
			w.timer.Reset(due)
			select {
			case <-w.queue.Ready():
			case <-w.timer.C:
			}
			continue
		}
		if waiting > 0 {
			w.runGroup(waiting)
		}
		if w.due() == 0 {
			w.slice()
		}
		if w.walPages >= checkpointPages {
			w.checkpoint()
		}
	}
}

// refuse answers as many as wait, n at most, with err.
func (w *writer) refuse(n int, err error) {
	for range n {
		r := w.queue.Take()
		if r == nil {
			return
		}
		w.finish(outcome{r, err})
	}
}

// runGroup takes requests as they wait and come into one transaction. Where there
// is none to be had, it refuses those that waited: what comes meanwhile has a try
// of its own.
func (w *writer) runGroup(waiting int) {
	if err := w.begin(); err != nil {
		w.refuse(min(waiting, w.maxGroup), err)
		return
	}
	w.group = w.group[:0]
	began := time.Now()
	var size int64
	for len(w.group) < w.maxGroup && size < groupBytes && time.Since(began) < w.groupTime() {
		r := w.queue.Take()
		if r == nil {
			break
		}
		size += r.bytes()
		o := outcome{r: r, err: r.apply(w)}
		w.group = append(w.group, o)
		if o.err != nil && !errors.Is(o.err, ErrDuplicateID) {
			w.rollback()
			w.eachAlone()
			return
		}
	}
	if err := w.commit(len(w.group)); err != nil {
		w.eachAlone()
		return
	}
	w.settle()
}

func (w *writer) groupTime() time.Duration {
	return max(min(groupShare*w.lastCommit, maxGroupTime), w.leastGroup)
}

// settle answers the group, whose transaction has ended.
func (w *writer) settle() {
	for i, o := range w.group {
		w.group[i] = outcome{}
		w.finish(o)
	}
}

func (w *writer) finish(o outcome) {
	w.l.stats.failure(o.err)
	w.queue.Release(o.r.bytes())
	o.r.answer(o.err)
}

// eachAlone repeats the requests of a failed group one by one, so that one which
// the database cannot take does not hurt the others.
func (w *writer) eachAlone() {
	for i := range w.group {
		o := &w.group[i]
		if o.err = w.begin(); o.err == nil {
			o.err = w.alone(o.r)
		}
		w.finish(*o)
		*o = outcome{}
	}
}

func (w *writer) alone(r request) error {
	if err := r.apply(w); err != nil {
		w.rollback()
		return err
	}
	return w.commit(1)
}

func (w *writer) begin() error {
	if w.db == nil {
		if err := w.openLate(); err != nil {
			return err
		}
	}
	if err := w.db.files.Check(); err != nil {
		return err
	}
	if err := w.db.writer.Begin(); err != nil {
		return fmt.Errorf("event log: begin: %w", err)
	}
	if err := w.refresh(); err != nil {
		w.rollback()
		return err
	}
	w.cur, w.pages, w.fresh, w.duplicates = w.saved, 0, w.fresh[:0], 0
	w.now = w.l.cfg.Now().UnixMilli()
	return nil
}

// openLate opens the database that was not there when the log was opened. That
// it has events by now means that somebody else made it.
func (w *writer) openLate() error {
	if err := w.open(); err != nil {
		return err
	}
	w.dataVersion = -1
	w.saved = counters{}
	return nil
}

// refresh reads the counters again when another process has written since the
// last transaction. What an operator has deleted is no longer counted; numbers
// that somebody else has given end the writing: their events have reached no
// consumer of this process, and their cursors would be wrong.
func (w *writer) refresh() error {
	version, err := w.db.writer.Int("PRAGMA data_version")
	if err != nil || version == w.dataVersion {
		return err
	}
	n, err := load(w.db.writer)
	if err != nil {
		return err
	}
	if n.last != w.saved.last {
		return fmt.Errorf("%w: its last number is %d, known is %d", ErrTwoRelays, n.last, w.saved.last)
	}
	w.saved, w.dataVersion = n, version
	return nil
}

// commit evicts what has to go, commits, and tells of the new events. After an
// error the transaction is rolled back.
func (w *writer) commit(requests int) error {
	if err := w.commitInside(); err != nil {
		w.rollback()
		return fmt.Errorf("event log: commit: %w", err)
	}
	w.l.stats.group(requests, w.lastCommit)
	w.landed()
	return nil
}

func (w *writer) commitInside() error {
	// At most twice as many leave as come, so that answers do not wait for the
	// past; what is left over is for slices.
	if err := w.evict(2*len(w.fresh), sliceTime); err != nil {
		return err
	}
	if w.cur != w.saved {
		if err := w.cur.save(w.db.writer); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := w.db.writer.Exec("COMMIT"); err != nil {
		return err
	}
	w.lastCommit = time.Since(began)
	return nil
}

// landed makes what the transaction has done visible (E3).
func (w *writer) landed() {
	w.l.stats.landed(&w.saved, &w.cur, w.fresh, w.duplicates)
	w.saved = w.cur
	w.walPages += w.pages
	w.l.state.Store(w.saved.state())
	if len(w.fresh) > 0 {
		w.l.cfg.Committed(w.fresh)
		clear(w.fresh) // their texts are not this goroutine's to keep
		w.fresh = w.fresh[:0]
	}
}

// rollback ends the transaction and forgets what it would have changed.
func (w *writer) rollback() {
	w.db.writer.Rollback()
	w.cur = w.saved
	clear(w.fresh)
	w.fresh = w.fresh[:0]
}

// checkpoint moves the log's pages into the database as far as readers allow. A
// log that is too long in spite of that starts over with the next transaction,
// once it was moved while nobody read.
func (w *writer) checkpoint() {
	w.walPages = 0
	w.l.stats.checkpoints.Add(1)
	pages := w.db.moveLog()
	if pages < w.crowded {
		if pages < crowdedPages {
			w.crowded = crowdedPages
		}
		return
	}
	// Against a reader outside of this process a pause does not help. It is not
	// repeated at each checkpoint then.
	w.crowded = w.db.moveLogAlone() + crowdedPages
}
