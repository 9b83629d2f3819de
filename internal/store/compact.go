package store

import (
	"database/sql"
	"time"
)

// compaction walks the stream index in order and deletes every event that is
// followed by another of its stream (S37), in slices (S38). It is a step shared
// by three requests: compactAll, compactFirst, and tests.
//
// A row is judged by its successor inside the transaction that deletes it, so
// whatever is pushed between slices, the newest of a stream always stays. What
// a push adds behind the walk is left to the next run.
type compaction struct {
	// only is one owner, or empty for all.
	only string
	// at is the committed state, ahead what the open transaction has made of it.
	at, ahead walk
}

// walk is where a compaction stands.
type walk struct {
	owner, stream, event string
	Reclaimed
}

// streamRow is one entry of the stream index.
type streamRow struct {
	seq                  int64
	owner, stream, event string
}

const (
	selectStreamsAll = `SELECT seq, owner_id, stream_id, event_id FROM events INDEXED BY events_stream
		WHERE stream_id IS NOT NULL AND (owner_id, stream_id, event_id) > (?, ?, ?)
		ORDER BY owner_id, stream_id, event_id LIMIT ?`
	selectStreamsOwner = `SELECT seq, owner_id, stream_id, event_id FROM events INDEXED BY events_stream
		WHERE stream_id IS NOT NULL AND owner_id = ? AND (stream_id, event_id) > (?, ?)
		ORDER BY stream_id, event_id LIMIT ?`
)

// step is one slice. more is false when the walk has reached its end.
func (c *compaction) step(w *writer) (more bool, err error) {
	began := time.Now()
	c.ahead = c.at
	rows, err := c.read(w)
	if err != nil {
		return false, err
	}
	credits := make(map[string]*credit)
	for i := 0; i+1 < len(rows); i++ {
		r, after := &rows[i], &rows[i+1]
		if r.owner == after.owner && r.stream == after.stream {
			if err := c.remove(w, r, credits); err != nil {
				return false, err
			}
		}
		c.ahead.owner, c.ahead.stream, c.ahead.event = r.owner, r.stream, r.event
		if i%32 == 31 && time.Since(began) >= sliceTime {
			return true, w.give(credits)
		}
	}
	// The last row read is judged with the next slice, unless it is the last.
	return len(rows) == sliceRows, w.give(credits)
}

func (c *compaction) read(w *writer) ([]streamRow, error) {
	query, first := selectStreamsAll, c.at.owner
	if c.only != "" {
		query, first = selectStreamsOwner, c.only
	}
	rows := make([]streamRow, 0, sliceRows)
	err := w.db.Rows(query, []any{first, c.at.stream, c.at.event, sliceRows}, func(s *sql.Rows) error {
		var r streamRow
		err := s.Scan(&r.seq, &r.owner, &r.stream, &r.event)
		rows = append(rows, r)
		return err
	})
	return rows, err
}

// credit is what a slice took off one owner.
type credit struct {
	closed        bool
	events, bytes int64
}

// remove deletes one superseded event. The rows of a closed owner are left to
// its sweep: they are charged to nobody.
func (c *compaction) remove(w *writer, r *streamRow, credits map[string]*credit) error {
	got := credits[r.owner]
	if got == nil {
		closed, err := w.db.Int("SELECT closed_at IS NOT NULL FROM owners WHERE owner_id = ?", r.owner)
		if err != nil {
			return err
		}
		got = &credit{closed: closed != 0}
		credits[r.owner] = got
	}
	if got.closed {
		return nil
	}
	size, err := w.db.Int("DELETE FROM events WHERE seq = ? RETURNING bytes", r.seq)
	if err != nil {
		return err
	}
	w.pages += 3
	got.events++
	got.bytes += size
	c.ahead.DeletedEvents++
	c.ahead.ReclaimedBytes += size
	return nil
}

// give takes what a slice deleted off the owners and the total.
func (w *writer) give(credits map[string]*credit) error {
	for owner, got := range credits {
		if got.events == 0 {
			continue
		}
		if err := w.db.Exec(`UPDATE owners SET stored_bytes = stored_bytes - ?,
			event_count = event_count - ? WHERE owner_id = ?`, got.bytes, got.events, owner); err != nil {
			return err
		}
		w.cur.total -= got.bytes
	}
	return nil
}

// land makes the slice's state the committed one.
func (c *compaction) land(w *writer) {
	w.s.stats.compacted(c.ahead.DeletedEvents-c.at.DeletedEvents, c.ahead.ReclaimedBytes-c.at.ReclaimedBytes)
	c.at = c.ahead
}

// compactAll is one run of S37 over all owners.
type compactAll struct {
	compaction
	waiters []func(Reclaimed, error)
}

func (c *compactAll) internal()    {}
func (c *compactAll) bytes() int64 { return 0 }

func (c *compactAll) apply(w *writer) (bool, error) {
	more, err := c.step(w)
	if err != nil || more {
		return more, err
	}
	return false, setMeta(w.db, metaCompacted, w.now().UnixMilli())
}

func (c *compactAll) committed(w *writer) { c.land(w) }

func (c *compactAll) answer(w *writer, err error) {
	w.compacting = nil
	for _, done := range c.waiters {
		if err != nil {
			done(Reclaimed{}, err)
			continue
		}
		done(c.at.Reclaimed, nil)
	}
}

// maxCompactWaiters bounds who waits for the same run.
const maxCompactWaiters = 1000

// compactRequest starts a run or joins the running one.
type compactRequest struct{ done func(Reclaimed, error) }

func (c *compactRequest) bytes() int64 { return 0 }

func (c *compactRequest) apply(w *writer) (bool, error) {
	if w.compacting != nil && len(w.compacting.waiters) >= maxCompactWaiters {
		return false, ErrBusy
	}
	return false, nil
}

func (c *compactRequest) committed(w *writer) {
	if w.compacting == nil {
		w.compacting = &compactAll{}
		w.background = append(w.background, w.compacting)
	}
	w.compacting.waiters = append(w.compacting.waiters, c.done)
}

func (c *compactRequest) answer(_ *writer, err error) {
	if err != nil {
		c.done(Reclaimed{}, err)
	}
}

// compactFirst compacts one owner and then repeats the requests that found it
// over its quota (S23a). There is one for an owner at a time.
type compactFirst struct {
	compaction
	then []request
}

// maxDense bounds writer.dense; when it is full it is begun anew.
const maxDense = 1024

// compactThen queues r's repetition behind a compaction of its owner. False:
// the owner was compacted since its last event came, so that would not help.
func (w *writer) compactThen(owner string, r request) bool {
	if _, ok := w.dense[owner]; ok {
		return false
	}
	c := w.making[owner]
	if c == nil {
		c = &compactFirst{compaction: compaction{only: owner}}
		w.making[owner] = c
		w.background = append(w.background, c)
	}
	c.then = append(c.then, r)
	return true
}

func (c *compactFirst) internal()                     {}
func (c *compactFirst) bytes() int64                  { return 0 }
func (c *compactFirst) apply(w *writer) (bool, error) { return c.step(w) }
func (c *compactFirst) committed(w *writer)           { c.land(w) }

func (c *compactFirst) answer(w *writer, err error) {
	delete(w.making, c.only)
	if err == nil {
		if len(w.dense) >= maxDense {
			clear(w.dense)
		}
		w.dense[c.only] = struct{}{}
	}
	for _, r := range c.then {
		if err != nil {
			w.finish(r, err)
			continue
		}
		w.background = append(w.background, r)
	}
}
