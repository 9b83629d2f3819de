package eventlog

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

const (
	columns       = "seq, stored_at, expires_at, mode, digest, tenant, source, event_id, type, text"
	selectPage    = "SELECT " + columns + " FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
	selectOne     = "SELECT " + columns + " FROM events WHERE seq = ?"
	selectEvicted = "SELECT evicted FROM sums WHERE id = 1"
	selectDead    = `SELECT number, stored_at, tenant, event_id, original_id, original_seq, subscription, text
		FROM dead_letters ORDER BY number DESC LIMIT ?`
)

// maxDeadRead bounds the texts that DeadLetters returns.
const maxDeadRead = 16 << 20

// errEnough ends a statement before its last row.
var errEnough = errors.New("event log: enough")

// Page appends the events that follow the number after, ascending, to dst: at
// most maxEvents of them, and no more than maxBytes of text unless the first
// alone is longer. Nothing is missing between after and the last of them (E5);
// fewer events than both bounds allow, or none, are all there are. When events
// that followed after have left the log it returns ErrEvicted: Evicted is then
// where a reader goes on that may have a gap (B51, B60).
//
// It blocks, and waits when several pages are being read. The events are the
// caller's; those of an expired event are there too (B61). On an error dst is
// returned as it was.
func (l *Log) Page(after int64, maxEvents int, maxBytes int64, dst []Stored) ([]Stored, error) {
	d := l.opened.Load()
	if d == nil || maxEvents <= 0 {
		return dst, nil
	}
	after = max(after, 0)
	got, size := dst, int64(0)
	err := d.read(func(c *sqldb.Conn) error {
		if err := kept(c, after+1); err != nil {
			return err
		}
		err := c.Rows(selectPage, []any{after, maxEvents}, func(r *sql.Rows) error {
			s, err := scan(r)
			if err != nil {
				return err
			}
			if size += int64(len(s.Text)); size > maxBytes && len(got) > len(dst) {
				return errEnough
			}
			got = append(got, s)
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	if err != nil {
		l.stats.failure(err)
		return dst, fmt.Errorf("page after %d: %w", after, err)
	}
	return got, nil
}

// At returns the event with the number seq, and false if there is none: the
// number was not given yet. ErrEvicted: it has left the log, so the id of its
// cursor cannot be checked (B51). It blocks as Page does.
func (l *Log) At(seq int64) (s Stored, found bool, err error) {
	d := l.opened.Load()
	if d == nil {
		return s, false, nil
	}
	err = d.read(func(c *sqldb.Conn) error {
		if err := kept(c, seq); err != nil {
			return err
		}
		return c.Rows(selectOne, []any{seq}, func(r *sql.Rows) (err error) {
			s, err = scan(r)
			found = true
			return err
		})
	})
	if err != nil {
		l.stats.failure(err)
		return Stored{}, false, fmt.Errorf("event %d: %w", seq, err)
	}
	return s, found, nil
}

// kept returns ErrEvicted if seq is a number that has left the log.
func kept(c *sqldb.Conn, seq int64) error {
	evicted, err := c.Int(selectEvicted)
	if err == nil && seq > 0 && seq <= evicted {
		return fmt.Errorf("%w: %d is not above %d", ErrEvicted, seq, evicted)
	}
	return err
}

// scan reads the columns of one event. The row's bytes are copied.
func scan(r *sql.Rows) (s Stored, err error) {
	var at, mode int64
	var expires sql.NullInt64
	var digest, tenant, source, id, kind sql.RawBytes
	err = r.Scan(&s.Seq, &at, &expires, &mode, &digest, &tenant, &source, &id, &kind, &s.Text)
	if err != nil {
		return s, err
	}
	if len(digest) != len(s.Digest) || mode < 0 || mode > 255 {
		return s, fmt.Errorf("%w: event %d: digest of %d bytes, mode %d", ErrUnreadable, s.Seq, len(digest), mode)
	}
	s.StoredAt, s.Mode = time.UnixMilli(at).UTC(), uint8(mode)
	if expires.Valid {
		s.ExpiresAt = time.UnixMilli(expires.Int64).UTC()
	}
	copy(s.Digest[:], digest)
	s.Tenant, s.Source, s.ID, s.Type = string(tenant), string(source), string(id), string(kind)
	return s, nil
}

// DeadLetters returns the newest dead letters, newest first: at most limit, and
// no more than 16 MiB of text unless the first alone is longer. They are the
// caller's. It blocks as Page does.
func (l *Log) DeadLetters(limit int) ([]StoredDeadLetter, error) {
	d := l.opened.Load()
	if d == nil || limit <= 0 {
		return nil, nil
	}
	var got []StoredDeadLetter
	size := 0
	err := d.read(func(c *sqldb.Conn) error {
		err := c.Rows(selectDead, []any{limit}, func(r *sql.Rows) error {
			var s StoredDeadLetter
			var at int64
			var tenant, id, original, subscription sql.RawBytes
			err := r.Scan(&s.Number, &at, &tenant, &id, &original, &s.OriginalSeq, &subscription, &s.Text)
			if err != nil {
				return err
			}
			if size += len(s.Text); size > maxDeadRead && len(got) > 0 {
				return errEnough
			}
			s.StoredAt = time.UnixMilli(at).UTC()
			s.Tenant, s.ID, s.Original, s.Subscription = string(tenant), string(id), string(original), string(subscription)
			got = append(got, s)
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	if err != nil {
		l.stats.failure(err)
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return got, nil
}
