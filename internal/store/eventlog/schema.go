package eventlog

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// schema has the events, one row of sums, and the dead letters. In a row of
// events, what retention reads comes before what may lie on pages of its own.
var schema = sqldb.Schema{Meta: "aepws_meta", Scripts: []string{`
CREATE TABLE aepws_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE events (
	seq INTEGER PRIMARY KEY,
	bytes INTEGER NOT NULL,
	stored_at INTEGER NOT NULL,
	expires_at INTEGER,
	mode INTEGER NOT NULL,
	digest BLOB NOT NULL,
	tenant BLOB NOT NULL,
	source BLOB NOT NULL,
	event_id BLOB NOT NULL,
	type BLOB NOT NULL,
	text BLOB NOT NULL
);
CREATE UNIQUE INDEX events_name ON events (tenant, source, event_id);
CREATE TABLE dead_letters (
	number INTEGER PRIMARY KEY,
	bytes INTEGER NOT NULL,
	stored_at INTEGER NOT NULL,
	tenant BLOB NOT NULL,
	event_id BLOB NOT NULL,
	original_id BLOB NOT NULL,
	original_seq INTEGER NOT NULL,
	subscription BLOB NOT NULL,
	text BLOB NOT NULL
);
CREATE TABLE sums (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	last_seq INTEGER NOT NULL,
	evicted INTEGER NOT NULL,
	events INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	last_dead INTEGER NOT NULL,
	dead_letters INTEGER NOT NULL,
	dead_bytes INTEGER NOT NULL
);
INSERT INTO sums VALUES (1, 0, 0, 0, 0, 0, 0, 0);
`}}

// counters is the writer's view of the row of sums, and of the oldest event. It
// is a value: a rollback restores an earlier copy.
type counters struct {
	// last is the newest number given, evicted the highest that has left (E2, E4).
	last, evicted int64
	// events are kept, charged with bytes.
	events, bytes int64
	// oldest is the lowest number kept and oldestAt its unix milliseconds; both are
	// 0 when there is none.
	oldest, oldestAt int64
	// deadLast is the newest number of a dead letter; dead of them are kept.
	deadLast, dead, deadBytes int64
}

func (c *counters) state() *State {
	return &State{Oldest: c.oldest, Newest: c.last, Evicted: c.evicted, Events: c.events, Bytes: c.bytes}
}

const (
	selectSums = `SELECT last_seq, evicted, events, bytes, last_dead, dead_letters, dead_bytes FROM sums WHERE id = 1`
	updateSums = `UPDATE sums SET last_seq = ?, evicted = ?, events = ?, bytes = ?,
		last_dead = ?, dead_letters = ?, dead_bytes = ? WHERE id = 1`
	selectOldest = "SELECT seq, stored_at FROM events ORDER BY seq LIMIT 1"
	selectNewest = "SELECT coalesce(max(seq), 0) FROM events"
)

// load reads the counters, inside a transaction or where nobody writes.
func load(c *sqldb.Conn) (counters, error) {
	var n counters
	err := c.Row(selectSums, nil, &n.last, &n.evicted, &n.events, &n.bytes, &n.deadLast, &n.dead, &n.deadBytes)
	if errors.Is(err, sql.ErrNoRows) {
		return n, fmt.Errorf("%w: the row of sums is gone", ErrUnreadable)
	}
	if err == nil {
		err = c.Row(selectOldest, nil, &n.oldest, &n.oldestAt)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
	}
	return n, err
}

func (c *counters) save(db *sqldb.Conn) error {
	return db.Exec(updateSums, c.last, c.evicted, c.events, c.bytes, c.deadLast, c.dead, c.deadBytes)
}

// prepare takes a file that is empty or ours, and brings its tables up to date.
func prepare(c *sqldb.Conn) error {
	version, err := schema.Version(c)
	if err != nil {
		return err
	}
	if version == 0 {
		others, err := c.Int("SELECT count(*) FROM sqlite_schema")
		if err != nil {
			return err
		}
		if others != 0 {
			return fmt.Errorf("%w: it has tables of something else", ErrUnreadable)
		}
	}
	var mode string
	if err := c.Row("PRAGMA journal_mode = WAL", nil, &mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("event log: no write-ahead log on this file system: journal mode is %s", mode)
	}
	return schema.Migrate(c, func(int) error { return nil })
}

// examine looks at what numbers depend on: the small tables as a whole, of the
// events the first and the last.
func examine(c *sqldb.Conn) (counters, error) {
	for _, table := range []string{schema.Meta, "sums"} {
		var found string
		if err := c.Row("PRAGMA quick_check("+table+")", nil, &found); err != nil {
			return counters{}, err
		}
		if found != "ok" {
			return counters{}, fmt.Errorf("%w: %s: %s", ErrUnreadable, table, found)
		}
	}
	n, err := load(c)
	if err != nil {
		return n, err
	}
	newest, err := c.Int(selectNewest)
	if err != nil {
		return n, err
	}
	switch {
	case n.last < 0 || n.last > MaxSeq || n.evicted < 0 || n.evicted > n.last || newest > n.last,
		n.oldest != 0 && n.oldest <= n.evicted, n.oldest < 0:
		return n, fmt.Errorf("%w: last number %d, evicted %d, events %d to %d", ErrUnreadable,
			n.last, n.evicted, n.oldest, newest)
	case n.events < 0 || n.bytes < 0 || (n.events == 0) != (n.oldest == 0),
		n.deadLast < 0 || n.deadLast > MaxSeq || n.dead < 0 || n.deadBytes < 0:
		return n, fmt.Errorf("%w: sums of %d events and %d dead letters", ErrUnreadable, n.events, n.dead)
	}
	return n, nil
}

// explain says what an error of opening means for the numbers.
func explain(err error) error {
	const advice = "numbers would repeat without it; put a copy in its place, " +
		"or move it away with the files beside it, -wal and -shm"
	switch {
	case sqldb.NotDatabase(err), sqldb.Corrupt(err):
		return fmt.Errorf("%w: %w: %s", ErrUnreadable, err, advice)
	case sqldb.Unreachable(err):
		return fmt.Errorf("%w: the file and its directory must be readable and writable", err)
	}
	return err
}
