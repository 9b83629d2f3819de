package devicestore

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// postpone keeps an event until its time comes or its schema is known (V7).
func (in *intake) postpone(e *Event) error {
	if in.deferred >= int64(in.opt.DeferredMax) || in.deferredBytes+int64(len(e.Plain)) > in.opt.DeferredMaxBytes {
		return fmt.Errorf("%w: %d, with %d bytes", ErrDeferredFull, in.deferred, in.deferredBytes)
	}
	n, err := in.Change("INSERT OR IGNORE INTO deferred (hlc, kind, schema, tried, plain) VALUES (?, ?, ?, 0, ?)",
		e.ID, e.Defer, e.Schema, e.Plain)
	if err != nil || n == 0 {
		return err
	}
	in.deferred++
	in.deferredBytes += int64(len(e.Plain))
	in.sum.Deferred++
	return nil
}

// Slices of ApplyDue.
const (
	dueCount = 256
	dueBytes = 4 << 20
)

// due is a deferred event that may be applied now.
type due struct {
	hlc   string
	kind  Defer
	plain []byte
	event Event
	err   error
}

// ApplyDue applies deferred events whose time has come, and those that need a
// schema up to the given one, which this program knows, in the order of their
// ids. decode, which is called without any lock, makes the event of its plain
// text; one that still is Unknown to it, whose ID may be "" then, is not tried
// again before a greater schema is given. One that it cannot read is dropped and
// counted as bad_payload of no relay. rows is how many rows changed, before an
// error too.
func (s *Store) ApplyDue(now time.Time, schema int, decode func(plain []byte) (Event, error)) (rows int, err error) {
	for after := ""; ; {
		list, err := s.due(after, now, schema)
		if err != nil || len(list) == 0 {
			return rows, err
		}
		after = list[len(list)-1].hlc
		for i := range list {
			d := &list[i]
			if d.event, d.err = decode(d.plain); d.err == nil && d.event.ID != d.hlc && (d.event.Defer != Unknown || d.event.ID != "") {
				d.err = errors.New("another id")
			}
		}
		n, err := s.applyDue(list, now, schema)
		if err != nil {
			return rows, err
		}
		rows += n
	}
}

const selectAnyDue = `SELECT EXISTS (SELECT 1 FROM deferred WHERE kind = 1 AND hlc > ? AND hlc < ?)
			OR EXISTS (SELECT 1 FROM deferred WHERE kind = 2 AND schema <= ? AND tried < ?)`

const selectDue = `SELECT hlc, kind, plain FROM deferred WHERE hlc > ?
			AND (kind = 1 AND hlc < ? OR kind = 2 AND schema <= ? AND tried < ?) ORDER BY hlc LIMIT ?`

// due reads a slice. Whether there is any is found by two indices, so that a
// store of many that are not due is walked only when one is.
func (s *Store) due(after string, now time.Time, schema int) (list []due, err error) {
	future := before(now.UnixMilli() + 1)
	size := 0
	err = s.db.read(func(c *sqldb.Conn) error {
		n, err := c.Int(selectAnyDue, after, future, schema, schema)
		if err != nil || n == 0 {
			return err
		}
		return rowsUntil(c, selectDue,
			[]any{after, future, schema, schema, dueCount}, func(r *sql.Rows) error {
				var d due
				if err := r.Scan(&d.hlc, &d.kind, &d.plain); err != nil {
					return err
				}
				if size += len(d.plain); size > dueBytes && len(list) > 0 {
					return errEnough
				}
				list = append(list, d)
				return nil
			})
	})
	return list, err
}

func (s *Store) applyDue(list []due, now time.Time, schema int) (rows int, err error) {
	err = s.write(func(t *tx) error {
		rows = 0
		for i := range list {
			applied, err := t.ripen(&list[i], now, schema)
			if err != nil {
				return err
			}
			if applied {
				rows++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return rows, nil
}

// ripen applies a deferred event, or defers it for another reason.
func (t *tx) ripen(d *due, now time.Time, schema int) (applied bool, err error) {
	e := &d.event
	if d.err == nil && e.Defer != Unknown {
		e.Defer = Apply
	}
	ahead, err := false, error(nil)
	if d.err == nil {
		h, parseErr := synccrypt.ParseHLC(d.hlc)
		ahead, d.err = h.Millis-now.UnixMilli() > MaxAhead.Milliseconds(), parseErr
	}
	if d.err == nil && e.Defer == Apply && !ahead {
		_, d.err = e.examine(now)
	}
	switch {
	case d.err == nil && e.Defer == Unknown:
		return false, t.Exec("UPDATE deferred SET kind = 2, schema = ?, tried = ? WHERE hlc = ? AND kind = ?",
			max(e.Schema, 0), schema, d.hlc, d.kind)
	case d.err == nil && ahead:
		return false, t.Exec("UPDATE deferred SET kind = 1 WHERE hlc = ? AND kind = ?", d.hlc, d.kind)
	}
	n, err := t.Change("DELETE FROM deferred WHERE hlc = ? AND kind = ?", d.hlc, d.kind)
	if err != nil || n == 0 {
		return false, err // another process was here
	}
	t.deferred--
	t.deferredBytes -= int64(len(d.plain))
	if d.err != nil {
		if err := t.payLate(d.hlc, false); err != nil {
			return false, err
		}
		return false, t.refuse(0, now, []Refusal{{Reason: "bad_payload", Event: d.hlc}})
	}
	t.absorb(e.ID)
	if applied, err = t.apply(e, 0); err != nil {
		return false, err
	}
	return applied, t.payLate(e.ID, applied)
}

// payLate owes an event that was deferred, and now is a row if applied is set, to
// the relays that were forgotten or added meanwhile and did not give it since:
// its author may not be there any more to do so (D31, D35).
func (t *tx) payLate(hlc string, applied bool) error {
	for i := range t.lanes {
		l := &t.lanes[i]
		n, err := t.Change("DELETE FROM owed_later WHERE relay = ? AND hlc = ?", l.id, hlc)
		if err != nil {
			return err
		}
		if n == 0 || !applied {
			continue
		}
		if n, err = t.Change(insertOwed, l.id, hlc, t.lastChange, true); err != nil {
			return err
		}
		l.owed += n
	}
	return nil
}

// NextDue tells when the first event from the future is to be applied, and
// false if there is none.
func (s *Store) NextDue() (at time.Time, found bool, err error) {
	var first string
	err = s.db.read(func(c *sqldb.Conn) error {
		return c.Row("SELECT coalesce(min(hlc), '') FROM deferred WHERE kind = 1", nil, &first)
	})
	if err != nil || first == "" {
		return time.Time{}, false, err
	}
	h, err := synccrypt.ParseHLC(first)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%w: deferred: %w", ErrUnreadable, err)
	}
	return time.UnixMilli(h.Millis).UTC(), true, nil
}

// before is above every id of an earlier millisecond, and not above any other.
func before(ms int64) string {
	const last = 9_999_999_999_999 // 13 digits (D12)
	if ms > last {
		return ":" // above all digits
	}
	return fmt.Sprintf("%013d", max(ms, 0))
}
