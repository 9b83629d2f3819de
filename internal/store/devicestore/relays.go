package devicestore

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Lane is why and until when the poller leaves a relay alone in one direction
// (D34). The zero Lane is a free one.
type Lane struct {
	Until  time.Time
	Reason string // at most 512 bytes
	Fails  int    // in a row
}

// Relay is what is known of one relay. Times are in milliseconds.
type Relay struct {
	ID         int64 // never used again, also after RemoveRelay
	URL        string
	Cursor     string // opaque; "" before the first page
	Generation int64  // rises when the relay is forgotten
	Account    string // createdAt of the account at the relay, "" unknown
	Acked      bool   // it acknowledged something since it was forgotten
	Push, Pull Lane
	SyncedAt   time.Time
	ReseededAt time.Time
	Reseeds    int
	Reseeding  bool // forgotten, and not yet owed nothing
	UsedBytes  int64
	QuotaBytes int64
	Closed     bool  // it answered 410
	Owed       int64 // events to push
	Unseen     int64 // events acknowledged and not seen back (V5)
	Blobs      int64 // blobs to deliver
}

const (
	selectRelays = `SELECT id, url, cursor, generation, account, acked, owed, unseen, blobs, push_until, push_reason,
		push_fails, pull_until, pull_reason, pull_fails, synced_at, reseeded_at, reseeds, reseeding, used_bytes,
		quota_bytes, closed FROM relays `
	// seedRows owes a relay its rows. An event that is in the outbox is owed as
	// such.
	seedRows = `INSERT OR IGNORE INTO owed (relay, hlc, change, seed, ack, tries)
		SELECT ?, hlc, change, NOT EXISTS (SELECT 1 FROM outbox o WHERE o.hlc = rows.hlc), 0, 0 FROM rows`
	// seedDeferred remembers which deferred events a relay was not seen to have: it
	// is owed them once they are rows.
	seedDeferred = "INSERT OR IGNORE INTO owed_later (relay, hlc) SELECT ?, hlc FROM deferred"
	seedBlobs    = `INSERT OR IGNORE INTO blobs (relay, blob)
		SELECT ?, id FROM rows WHERE tbl = '` + BlobTable + `' AND deleted = 0`
)

func scanRelay(r *sql.Rows) (Relay, error) {
	var v Relay
	var push, pull, synced, reseeded int64
	err := r.Scan(&v.ID, &v.URL, &v.Cursor, &v.Generation, &v.Account, &v.Acked, &v.Owed, &v.Unseen, &v.Blobs,
		&push, &v.Push.Reason, &v.Push.Fails, &pull, &v.Pull.Reason, &v.Pull.Fails, &synced, &reseeded,
		&v.Reseeds, &v.Reseeding, &v.UsedBytes, &v.QuotaBytes, &v.Closed)
	v.Push.Until, v.Pull.Until = fromSavedForm(push), fromSavedForm(pull)
	v.SyncedAt, v.ReseededAt = fromSavedForm(synced), fromSavedForm(reseeded)
	return v, err
}

