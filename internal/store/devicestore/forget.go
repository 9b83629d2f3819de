package devicestore

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Forget forgets what the relay was known to have (D35), in one transaction:
// cursor, account and acknowledgements. It is owed each current row, tombstones
// too, and each blob, besides what the outbox owes it. It reports false, and
// does nothing, when that was done since the given generation.
func (s *Store) Forget(id, generation int64, now time.Time) (forgotten bool, err error) {
	err = s.write(func(t *tx) error {
		l, err := t.lane(id)
		if err != nil || l.generation != generation {
			return err
		}
		if err := t.forget(l); err != nil {
			return err
		}
		forgotten = true
		return t.Exec("UPDATE relays SET account = '', reseeds = reseeds + 1, reseeded_at = ? WHERE id = ?",
			inSavedForm(now), id)
	})
	return forgotten && err == nil, err
}

// forget begins a new generation of the relay, which rising numbers of
// acknowledgements go on in.
func (t *tx) forget(l *lane) error {
	if err := t.Exec("DELETE FROM owed WHERE relay = ? AND seed = 1", l.id); err != nil {
		return err
	}
	left, err := t.Change("UPDATE owed SET ack = 0, tries = 0 WHERE relay = ?", l.id)
	if err != nil {
		return err
	}
	l.generation++
	l.cursor, l.acked, l.owed, l.unseen = "", false, left, 0
	if err := t.seedLane(l); err != nil {
		return err
	}
	l.reseeding = l.owed > 0
	return nil
}

// Rekey gives the device another owner (D39), in one transaction: every relay
// is forgotten and has the old owner to close; the outbox, the seen set and the
// streams to be compacted, which all are of the old owner, are cleared. Rows and
// clock stay, and so does what is deferred: it is opened already, and owed to
// every relay once it is a row. Errors: ErrOwnerChanged unless the owner is from,
// ErrTooMany when a relay has not closed the last MaxOldOwners, ErrInvalid.
func (s *Store) Rekey(from, to string) error {
	if !ownerForm.MatchString(to) || from == to {
		return fmt.Errorf("%w: owner of %d bytes, or the same", ErrInvalid, len(to))
	}
	return s.write(func(t *tx) error {
		if t.owner != from {
			return ErrOwnerChanged
		}
		for _, table := range []string{"owed", "owed_later", "outbox", "seen", "purges"} {
			if err := t.Exec("DELETE FROM " + table); err != nil {
				return err
			}
		}
		t.outbox, t.unsealed, t.seen, t.due = 0, 0, 0, 0
		t.owner = to
		for i := range t.lanes {
			if err := t.rekey(&t.lanes[i], from); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) rekey(l *lane, from string) error {
	n, err := t.Int("SELECT count(*) FROM old_owners WHERE relay = ?", l.id)
	if err != nil {
		return err
	}
	if n >= MaxOldOwners {
		return fmt.Errorf("%w: %d owners that relay %d has to close", ErrTooMany, n, l.id)
	}
	if err := t.Exec("INSERT OR IGNORE INTO old_owners (relay, owner) VALUES (?, ?)", l.id, from); err != nil {
		return err
	}
	if err := t.Exec(`UPDATE relays SET account = '', closed = 0, used_bytes = 0, quota_bytes = 0, synced_at = 0,
		push_until = 0, push_reason = '', push_fails = 0, pull_until = 0, pull_reason = '', pull_fails = 0
		WHERE id = ?`, l.id); err != nil {
		return err
	}
	return t.forget(l)
}

// texts reads one column of short texts.
func (s *Store) texts(query string, args ...any) (list []string, err error) {
	err = s.db.read(func(c *sqldb.Conn) error {
		return c.Rows(query, args, func(r *sql.Rows) error {
			var v string
			err := r.Scan(&v)
			list = append(list, v)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// OldOwners returns the owners that are to be closed at the relay (D39), at
// most MaxOldOwners.
func (s *Store) OldOwners(id int64) ([]string, error) {
	return s.texts("SELECT owner FROM old_owners WHERE relay = ? ORDER BY owner", id)
}

// OldClosed takes down that an old owner is closed at the relay.
func (s *Store) OldClosed(id int64, owner string) error {
	return s.write(func(t *tx) error {
		return t.Exec("DELETE FROM old_owners WHERE relay = ? AND owner = ?", id, owner)
	})
}
