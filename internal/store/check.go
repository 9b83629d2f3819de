package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
		(SELECT count(DISTINCT stream_id) FROM events e WHERE e.owner_id = o.owner_id)`},
	{"blob_count", `SELECT owner_id || ': ' || blob_count FROM owners o WHERE closed_at IS NULL AND blob_count <>
		(SELECT count(*) FROM blobs b WHERE b.owner_id = o.owner_id)`},
	{"bytes of an event", `SELECT seq FROM events WHERE bytes <> length(CAST(envelope AS BLOB))`},
	{"bytes of a blob", `SELECT hash FROM blobs WHERE bytes <> length(body)`},
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

// Check tests the invariants on one snapshot of a live database (S49). Every
// broken one is in the error, which wraps ErrInvariant. It reads all rows, so
// it is for tests and operators.
func (s *Store) Check() error {
	tx, err := s.readers.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return classify(err)
	}
	var broken []error
	for _, inv := range invariants {
		broken = append(broken, checkOne(tx, inv.name, inv.query))
	}
	return errors.Join(append(broken, tx.Rollback())...)
}

func checkOne(tx *sql.Tx, name, query string) error {
	rows, err := tx.Query(query)
	if err != nil {
		return classify(err)
	}
	var broken []error
	for len(broken) < maxBroken && rows.Next() {
		var what string
		if err := rows.Scan(&what); err != nil {
			return errors.Join(classify(err), rows.Close())
		}
		broken = append(broken, fmt.Errorf("%w: %s: %s", ErrInvariant, name, what))
	}
	return errors.Join(append(broken, classify(rows.Err()), rows.Close())...)
}