func (s *Store) relays(query string, args ...any) (list []Relay, err error) {
	err = s.db.read(func(c *sqldb.Conn) error {
		return c.Rows(query, args, func(r *sql.Rows) error {
			v, err := scanRelay(r)
			list = append(list, v)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Relays returns all relays in the order in which they were added.
func (s *Store) Relays() ([]Relay, error) { return s.relays(selectRelays + "ORDER BY id") }

// Relay returns one, or ErrNoRelay.
func (s *Store) Relay(id int64) (Relay, error) {
	list, err := s.relays(selectRelays+"WHERE id = ?", id)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: %d", ErrNoRelay, id)
	}
	if err != nil {
		return Relay{}, err
	}
	return list[0], nil
}

func haveRelay(c *sqldb.Conn, id int64) error {
	n, err := c.Int("SELECT count(*) FROM relays WHERE id = ?", id)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %d", ErrNoRelay, id)
	}
	return err
}

// AddRelay adds a relay that is owed every current row, tombstones too (D31),
// and every blob. Errors: ErrRelayExists, ErrTooMany beyond MaxRelays,
// ErrInvalid.
func (s *Store) AddRelay(url string) (Relay, error) {
	if url == "" || len(url) > maxURLBytes {
		return Relay{}, fmt.Errorf("%w: relay address of %d bytes", ErrInvalid, len(url))
	}
	var id int64
	err := s.write(func(t *tx) error {
		n, err := t.Int("SELECT count(*) FROM relays WHERE url = ?", url)
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%w: %s", ErrRelayExists, url)
		}
		if len(t.lanes) >= MaxRelays {
			return fmt.Errorf("%w: %d relays", ErrTooMany, MaxRelays)
		}
		if err := t.Row("INSERT INTO relays (url) VALUES (?) RETURNING id", []any{url}, &id); err != nil {
			return err
		}
		l := lane{id: id, generation: 1}
		if err := t.seedLane(&l); err != nil {
			return err
		}
		t.lanes = append(t.lanes, l)
		return nil
	})
	if err != nil {
		return Relay{}, err
	}
	return s.Relay(id)
}

// seedLane owes the relay all rows and blobs besides what it is owed, and what
// is deferred once that is applied.
func (t *tx) seedLane(l *lane) error {
	n, err := t.Change(seedRows, l.id)
	if err != nil {
		return err
	}
	l.owed += n
	if t.deferred > 0 {
		if err := t.Exec(seedDeferred, l.id); err != nil {
			return err
		}
	}
	n, err = t.Change(seedBlobs, l.id)
	l.blobs += n
	return err
}

// RemoveRelay removes a relay with all that is kept for it; events that no
// other relay waits for leave the outbox. Errors: ErrNoRelay.
func (s *Store) RemoveRelay(url string) error {
	return s.write(func(t *tx) error {
		id, err := t.Int("SELECT id FROM relays WHERE url = ?", url)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %s", ErrNoRelay, url)
		}
		if err != nil {
			return err
		}
		for _, table := range []string{"owed", "owed_later", "blobs", "purges", "refusals", "old_owners"} {
			if err := t.Exec("DELETE FROM "+table+" WHERE relay = ?", id); err != nil {
				return err
			}
		}
		if err := t.Exec("DELETE FROM relays WHERE id = ?", id); err != nil {
			return err
		}
		t.lanes = nil // those that are left do not change
		return t.tidy()
	})
}

// tidy takes events that are owed to nobody out of the outbox, and counts anew.
func (t *tx) tidy() error {
	if err := t.Exec(`DELETE FROM outbox WHERE NOT EXISTS (
		SELECT 1 FROM relays r CROSS JOIN owed o ON o.relay = r.id AND o.hlc = outbox.hlc)`); err != nil {
		return err
	}
	for query, count := range map[string]*int64{
		"SELECT count(*) FROM outbox":                        &t.outbox,
		"SELECT count(*) FROM outbox WHERE envelope IS NULL": &t.unsealed,
		"SELECT count(*) FROM purges":                        &t.due,
	} {
		n, err := t.Int(query)
		if err != nil {
			return err
		}
		*count = n
	}
	return nil
}

// set changes columns of one relay, or fails with ErrNoRelay.
func (s *Store) set(id int64, columns string, args ...any) error {
	return s.write(func(t *tx) error {
		if _, err := t.lane(id); err != nil {
			return err
		}
		return t.Exec("UPDATE relays SET "+columns+" WHERE id = ?", append(args, id)...)
	})
}

// SetLane stores the back-off of pushes or of pulls (D34). Errors: ErrNoRelay,
// ErrInvalid.
func (s *Store) SetLane(id int64, push bool, l Lane) error {
	if len(l.Reason) > maxReasonBytes || l.Fails < 0 {
		return fmt.Errorf("%w: lane with a reason of %d bytes, %d fails", ErrInvalid, len(l.Reason), l.Fails)
	}
	columns := "pull_until = ?, pull_reason = ?, pull_fails = ?"
	if push {
		columns = "push_until = ?, push_reason = ?, push_fails = ?"
	}
	return s.set(id, columns, inSavedForm(l.Until), l.Reason, l.Fails)
}

// setOf is set for what a relay says of an owner. It fails with ErrOwnerChanged
// when that is not the device's owner any more: a request that was under way
// during a re-key says nothing of the new one.
func (s *Store) setOf(id int64, owner, columns string, args ...any) error {
	return s.write(func(t *tx) error {
		if _, err := t.lane(id); err != nil {
			return err
		}
		if t.owner != owner {
			return ErrOwnerChanged
		}
		return t.Exec("UPDATE relays SET "+columns+" WHERE id = ?", append(args, id)...)
	})
}

// SetAccount stores what the relay says of an owner's account: when it was made,
// and bytes used and allowed. Errors: ErrInvalid, ErrNoRelay, ErrOwnerChanged.
func (s *Store) SetAccount(id int64, owner, created string, used, quota int64) error {
	if len(created) > maxReasonBytes || used < 0 || quota < 0 {
		return fmt.Errorf("%w: account of %d bytes, %d of %d used", ErrInvalid, len(created), used, quota)
	}
	return s.setOf(id, owner, "account = ?, used_bytes = ?, quota_bytes = ?", created, used, quota)
}

// SetClosed stores whether the relay says that an owner is closed. Errors:
// ErrNoRelay, ErrOwnerChanged.
func (s *Store) SetClosed(id int64, owner string, closed bool) error {
	return s.setOf(id, owner, "closed = ?", closed)
}

// SetSynced stores when all was last pushed to and pulled from the relay.
func (s *Store) SetSynced(id int64, at time.Time) error {
	return s.set(id, "synced_at = ?", inSavedForm(at))
}
