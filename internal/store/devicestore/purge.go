package devicestore

import (
	"database/sql"
	"fmt"
	"time"
)

// A tombstone is purged only when no relay waits for it, nor for an older event
// of its row, which would bring the row back elsewhere.
const selectPurgeable = `SELECT change, tbl, id FROM rows INDEXED BY rows_tombstone
	WHERE deleted = 1 AND hlc < ?
	AND NOT EXISTS (SELECT 1 FROM relays r CROSS JOIN owed o ON o.relay = r.id AND o.hlc = rows.hlc)
	AND NOT EXISTS (SELECT 1 FROM outbox b WHERE b.tbl = rows.tbl AND b.id = rows.id)
	ORDER BY hlc LIMIT ?`

// Purge deletes tombstones that are older than before and owed to no relay, the
// oldest first, at most limit of them, a number outside of 1..MaxListCount
// being MaxListCount. For each its stream, which stream computes without
// calling the store, is queued for every relay to be compacted (D36). It does
// less while the queue is full of MaxPurges.
func (s *Store) Purge(earlier time.Time, limit int, stream func(Key) string) (n int, err error) {
	err = s.write(func(t *tx) error {
		n = 0
		room := bounded(limit)
		if relays := len(t.lanes); relays > 0 {
			room = min(room, int(MaxPurges-t.due)/relays)
		}
		var list []Row
		err := t.Rows(selectPurgeable, []any{before(earlier.UnixMilli()), max(room, 0)}, func(r *sql.Rows) error {
			var row Row
			err := r.Scan(&row.Change, &row.Table, &row.ID)
			list = append(list, row)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range list {
			if err := t.purge(r, stream(r.Key)); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (t *tx) purge(r Row, stream string) error {
	if stream == "" || len(stream) > maxEventBytes {
		return fmt.Errorf("%w: stream of %d bytes", ErrInvalid, len(stream))
	}
	if err := t.Exec("DELETE FROM rows WHERE change = ?", r.Change); err != nil {
		return err
	}
	t.tombstones--
	for _, l := range t.lanes {
		n, err := t.Change("INSERT OR IGNORE INTO purges (relay, stream, tbl, id) VALUES (?, ?, ?, ?)",
			l.id, stream, r.Table, r.ID)
		if err != nil {
			return err
		}
		t.due += n
	}
	return nil
}

// unpurge takes the stream of a row that is there again out of the queue:
// compacting it would take the row away from the relay.
func (t *tx) unpurge(k Key) error {
	if t.due == 0 {
		return nil
	}
	n, err := t.Change("DELETE FROM purges WHERE tbl = ? AND id = ?", k.Table, k.ID)
	t.due -= n
	return err
}

// Purges returns streams that the relay has to compact, at most limit of them,
// a number outside of 1..MaxListCount being MaxListCount.
func (s *Store) Purges(id int64, limit int) ([]string, error) {
	return s.texts("SELECT stream FROM purges WHERE relay = ? ORDER BY stream LIMIT ?", id, bounded(limit))
}

// Purged takes down that the relay has compacted streams.
func (s *Store) Purged(id int64, streams []string) error {
	if len(streams) > MaxListCount {
		return fmt.Errorf("%w: %d streams, at most %d", ErrInvalid, len(streams), MaxListCount)
	}
	return s.write(func(t *tx) error {
		for _, stream := range streams {
			n, err := t.Change("DELETE FROM purges WHERE relay = ? AND stream = ?", id, stream)
			if err != nil {
				return err
			}
			t.due -= n
		}
		return nil
	})
}
