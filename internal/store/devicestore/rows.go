package devicestore

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Key names a row. Table is 1 to 64 of letters, digits, "_", "." and "-"; ID is
// 1 to 256 bytes of UTF-8 without control characters.
type Key struct{ Table, ID string }

func (k Key) check() error {
	if !synccrypt.ValidTable(k.Table) {
		return fmt.Errorf("%w: table %.80q", ErrInvalid, k.Table)
	}
	if !synccrypt.ValidRowID(k.ID) {
		return fmt.Errorf("%w: row id %.80q", ErrInvalid, k.ID)
	}
	return nil
}

// Row is the current state of a row. Its Data is the reader's, and nil when the
// row is deleted: the tombstone stays, so that an older edit does not bring the
// row back.
type Row struct {
	Key
	HLC     string // of the event that made it so, and that event's id (D12)
	Deleted bool
	Data    []byte
	Change  int64 // this device's own number of the change, rising
}

// Edit is a local change of a row. Data, borrowed until Write returns, is the
// new row; nil deletes it.
type Edit struct {
	Key
	Data []byte
}

const (
	insertOutbox = "INSERT INTO outbox (hlc, tbl, id, deleted, data) VALUES (?, ?, ?, ?, ?)"
	insertOwed   = "INSERT OR IGNORE INTO owed (relay, hlc, change, seed, ack, tries) VALUES (?, ?, ?, ?, 0, 0)"
	selectRow    = "SELECT change, hlc, deleted FROM rows WHERE tbl = ? AND id = ?"
	insertRow    = "INSERT INTO rows (change, tbl, id, hlc, deleted, data) VALUES (?, ?, ?, ?, ?, ?)"
	updateRow    = "UPDATE rows SET change = ?, hlc = ?, deleted = ?, data = ? WHERE change = ?"
)

func checkEdits(edits []Edit) error {
	if len(edits) > MaxEdits {
		return fmt.Errorf("%w: %d edits, at most %d", ErrInvalid, len(edits), MaxEdits)
	}
	total := 0
	for i := range edits {
		if err := edits[i].check(); err != nil {
			return err
		}
		if n := len(edits[i].Data); n > MaxDataBytes || edits[i].Data != nil && n == 0 {
			return fmt.Errorf("%w: row of %d bytes, at most %d", ErrInvalid, n, MaxDataBytes)
		}
		total += len(edits[i].Data)
	}
	if total > MaxEditBytes {
		return fmt.Errorf("%w: edits of %d bytes, at most %d", ErrInvalid, total, MaxEditBytes)
	}
	return nil
}

