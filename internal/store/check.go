package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// invariants are queries that give the offending rows of doc.go's D1 to D3, as
// text; none when all is well.
var invariants = []struct{ name, query string }{
	{"stored_bytes of a closed owner", `SELECT owner_id FROM owners WHERE closed_at IS NOT NULL
		AND (stored_bytes <> 0 OR event_count <> 0 OR stream_count <> 0 OR blob_count <> 0)`},
	{"stored_bytes", `SELECT owner_id || ': ' || stored_bytes FROM owners o WHERE closed_at IS NULL AND stored_bytes <>
		(SELECT coalesce(sum(bytes), 0) FROM events e WHERE e.owner_id = o.owner_id)
		+ (SELECT coalesce(sum(bytes), 0) FROM blobs b WHERE b.owner_id = o.owner_id)`},
	{"event_count", `SELECT owner_id || ': ' || event_count FROM owners o WHERE closed_at IS NULL AND event_count <>
		(SELECT count(*) FROM events e WHERE e.owner_id = o.owner_id)`},
	{"stream_count", `SELECT owner_id || ': ' || stream_count FROM owners o WHERE closed_at IS NULL AND stream_count <>
		(SELECT count(DISTINCT stream_id) FROM events e WHERE e.owner_id = o.owner_id AND stream_id IS NOT NULL)`},
	{"blob_count", `SELECT owner_id || ': ' || blob_count FROM owners o WHERE closed_at IS NULL AND blob_count <>
		(SELECT count(*) FROM blobs b WHERE b.owner_id = o.owner_id)`},
	{"bytes of an event", `SELECT seq FROM events WHERE bytes <> length(CAST(envelope AS BLOB))`},
	{"bytes of a blob", `SELECT hash FROM blobs WHERE bytes <> length(body)`},
	{"owner of an event", `SELECT seq FROM events e WHERE NOT EXISTS
		(SELECT 1 FROM owners o WHERE o.owner_id = e.owner_id)`},
	{"owner of a blob", `SELECT hash FROM blobs b WHERE NOT EXISTS
		(SELECT 1 FROM owners o WHERE o.owner_id = b.owner_id)`},
	{"total_bytes", `SELECT value FROM relay_meta WHERE key = 'total_bytes'
		AND value <> (SELECT coalesce(sum(stored_bytes), 0) FROM owners)`},
	{"seq outside the epochs", `SELECT seq FROM events WHERE seq > coalesce(
		(SELECT last FROM seq_epochs WHERE start <= seq ORDER BY start DESC LIMIT 1), 0)`},
	{"epochs that overlap", `SELECT start FROM seq_epochs s WHERE last < start
		OR EXISTS (SELECT 1 FROM seq_epochs t WHERE t.start > s.start AND t.start <= s.last)`},
	{"last_seq", `SELECT value FROM relay_meta WHERE key = 'last_seq'
		AND value <> coalesce((SELECT last FROM seq_epochs ORDER BY start DESC LIMIT 1), 0)`},
}

// maxBroken bounds how many offending rows of one invariant are reported.
const maxBroken = 5

// Broken is an invariant that does not hold.
type Broken struct {
	// Name says which.
	Name string `json:"invariant"`
	// Rows names the first offending rows; More tells that there are others.
	Rows []string `json:"rows"`
	More bool     `json:"more,omitempty"`
}

// Error implements error; it wraps ErrInvariant.
func (b Broken) Error() string {
	text := ErrInvariant.Error() + ": " + b.Name + ": " + strings.Join(b.Rows, ", ")
	if b.More {
		text += ", and more"
	}
	return text
}

// Unwrap returns ErrInvariant.
func (b Broken) Unwrap() error { return ErrInvariant }

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Check tests the invariants on one snapshot of a live database (S49). Every
// broken one is in the error, which wraps ErrInvariant. It reads all rows, so
// it is for tests and operators.
func (s *Store) Check() error {
	tx, err := s.readers.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return sqldb.Classify(err)
	}
	broken, err := checkAll(context.Background(), tx)
	errs := []error{err}
	for _, b := range broken {
		errs = append(errs, b)
	}
	return errors.Join(append(errs, tx.Rollback())...)
}

// checkAll runs one query after the other.
func checkAll(ctx context.Context, db querier) ([]Broken, error) {
	var all []Broken
	for _, inv := range invariants {
		b, err := checkOne(ctx, db, inv.query)
		if err != nil {
			return all, fmt.Errorf("store: checking %s: %w", inv.name, err)
		}
		if b.Name = inv.name; len(b.Rows) > 0 {
			all = append(all, b)
		}
	}
	return all, nil
}

// checkOne runs a query that gives the offending rows. A file that cannot be
// read for what is in it is a finding too.
func checkOne(ctx context.Context, db querier, query string) (b Broken, err error) {
	if err = b.collect(ctx, db, query); sqldb.Corrupt(err) {
		b.Rows = append(b.Rows, err.Error())
		return b, nil
	}
	return b, sqldb.Classify(err)
}

func (b *Broken) collect(ctx context.Context, db querier, query string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	for rows.Next() {
		if b.More = len(b.Rows) == maxBroken; b.More {
			break
		}
		var what string
		if err := rows.Scan(&what); err != nil {
			return errors.Join(err, rows.Close())
		}
		b.Rows = append(b.Rows, what)
	}
	return errors.Join(rows.Err(), rows.Close())
}
