package eventlog

import (
	"database/sql"
	"time"
)

// Bounds of retention's work. A slice holds the writer for sliceTime and one
// batch; a batch is bounded by rows, and by bytes because a long text lies on
// pages that are freed one by one.
const (
	sliceTime  = 10 * time.Millisecond
	batchRows  = 64
	batchBytes = 2 << 20
)

// Bounds of the writer's sleep: retention by age is as exact as minSleep, and a
// clock that jumps is noticed within maxSleep.
const (
	minSleep = time.Second
	maxSleep = time.Minute
)

const (
	selectEldest = "SELECT seq, bytes, stored_at FROM events ORDER BY seq LIMIT ?"
	deleteUpTo   = "DELETE FROM events WHERE seq <= ?"
)

// passed tells whether a bound of B62 is passed at now, in unix milliseconds.
func (c *counters) passed(cfg *Config, now int64) bool {
	switch {
	case c.events == 0:
		return false
	case c.events > cfg.MaxEvents, c.bytes > cfg.MaxBytes && c.events > 1:
		return true
	}
	return now-c.oldestAt > cfg.MaxAge.Milliseconds()
}

// due is how long the writer may sleep as far as retention goes; 0: it has to
// do something now.
func (w *writer) due() time.Duration {
	if w.db == nil || w.saved.events == 0 {
		return maxSleep
	}
	if wait := time.Until(w.retryAt); wait > 0 {
		return wait
	}
	now, cfg := w.l.cfg.Now().UnixMilli(), &w.l.cfg
	if w.saved.passed(cfg, now) {
		return 0
	}
	left := cfg.MaxAge - time.Duration(now-w.saved.oldestAt)*time.Millisecond
	return min(max(left, minSleep), maxSleep)
}

// slice is one step of retention in a transaction of its own.
func (w *writer) slice() {
	err := w.begin()
	if err == nil {
		if err = w.evict(1<<30, sliceTime); err == nil {
			err = w.commitInside()
		}
		if err != nil {
			w.rollback()
		}
	}
	if err != nil {
		w.l.stats.failure(err)
		w.retryAt = time.Now().Add(minSleep)
		return
	}
	w.l.stats.slices.Add(1)
	w.landed()
}

// evict deletes the oldest events as long as a bound is passed, rows at most and
// not for much longer than budget.
func (w *writer) evict(rows int, budget time.Duration) error {
	began := time.Now()
	for rows > 0 && w.cur.passed(&w.l.cfg, w.now) {
		n, err := w.evictBatch(min(rows, batchRows))
		if err != nil {
			return err
		}
		if rows -= n; time.Since(began) >= budget {
			break
		}
	}
	return nil
}

// eldest is what retention reads of a row.
type eldest struct{ seq, bytes, at int64 }

// evictBatch deletes up to rows of the oldest events, at least one of them.
func (w *writer) evictBatch(rows int) (int, error) {
	var list [batchRows + 1]eldest
	n := 0
	err := w.db.writer.Rows(selectEldest, []any{rows + 1}, func(r *sql.Rows) error {
		e := &list[n]
		n++
		return r.Scan(&e.seq, &e.bytes, &e.at)
	})
	if err != nil {
		return 0, err
	}
	gone, size := 0, int64(0)
	for gone < min(n, rows) && size < batchBytes && w.cur.passed(&w.l.cfg, w.now) {
		e := &list[gone]
		gone++
		size += e.bytes
		w.cur.evicted = e.seq
		w.cur.events--
		w.cur.bytes -= e.bytes
		w.cur.oldest, w.cur.oldestAt = list[gone].seq, list[gone].at // zero after the last
	}
	if gone == n { // whatever the sums said, since another process may have deleted
		w.cur.events, w.cur.bytes, w.cur.oldest, w.cur.oldestAt = 0, 0, 0, 0
	}
	w.pages += int64(2*gone) + size/4096
	return max(gone, 1), w.db.writer.Exec(deleteUpTo, w.cur.evicted)
}