// Write makes local changes in one transaction, in order: each moves the clock,
// which is stored with it (D20, D21), and becomes a row, and a pending event
// that is owed to each relay (D30). It returns the rows, whose Data are the
// edits'. Errors: ErrInvalid, and ErrNoRow for the deletion of what is not
// there.
func (s *Store) Write(now time.Time, edits ...Edit) ([]Row, error) {
	if err := checkEdits(edits); err != nil {
		return nil, err
	}
	rows := make([]Row, len(edits))
	err := s.write(func(t *tx) error {
		last, err := t.clock()
		if err != nil {
			return err
		}
		for i, e := range edits {
			if last, err = synccrypt.Tick(last, now, t.device); err != nil {
				return err
			}
			rows[i] = Row{Key: e.Key, HLC: last.String(), Deleted: e.Data == nil, Data: e.Data}
			if err := t.edit(&rows[i]); err != nil {
				return err
			}
		}
		if len(edits) > 0 {
			t.lastHLC = last.String()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// edit stores a local change, and fills in its number.
func (t *tx) edit(r *Row) error {
	old, err := t.current(r.Key)
	if err != nil {
		return err
	}
	if r.Deleted && (old.Change == 0 || old.Deleted) {
		return fmt.Errorf("%w: %s %q", ErrNoRow, r.Table, r.ID)
	}
	if old.HLC >= r.HLC { // V3 excludes it
		return fmt.Errorf("%w: row %s is ahead of the clock", ErrUnreadable, old.HLC)
	}
	if err := t.put(old, r); err != nil {
		return err
	}
	if err := t.supersede(old.Change, nil, 0); err != nil {
		return err
	}
	if len(t.lanes) == 0 {
		return nil // a relay that is added is owed the row
	}
	if err := t.Exec(insertOutbox, r.HLC, r.Table, r.ID, r.Deleted, r.Data); err != nil {
		return err
	}
	t.outbox++
	t.unsealed++
	for i := range t.lanes {
		n, err := t.Change(insertOwed, t.lanes[i].id, r.HLC, r.Change, false)
		if err != nil {
			return err
		}
		t.lanes[i].owed += n
	}
	return nil
}

// current reads a row without its data; Change is 0 when there is none.
func (t *tx) current(k Key) (Row, error) {
	r, found := t.known[k]
	if found {
		return r, nil
	}
	r.Key = k
	err := t.Row(selectRow, []any{k.Table, k.ID}, &r.Change, &r.HLC, &r.Deleted)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	return r, err
}

// put replaces old, which current has read, by r and gives it the next number.
func (t *tx) put(old Row, r *Row) error {
	t.lastChange++
	r.Change = t.lastChange
	t.count(r.Deleted, 1)
	if t.known != nil {
		t.known[r.Key] = Row{Key: r.Key, HLC: r.HLC, Deleted: r.Deleted, Change: r.Change}
	}
	if old.Change == 0 {
		if err := t.unpurge(r.Key); err != nil {
			return err
		}
		return t.Exec(insertRow, r.Change, r.Table, r.ID, r.HLC, r.Deleted, r.Data)
	}
	t.count(old.Deleted, -1)
	return t.Exec(updateRow, r.Change, r.HLC, r.Deleted, r.Data, old.Change)
}

// supersede sees to the seeds of the row that had this number. The event now is
// not theirs: they are owed no more (V4). by is the row that took its place if
// that came from elsewhere: relays other than from, which may not have it, are
// owed it instead, as they were owed the row (D31, D35).
func (t *tx) supersede(change int64, by *Row, from int64) error {
	if change == 0 || !t.owing() {
		return nil
	}
	var owed []entry
	err := t.Rows("SELECT relay, hlc, ack FROM owed WHERE change = ? AND seed = 1", []any{change}, func(r *sql.Rows) error {
		e := entry{seed: true}
		err := r.Scan(&e.relay, &e.hlc, &e.ack)
		owed = append(owed, e)
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range owed {
		if err := t.settle(e); err != nil {
			return err
		}
		if by == nil || e.relay == from {
			continue
		}
		l, err := t.lane(e.relay)
		if err != nil {
			return err
		}
		n, err := t.Change(insertOwed, e.relay, by.HLC, by.Change, true)
		if err != nil {
			return err
		}
		l.owed += n
	}
	return nil
}

const rowColumns = "SELECT change, tbl, id, hlc, deleted, data FROM rows "

func scanRow(r *sql.Rows) (Row, error) {
	var row Row
	err := r.Scan(&row.Change, &row.Table, &row.ID, &row.HLC, &row.Deleted, &row.Data)
	return row, err
}

// Get returns the row, a tombstone too, or ErrNoRow.
func (s *Store) Get(k Key) (Row, error) {
	rows, err := s.rows(rowColumns+"WHERE tbl = ? AND id = ?", k.Table, k.ID)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%w: %s %q", ErrNoRow, k.Table, k.ID)
	}
	if err != nil {
		return Row{}, err
	}
	return rows[0], nil
}

// List returns rows after a key in order of keys, of one table or, if table is
// "", of all: at most limit of them, and no more than MaxListBytes of data but
// for the first. A limit outside of 1..MaxListCount is MaxListCount. The end is
// reached when none is returned.
func (s *Store) List(table string, after Key, limit int, tombstones bool) ([]Row, error) {
	if table == "" {
		return s.rows(rowColumns+`WHERE (tbl, id) > (?, ?) AND (deleted = 0 OR ?) ORDER BY tbl, id LIMIT ?`,
			after.Table, after.ID, tombstones, bounded(limit))
	}
	if after.Table > table {
		return nil, nil
	}
	if after.Table < table {
		after.ID = ""
	}
	return s.rows(rowColumns+`WHERE tbl = ? AND id > ? AND (deleted = 0 OR ?) ORDER BY id LIMIT ?`,
		table, after.ID, tombstones, bounded(limit))
}

// Changes returns the rows whose last change has a number above after, in the
// order of their changes, tombstones too; bounds as for List. A row that
// changed twice is there once.
func (s *Store) Changes(after int64, limit int) ([]Row, error) {
	return s.rows(rowColumns+"WHERE change > ? ORDER BY change LIMIT ?", after, bounded(limit))
}

// LastChange is the number of the last change, 0 before the first.
func (s *Store) LastChange() (int64, error) {
	st, err := s.state()
	return st.lastChange, err
}

func (s *Store) rows(query string, args ...any) (rows []Row, err error) {
	size := 0
	err = s.db.read(func(c *sqldb.Conn) error {
		return rowsUntil(c, query, args, func(r *sql.Rows) error {
			row, err := scanRow(r)
			if err != nil {
				return err
			}
			if size += len(row.Data); size > MaxListBytes && len(rows) > 0 {
				return errEnough
			}
			rows = append(rows, row)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func bounded(limit int) int {
	if limit < 1 || limit > MaxListCount {
		return MaxListCount
	}
	return limit
}
