package devicestore

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

const (
	// MaxTries is how often an acknowledged event that does not come back is pushed
	// again, before the relay is said to withhold it.
	MaxTries = 3

	drainCount = 1000 // entries of one transaction of EndDrain
)

// BeginDrain returns the number of the relay's last acknowledgement: what was
// acknowledged up to it has to come in a pull to the end that begins now.
func (s *Store) BeginDrain(id int64) (mark int64, err error) {
	err = s.db.read(func(c *sqldb.Conn) error {
		mark, err = c.Int("SELECT acks FROM relays WHERE id = ?", id)
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("%w: %d", ErrNoRelay, id)
		}
		return err
	})
	return mark, err
}

// EndDrain is told that a pull which began after BeginDrain gave mark has
// reached the end. What was acknowledged up to mark and did not come back was
// lost by the relay, which was restored to a time before (V5). If a newer row
// has taken its place it is dropped. Otherwise it is to be pushed again,
// MaxTries times; then it is dropped, and counted as refusal "withheld". again
// and withheld are how many events. Nothing is done when the relay was
// forgotten since that generation.
func (s *Store) EndDrain(id, generation, mark int64) (again, withheld int, err error) {
	for {
		n, a, w := 0, 0, 0
		err := s.write(func(t *tx) error {
			l, err := t.lane(id)
			if err != nil || l.generation != generation || l.unseen == 0 {
				return err
			}
			n, a, w, err = t.missing(l, mark, s.opt)
			return err
		})
		if err != nil {
			return again, withheld, err
		}
		again, withheld = again+a, withheld+w
		if n < drainCount {
			return again, withheld, nil
		}
	}
}

const selectMissing = `SELECT hlc, seed, ack, tries, EXISTS (SELECT 1 FROM rows WHERE rows.change = owed.change)
		FROM owed INDEXED BY owed_ack WHERE relay = ? AND ack BETWEEN 1 AND ? ORDER BY ack, hlc LIMIT ?`

// missing sees to one slice of what did not come back.
func (t *tx) missing(l *lane, mark int64, o Options) (n, again, withheld int, err error) {
	type lost struct {
		entry
		tries   int
		current bool
	}
	var list []lost
	err = t.Rows(selectMissing,
		[]any{l.id, mark, drainCount}, func(r *sql.Rows) error {
			e := lost{entry: entry{relay: l.id}}
			err := r.Scan(&e.hlc, &e.seed, &e.ack, &e.tries, &e.current)
			list = append(list, e)
			return err
		})
	if err != nil {
		return 0, 0, 0, err
	}
	for _, e := range list {
		if e.current && e.tries < MaxTries {
			again++
			l.owed++
			l.unseen--
			err = t.Exec("UPDATE owed SET ack = 0, tries = tries + 1 WHERE relay = ? AND hlc = ?", l.id, e.hlc)
		} else {
			if e.current {
				withheld++
				err = t.refuse(l.id, o.Now(), []Refusal{{Reason: "withheld", Event: e.hlc}})
			}
			if err == nil {
				err = t.settle(e.entry)
			}
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
	return len(list), again, withheld, nil
}
