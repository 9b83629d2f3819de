package firehosestore

import (
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Load is of firehose.Marks: the zero State as long as nothing was stored. An
// error wraps ErrUnreadable if the rows are not what this package writes.
func (s *Store) Load() (firehose.State, error) {
	st, err := s.load()
	if err != nil {
		return firehose.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = max(s.taken, st.Reserved)
	return st, nil
}

func (s *Store) load() (st firehose.State, err error) {
	err = s.read(func(c *sqldb.Conn) error {
		st, err = readState(c)
		return err
	})
	return st, err
}

// Reserve is of firehose.Marks (F25). In the same transaction a clean mark goes:
// it would be wrong beside numbers that were taken after it (K2). It fails with
// ErrInvalid, ErrTwoRelays and the errors of a write.
func (s *Store) Reserve(upTo int64) error {
	if upTo < 1 || upTo > firehose.MaxNumber {
		return fmt.Errorf("%w: reserve up to %d", ErrInvalid, upTo)
	}
	return s.write(func(c *sqldb.Conn) error {
		stored, err := s.ownLocked(c)
		if err != nil {
			return err
		}
		if err := eraseClean(c); err != nil {
			return err
		}
		upTo := max(upTo, stored)
		if err := schema.SetNumber(c, keyReserved, upTo); err != nil {
			return err
		}
		s.taken = max(s.taken, upTo) // a commit that fails may still be found
		return nil
	})
}

// ownLocked reads the reserved number. It fails if it is one that this process
// has neither read nor written.
func (s *Store) ownLocked(c *sqldb.Conn) (reserved int64, err error) {
	st, err := readState(c)
	if err != nil {
		return 0, err
	}
	if st.Reserved > s.taken {
		return 0, fmt.Errorf("%w: up to %d, known are %d", ErrTwoRelays, st.Reserved, s.taken)
	}
	return st.Reserved, nil
}

// EraseClean is of firehose.Marks (F25). Where nothing was stored there is none
// to erase.
func (s *Store) EraseClean() error {
	if s.opened.Load() == nil {
		return nil
	}
	return s.write(eraseClean)
}

func eraseClean(c *sqldb.Conn) error {
	return c.Exec("DELETE FROM firehose_meta WHERE key IN (?, ?, ?)", keyCleanLast, keyCleanOutdated, keyCleanAt)
}

// StoreClean is of firehose.Marks (F25, F48); at is kept in milliseconds. Where
// nothing was stored no number was used, and it stores nothing: the next start
// is that of a fresh state. It fails with ErrInvalid, ErrTwoRelays and the errors
// of a write.
func (s *Store) StoreClean(last, outdated int64, at time.Time) error {
	if last < 0 || last > firehose.MaxNumber || outdated < 0 || outdated > firehose.MaxNumber {
		return fmt.Errorf("%w: clean stop at %d, outdated %d", ErrInvalid, last, outdated)
	}
	if s.opened.Load() == nil {
		return nil
	}
	return s.write(func(c *sqldb.Conn) error {
		if _, err := s.ownLocked(c); err != nil {
			return err
		}
		for _, f := range []struct {
			key string
			n   int64
		}{{keyCleanLast, last}, {keyCleanOutdated, outdated}, {keyCleanAt, at.UnixMilli()}} {
			if err := schema.SetNumber(c, f.key, f.n); err != nil {
				return err
			}
		}
		return nil
	})
}

// readState reads all keys with one statement, so from one state.
func readState(c *sqldb.Conn) (st firehose.State, err error) {
	found := make(map[string]int64, 4)
	err = c.Rows("SELECT key, CAST(value AS TEXT) FROM firehose_meta WHERE key IN (?, ?, ?, ?)",
		[]any{keyReserved, keyCleanLast, keyCleanOutdated, keyCleanAt}, func(rows *sql.Rows) error {
			var key string
			var text sql.NullString
			if err := rows.Scan(&key, &text); err != nil {
				return err
			}
			n, err := strconv.ParseInt(text.String, 10, 64)
			if err != nil || key != keyCleanAt && (n < 0 || n > firehose.MaxNumber) {
				return fmt.Errorf("%w: firehose_meta: %s is %q", ErrUnreadable, key, text.String)
			}
			found[key] = n
			return nil
		})
	if err != nil {
		return st, explain(err)
	}
	if _, ok := found[keyReserved]; !ok {
		return st, fmt.Errorf("%w: firehose_meta: no %s", ErrUnreadable, keyReserved)
	}
	st.Reserved = found[keyReserved]
	switch len(found) {
	case 1:
	case 4:
		st.Clean, st.Last, st.Outdated = true, found[keyCleanLast], found[keyCleanOutdated]
		st.At = time.UnixMilli(found[keyCleanAt])
	default:
		return firehose.State{}, fmt.Errorf("%w: firehose_meta: half of a clean stop", ErrUnreadable)
	}
	return st, nil
}
