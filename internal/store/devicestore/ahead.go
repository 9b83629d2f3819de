package devicestore

import (
	"database/sql"
	"slices"
	"strings"
)

// lookCount is how many ids or keys one statement looks up or inserts. A
// statement of its own for each event costs about as much as its work: of four
// a new event, three are shared by so many events.
const lookCount = 64

var (
	selectSeen = "SELECT hlc FROM seen WHERE hlc IN (?" + strings.Repeat(", ?", lookCount-1) + ")"
	insertSeen = "INSERT OR IGNORE INTO seen (hlc) VALUES (?)" + strings.Repeat(", (?)", lookCount-1)
	selectOwed = "SELECT hlc, seed, ack FROM owed WHERE relay = ? AND hlc IN (?" + strings.Repeat(", ?", lookCount-1) + ")"
	selectKeys = "WITH k (tbl, id) AS (VALUES (?, ?)" + strings.Repeat(", (?, ?)", lookCount-1) + ") " +
		"SELECT r.tbl, r.id, r.change, r.hlc, r.deleted FROM k CROSS JOIN rows r ON r.tbl = k.tbl AND r.id = k.id"
)

// lookAhead reads which events of a page were seen, which of them the relay was
// owed, and the rows of those to be applied. Rows and ids are kept up to date
// for the rest of the transaction; an entry of owed may be gone when it is
// settled.
func (in *intake) lookAhead(events []Event) error {
	in.had = make(map[string]bool, len(events))
	in.known = make(map[Key]Row, len(events))
	in.owed = make(map[string]entry)
	for part := range slices.Chunk(events, lookCount) {
		ids, keys := append(make([]any, 0, lookCount+1), in.lane.id), make([]any, 0, 2*lookCount)
		for i := range lookCount {
			e := &part[min(i, len(part)-1)] // repeats do no harm
			ids, keys = append(ids, e.ID), append(keys, e.Table, e.Key.ID)
			if e.Defer == Apply {
				in.known[e.Key] = Row{Key: e.Key}
			}
		}
		if err := in.lookOwed(ids); err != nil {
			return err
		}
		err := in.Rows(selectSeen, ids[1:], func(r *sql.Rows) error {
			var hlc string
			err := r.Scan(&hlc)
			in.had[hlc] = true
			return err
		})
		if err != nil {
			return err
		}
		err = in.Rows(selectKeys, keys, func(r *sql.Rows) error {
			var row Row
			err := r.Scan(&row.Table, &row.ID, &row.Change, &row.HLC, &row.Deleted)
			in.known[row.Key] = row
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lookOwed reads entries of the relay, the first of args, with the ids after
// it.
func (in *intake) lookOwed(args []any) error {
	if in.lane.owed+in.lane.unseen == 0 {
		return nil
	}
	return in.Rows(selectOwed, args, func(r *sql.Rows) error {
		e := entry{relay: in.lane.id}
		err := r.Scan(&e.hlc, &e.seed, &e.ack)
		in.owed[e.hlc] = e
		return err
	})
}

// remember puts the ids of the page into the seen set, and keeps the greatest
// of all (D33).
func (in *intake) remember() error {
	slices.Sort(in.fresh)
	for part := range slices.Chunk(in.fresh, lookCount) {
		ids := make([]any, 0, lookCount)
		for i := range lookCount {
			ids = append(ids, part[min(i, len(part)-1)])
		}
		n, err := in.Change(insertSeen, ids...)
		if err != nil {
			return err
		}
		in.seen += n
	}
	over := in.seen - int64(in.opt.SeenMax)
	if over <= 0 {
		return nil
	}
	n, err := in.Change("DELETE FROM seen WHERE hlc IN (SELECT hlc FROM seen ORDER BY hlc LIMIT ?)", over)
	in.seen -= n
	return err
}
