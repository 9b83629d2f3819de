package devicestore

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// state is the one row of the table of that name: the clock and the counts.
type state struct {
	owner, device, lastHLC      string
	lastChange                  int64
	live, tombstones            int64
	deferred, deferredBytes     int64
	seen, outbox, unsealed, due int64 // due: streams to be compacted
}

func (st *state) load(c *sqldb.Conn) error {
	err := c.Row(`SELECT owner, device, last_hlc, last_change, live, tombstones, deferred, deferred_bytes,
		seen, outbox, unsealed, purges FROM state`, nil, &st.owner, &st.device, &st.lastHLC, &st.lastChange,
		&st.live, &st.tombstones, &st.deferred, &st.deferredBytes, &st.seen, &st.outbox, &st.unsealed, &st.due)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: it has no state", ErrUnreadable)
	}
	return err
}

func (st *state) save(c *sqldb.Conn) error {
	return c.Exec(`UPDATE state SET owner = ?, last_hlc = ?, last_change = ?, live = ?, tombstones = ?,
		deferred = ?, deferred_bytes = ?, seen = ?, outbox = ?, unsealed = ?, purges = ?`, st.owner, st.lastHLC,
		st.lastChange, st.live, st.tombstones, st.deferred, st.deferredBytes, st.seen, st.outbox, st.unsealed, st.due)
}

// clock is the last HLC, which nothing in rows is above (V3).
func (st *state) clock() (synccrypt.HLC, error) {
	if st.lastHLC == "" {
		return synccrypt.HLC{}, nil
	}
	h, err := synccrypt.ParseHLC(st.lastHLC)
	if err != nil {
		return h, fmt.Errorf("%w: clock: %w", ErrUnreadable, err)
	}
	return h, nil
}

// count takes a row in or out of the sums.
func (st *state) count(deleted bool, n int64) {
	if deleted {
		st.tombstones += n
	} else {
		st.live += n
	}
}

// lane is what a transaction may change of a relay.
type lane struct {
	id, generation, acks int64
	owed, unseen, blobs  int64
	cursor               string
	acked, reseeding     bool
}

const (
	selectLanes = `SELECT id, generation, acks, owed, unseen, blobs, cursor, acked, reseeding
		FROM relays ORDER BY id`
	updateLane = `UPDATE relays SET generation = ?, acks = ?, owed = ?, unseen = ?, blobs = ?, cursor = ?,
		acked = ?, reseeding = ? WHERE id = ?`
)

// tx is a transaction that writes: the state and the relays as they are in it,
// stored at its end if they changed.
type tx struct {
	*sqldb.Conn
	state
	lanes []lane
	known map[Key]Row // rows that were read ahead, without data; nil where none are
}

// write runs f in one transaction of its own, all or nothing, which is on the
// medium when write returns nil (V1).
func (s *Store) write(f func(*tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return s.db.transaction(func(c *sqldb.Conn) error {
		t := &tx{Conn: c}
		if err := t.load(c); err != nil {
			return err
		}
		if err := t.loadLanes(); err != nil {
			return err
		}
		state, lanes := t.state, slices.Clone(t.lanes)
		if err := f(t); err != nil {
			return err
		}
		if t.state != state {
			if err := t.save(c); err != nil {
				return err
			}
		}
		return t.saveLanes(lanes)
	})
}

func (t *tx) loadLanes() error {
	return t.Rows(selectLanes, nil, func(r *sql.Rows) error {
		var l lane
		err := r.Scan(&l.id, &l.generation, &l.acks, &l.owed, &l.unseen, &l.blobs, &l.cursor, &l.acked, &l.reseeding)
		t.lanes = append(t.lanes, l)
		return err
	})
}

// saveLanes stores what differs from before. A relay is re-seeded when nothing
// is left to push to it.
func (t *tx) saveLanes(before []lane) error {
	for _, l := range t.lanes {
		l.reseeding = l.reseeding && l.owed > 0
		i := slices.IndexFunc(before, func(b lane) bool { return b.id == l.id })
		if i >= 0 && before[i] == l {
			continue
		}
		if err := t.Exec(updateLane, l.generation, l.acks, l.owed, l.unseen, l.blobs, l.cursor,
			l.acked, l.reseeding, l.id); err != nil {
			return err
		}
	}
	return nil
}

// lane returns the relay's, or ErrNoRelay. It is good until lanes changes.
func (t *tx) lane(id int64) (*lane, error) {
	for i := range t.lanes {
		if t.lanes[i].id == id {
			return &t.lanes[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %d", ErrNoRelay, id)
}

// owing tells whether any relay is owed anything.
func (t *tx) owing() bool {
	return slices.ContainsFunc(t.lanes, func(l lane) bool { return l.owed+l.unseen > 0 })
}

// absorb moves the clock to an event of another device (D20).
func (t *tx) absorb(hlc string) {
	t.lastHLC = max(t.lastHLC, hlc)
}

// state reads the clock and the counts.
func (s *Store) state() (st state, err error) {
	err = s.db.read(st.load)
	return st, err
}

// inSavedForm is a time as it is stored, 0 for the zero time.
func inSavedForm(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromSavedForm(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// errEnough ends a walk over rows early.
var errEnough = errors.New("enough")

// rowsUntil is Rows of which scan may return errEnough.
func rowsUntil(c *sqldb.Conn, query string, args []any, scan func(*sql.Rows) error) error {
	err := c.Rows(query, args, scan)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
