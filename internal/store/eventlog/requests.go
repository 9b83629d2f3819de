package eventlog

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	insertEvent = `INSERT INTO events
		(seq, bytes, stored_at, expires_at, mode, digest, tenant, source, event_id, type, text)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, source, event_id) DO NOTHING`
	selectNamed = "SELECT seq, digest FROM events WHERE tenant = ? AND source = ? AND event_id = ?"
	insertDead  = `INSERT INTO dead_letters
		(number, bytes, stored_at, tenant, event_id, original_id, original_seq, subscription, text)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	selectOldestDead = "SELECT number, bytes FROM dead_letters ORDER BY number LIMIT 1"
	deleteDead       = "DELETE FROM dead_letters WHERE number = ?"
)

// appendRequest is B55 and B56 from the log's side.
type appendRequest struct {
	event  Event
	done   func(Result, error)
	result Result
}

func (a *appendRequest) bytes() int64 { return a.event.charge() }

// apply stores the event under the next number, or finds it stored: the unique
// index decides, within the group too (E6).
func (a *appendRequest) apply(w *writer) error {
	a.result = Result{}
	if w.cur.last >= MaxSeq {
		return fmt.Errorf("event log: no number is left after %d", w.cur.last)
	}
	e, seq, charge := &a.event, w.cur.last+1, a.event.charge()
	var expires any
	if !e.ExpiresAt.IsZero() {
		ms := e.ExpiresAt.UnixMilli()
		expires, e.ExpiresAt = ms, time.UnixMilli(ms).UTC()
	}
	n, err := w.db.writer.Change(insertEvent, seq, charge, w.now, expires, int64(e.Mode), e.Digest[:],
		[]byte(e.Tenant), []byte(e.Source), []byte(e.ID), []byte(e.Type), e.Text)
	if err != nil {
		return err
	}
	if n == 0 {
		return a.find(w)
	}
	w.cur.last = seq
	w.cur.events++
	w.cur.bytes += charge
	if w.cur.oldest == 0 {
		w.cur.oldest, w.cur.oldestAt = seq, w.now
	}
	w.pages += 2 + charge/4096
	a.result.Seq = seq
	w.fresh = append(w.fresh, Stored{Seq: seq, StoredAt: time.UnixMilli(w.now).UTC(), Event: *e})
	return nil
}

// find compares with the event of the same name (B56).
func (a *appendRequest) find(w *writer) error {
	var digest []byte
	err := w.db.writer.Row(selectNamed, []any{[]byte(a.event.Tenant), []byte(a.event.Source), []byte(a.event.ID)},
		&a.result.Seq, &digest)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: an index names an event that is not there", ErrUnreadable)
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(digest, a.event.Digest[:]) {
		return ErrDuplicateID
	}
	a.result.Duplicate = true
	w.duplicates++
	return nil
}

func (a *appendRequest) answer(err error) {
	if err != nil && !errors.Is(err, ErrDuplicateID) {
		a.result = Result{}
	}
	a.done(a.result, err)
}

// deadRequest is B58's table.
type deadRequest struct {
	letter DeadLetter
	done   func(error)
}

func (d *deadRequest) bytes() int64     { return d.letter.charge() }
func (d *deadRequest) answer(err error) { d.done(err) }

func (d *deadRequest) apply(w *writer) error {
	l, charge := &d.letter, d.letter.charge()
	number := w.cur.deadLast + 1
	err := w.db.writer.Exec(insertDead, number, charge, w.now, []byte(l.Tenant), []byte(l.ID),
		[]byte(l.Original), l.OriginalSeq, []byte(l.Subscription), l.Text)
	if err != nil {
		return err
	}
	w.cur.deadLast = number
	w.cur.dead++
	w.cur.deadBytes += charge
	w.pages += 2 + charge/4096
	for w.cur.dead > 1 && (w.cur.dead > w.maxDead || w.cur.deadBytes > w.maxDeadBytes) {
		if err := w.dropDead(); err != nil {
			return err
		}
	}
	return nil
}

// dropDead deletes the oldest dead letter.
func (w *writer) dropDead() error {
	var number, charge int64
	err := w.db.writer.Row(selectOldestDead, nil, &number, &charge)
	if err != nil {
		return fmt.Errorf("event log: the oldest of %d dead letters: %w", w.cur.dead, err)
	}
	if err := w.db.writer.Exec(deleteDead, number); err != nil {
		return err
	}
	w.cur.dead--
	w.cur.deadBytes -= charge
	w.pages++
	return nil
}
