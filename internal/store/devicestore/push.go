package devicestore

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// entry is one of owed: an event that a relay has to get, or to give back.
type entry struct {
	relay int64
	hlc   string
	seed  bool  // its event is a current row, not in the outbox (V4)
	ack   int64 // number of its acknowledgement, 0 while it is to be pushed
}

// settle takes an entry away, and its event out of the outbox when no relay is
// left that waits for it (D31).
func (t *tx) settle(e entry) error {
	l, err := t.lane(e.relay)
	if err != nil {
		return err
	}
	n, err := t.Change("DELETE FROM owed WHERE relay = ? AND hlc = ?", e.relay, e.hlc)
	if err != nil || n == 0 {
		return err
	}
	if e.ack == 0 {
		l.owed--
	} else {
		l.unseen--
	}
	if e.seed {
		return nil
	}
	return t.dropEvent(e.hlc)
}

// deleteEvent asks relay by relay: an order of its own choice would have SQLite
// walk all of owed.
const deleteEvent = `DELETE FROM outbox WHERE hlc = ? AND NOT EXISTS (
	SELECT 1 FROM relays r CROSS JOIN owed o ON o.relay = r.id AND o.hlc = outbox.hlc) RETURNING envelope IS NULL`

func (t *tx) dropEvent(hlc string) error {
	var unsealed bool
	err := t.Row(deleteEvent, []any{hlc}, &unsealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	t.outbox--
	if unsealed {
		t.unsealed--
	}
	return nil
}

// Slices of Seal: what is held in memory at once, and what one transaction
// stores.
const (
	sealCount = 256
	sealBytes = 4 << 20
)

// Seal has seal make envelopes for owner of pending events that have none, at
// most limit of them and the oldest first, and stores those (D30). seal is called
// without any lock; the row that it gets, with Change 0, is its own. An envelope
// that another process has stored meanwhile stays. n is how many were stored,
// before an error too. Errors: seal's, and ErrOwnerChanged when the device is
// not owner's any more: the envelopes would be pushed to the new one.
func (s *Store) Seal(owner string, limit int, seal func(Row) ([]byte, error)) (n int, err error) {
	after := ""
	for n < limit {
		rows, err := s.unsealed(after, min(limit-n, sealCount))
		if err != nil || len(rows) == 0 {
			return n, err
		}
		after = rows[len(rows)-1].HLC
		envelopes := make([][]byte, 0, len(rows))
		var failed error
		for _, r := range rows {
			e, err := seal(r)
			if err == nil && len(e) == 0 {
				err = fmt.Errorf("%w: empty envelope", ErrInvalid)
			}
			if failed = err; failed != nil {
				break
			}
			envelopes = append(envelopes, e)
		}
		stored, err := s.storeSealed(owner, rows, envelopes)
		n += stored
		if err != nil || failed != nil {
			return n, errors.Join(failed, err)
		}
	}
	return n, nil
}

const selectUnsealed = `SELECT hlc, tbl, id, deleted, data FROM outbox INDEXED BY outbox_unsealed
			WHERE envelope IS NULL AND hlc > ? ORDER BY hlc LIMIT ?`

func (s *Store) unsealed(after string, limit int) (rows []Row, err error) {
	size := 0
	err = s.db.read(func(c *sqldb.Conn) error {
		return rowsUntil(c, selectUnsealed, []any{after, limit}, func(r *sql.Rows) error {
			var row Row
			if err := r.Scan(&row.HLC, &row.Table, &row.ID, &row.Deleted, &row.Data); err != nil {
				return err
			}
			if size += len(row.Data); size > sealBytes && len(rows) > 0 {
				return errEnough
			}
			rows = append(rows, row)
			return nil
		})
	})
	return rows, err
}

// storeSealed stores the first envelopes, as many as there are. The plain text
// of the event goes: the row has it.
func (s *Store) storeSealed(owner string, rows []Row, envelopes [][]byte) (stored int, err error) {
	if len(envelopes) == 0 {
		return 0, nil
	}
	err = s.write(func(t *tx) error {
		if t.owner != owner {
			return ErrOwnerChanged
		}
		stored = 0
		for i, e := range envelopes {
			n, err := t.Change("UPDATE outbox SET envelope = ?, data = NULL WHERE hlc = ? AND envelope IS NULL", e, rows[i].HLC)
			if err != nil {
				return err
			}
			stored += int(n)
		}
		t.unsealed -= int64(stored)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return stored, nil
}

// Pending is an event to be pushed. Envelope is nil while it is not sealed;
// then Deleted and Data, which is nil otherwise, are those of the event. Its
// slices are the reader's.
type Pending struct {
	ID string
	Key
	Deleted  bool
	Data     []byte
	Envelope []byte
}

// pendingOverhead is what an envelope has besides its row, roughly: the sizes
// of events without an envelope are estimated.
const pendingOverhead = 700

func (p *Pending) bytes() int64 {
	if p.Envelope != nil {
		return int64(len(p.Envelope))
	}
	return int64(len(p.Data))*4/3 + pendingOverhead
}

const selectPending = `SELECT o.hlc, coalesce(b.tbl, r.tbl), coalesce(b.id, r.id), coalesce(b.deleted, r.deleted),
			coalesce(b.data, r.data), b.envelope FROM owed o INDEXED BY owed_ack
			LEFT JOIN outbox b ON o.seed = 0 AND b.hlc = o.hlc
			LEFT JOIN rows r ON o.seed = 1 AND r.change = o.change
			WHERE o.relay = ? AND o.ack = 0 ORDER BY o.hlc LIMIT ?`

// Owed returns events that the relay has not acknowledged (D31), in the order
// of their ids: at most maxCount, a number outside of 1..MaxPageEvents being
// MaxPageEvents, and, but for the first, no more than maxBytes of envelopes. Of
// those without an envelope the size is estimated.
func (s *Store) Owed(id int64, maxCount int, maxBytes int64) (owed []Pending, err error) {
	if maxCount < 1 || maxCount > MaxPageEvents {
		maxCount = MaxPageEvents
	}
	size := int64(0)
	err = s.db.read(func(c *sqldb.Conn) error {
		if err := haveRelay(c, id); err != nil {
			return err
		}
		return rowsUntil(c, selectPending, []any{id, maxCount}, func(r *sql.Rows) error {
			var p Pending
			if err := r.Scan(&p.ID, &p.Table, &p.Key.ID, &p.Deleted, &p.Data, &p.Envelope); err != nil {
				return err
			}
			if size += p.bytes(); size > maxBytes && len(owed) > 0 {
				return errEnough
			}
			owed = append(owed, p)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return owed, nil
}

// Acknowledge takes down that the relay has stored events (D31). They are kept
// until a pull from the relay has brought them back, since it may be restored
// to a time before (V5). Ids that are not owed are passed over. Nothing is done
// when the relay was forgotten since that generation.
func (s *Store) Acknowledge(id, generation int64, ids []string) error {
	if len(ids) > MaxPageEvents {
		return fmt.Errorf("%w: %d acknowledgements, at most %d", ErrInvalid, len(ids), MaxPageEvents)
	}
	if len(ids) == 0 {
		return nil
	}
	return s.write(func(t *tx) error {
		l, err := t.lane(id)
		if err != nil || l.generation != generation {
			return err
		}
		l.acked = true
		l.acks++
		for _, hlc := range ids {
			n, err := t.Change("UPDATE owed SET ack = ? WHERE relay = ? AND hlc = ? AND ack = 0", l.acks, id, hlc)
			if err != nil {
				return err
			}
			l.owed -= n
			l.unseen += n
		}
		return nil
	})
}
