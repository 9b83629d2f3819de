package devicestore

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// The statements that run for each event or over a long queue walk an index:
// none scans a table or sorts one.
func TestPlans(t *testing.T) {
	s := fresh(t)
	walks := []string{ // the keys given, at most MaxRelays, and what LIMIT ends
		"SCAN 64 CONSTANT ROWS", "SCAN k", "SCAN CONSTANT ROW", "SCAN r USING COVERING INDEX sqlite_autoindex_relays_1",
	}
	for _, query := range []string{
		selectRow, updateRow, selectSeen, selectOwed, selectKeys, deleteEvent,
		selectPending, selectUnsealed, selectMissing, selectPurgeable,
		"SELECT relay, hlc, ack FROM owed WHERE change = ? AND seed = 1",
		"UPDATE owed SET ack = ? WHERE relay = ? AND hlc = ? AND ack = 0",
		"SELECT min(hlc) FROM seen", "SELECT min(hlc) FROM deferred WHERE kind = 1", selectAnyDue, selectDue,
		rowColumns + "WHERE tbl = ? AND id > ? AND (deleted = 0 OR ?) ORDER BY id LIMIT ?",
		rowColumns + "WHERE (tbl, id) > (?, ?) AND (deleted = 0 OR ?) ORDER BY tbl, id LIMIT ?",
		rowColumns + "WHERE change > ? ORDER BY change LIMIT ?",
	} {
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = 1
		}
		err := s.db.read(func(c *sqldb.Conn) error {
			return c.Rows("EXPLAIN QUERY PLAN "+query, args, func(r *sql.Rows) error {
				var id, parent, unused int
				var detail string
				err := r.Scan(&id, &parent, &unused, &detail)
				if strings.Contains(detail, "TEMP B-TREE") || strings.HasPrefix(detail, "SCAN ") && !slices.Contains(walks, detail) {
					t.Errorf("%.300s: %s", query, detail)
				}
				return err
			})
		})
		wantErr(t, query, err, nil)
	}
}
