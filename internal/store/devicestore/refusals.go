package devicestore

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Reasons are all that a refusal may have.
var reasons = []string{
	"bad_chunk", "bad_cursor", "bad_envelope", "bad_page", "bad_payload", "bad_tag",
	"no_progress", "other_owner", "withheld",
}

// Refusal is something of a relay that was not taken (D11): a reason of the
// closed list, and the event or other name that it was said of, "" if none.
type Refusal struct{ Reason, Event string }

// Count is how often something was refused. Relay is 0 for what is not known to
// be of one.
type Count struct {
	Relay     int64
	Reason    string
	Count     int64
	LastEvent string
	LastAt    time.Time
}

// Refuse counts refusals of the relay. Errors: ErrInvalid for a reason that is
// not listed, ErrNoRelay.
func (s *Store) Refuse(id int64, r ...Refusal) error {
	return s.write(func(t *tx) error {
		if _, err := t.lane(id); err != nil {
			return err
		}
		return t.refuse(id, s.opt.Now(), r)
	})
}

// refuse counts them, in one row a relay and reason. What the event says is the
// relay's: it is cut and made printable.
func (t *tx) refuse(relay int64, at time.Time, list []Refusal) error {
	for _, r := range list {
		if !slices.Contains(reasons, r.Reason) {
			return fmt.Errorf("%w: refusal %.80q", ErrInvalid, r.Reason)
		}
		if err := t.Exec(`INSERT INTO refusals (relay, reason, count, last_event, last_at) VALUES (?, ?, 1, ?, ?)
			ON CONFLICT (relay, reason) DO UPDATE SET count = count + 1, last_event = excluded.last_event,
			last_at = excluded.last_at`, relay, r.Reason, printable(r.Event), inSavedForm(at)); err != nil {
			return err
		}
	}
	return nil
}

func printable(s string) string {
	if len(s) > maxEventBytes {
		s = s[:maxEventBytes]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Refusals returns all counts, by relay and reason.
func (s *Store) Refusals() (list []Count, err error) {
	err = s.db.read(func(c *sqldb.Conn) error {
		return c.Rows("SELECT relay, reason, count, last_event, last_at FROM refusals ORDER BY relay, reason", nil,
			func(r *sql.Rows) error {
				var v Count
				var at int64
				err := r.Scan(&v.Relay, &v.Reason, &v.Count, &v.LastEvent, &at)
				v.LastAt = fromSavedForm(at)
				list = append(list, v)
				return err
			})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
