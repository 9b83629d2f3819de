package devicestore

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// schema has rows by their change, so that data is written in order and found
// by number; owed names a row by its change for the same reason. seed tells an
// entry whose event is a current row from one whose event is in the outbox
// (V4).
var schema = sqldb.Schema{Meta: "device_meta", Scripts: []string{`
CREATE TABLE device_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE state (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	owner TEXT NOT NULL,
	device TEXT NOT NULL,
	last_hlc TEXT NOT NULL DEFAULT '',
	last_change INTEGER NOT NULL DEFAULT 0,
	live INTEGER NOT NULL DEFAULT 0,
	tombstones INTEGER NOT NULL DEFAULT 0,
	deferred INTEGER NOT NULL DEFAULT 0,
	deferred_bytes INTEGER NOT NULL DEFAULT 0,
	seen INTEGER NOT NULL DEFAULT 0,
	outbox INTEGER NOT NULL DEFAULT 0,
	unsealed INTEGER NOT NULL DEFAULT 0,
	purges INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE rows (
	change INTEGER PRIMARY KEY,
	tbl TEXT NOT NULL,
	id TEXT NOT NULL,
	hlc TEXT NOT NULL,
	deleted INTEGER NOT NULL,
	data BLOB,
	UNIQUE (tbl, id)
);
CREATE INDEX rows_tombstone ON rows (hlc) WHERE deleted = 1;
CREATE TABLE outbox (
	hlc TEXT NOT NULL UNIQUE,
	tbl TEXT NOT NULL,
	id TEXT NOT NULL,
	deleted INTEGER NOT NULL,
	data BLOB,
	envelope BLOB
);
CREATE INDEX outbox_key ON outbox (tbl, id);
CREATE INDEX outbox_unsealed ON outbox (hlc) WHERE envelope IS NULL;
CREATE TABLE relays (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	url TEXT NOT NULL UNIQUE,
	cursor TEXT NOT NULL DEFAULT '',
	generation INTEGER NOT NULL DEFAULT 1,
	account TEXT NOT NULL DEFAULT '',
	acked INTEGER NOT NULL DEFAULT 0,
	acks INTEGER NOT NULL DEFAULT 0,
	owed INTEGER NOT NULL DEFAULT 0,
	unseen INTEGER NOT NULL DEFAULT 0,
	blobs INTEGER NOT NULL DEFAULT 0,
	push_until INTEGER NOT NULL DEFAULT 0,
	push_reason TEXT NOT NULL DEFAULT '',
	push_fails INTEGER NOT NULL DEFAULT 0,
	pull_until INTEGER NOT NULL DEFAULT 0,
	pull_reason TEXT NOT NULL DEFAULT '',
	pull_fails INTEGER NOT NULL DEFAULT 0,
	synced_at INTEGER NOT NULL DEFAULT 0,
	reseeded_at INTEGER NOT NULL DEFAULT 0,
	reseeds INTEGER NOT NULL DEFAULT 0,
	reseeding INTEGER NOT NULL DEFAULT 0,
	used_bytes INTEGER NOT NULL DEFAULT 0,
	quota_bytes INTEGER NOT NULL DEFAULT 0,
	closed INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE owed (
	relay INTEGER NOT NULL,
	hlc TEXT NOT NULL,
	change INTEGER NOT NULL,
	seed INTEGER NOT NULL,
	ack INTEGER NOT NULL,
	tries INTEGER NOT NULL,
	PRIMARY KEY (relay, hlc)
) WITHOUT ROWID;
CREATE INDEX owed_ack ON owed (relay, ack, hlc);
CREATE INDEX owed_seed ON owed (change) WHERE seed = 1;
CREATE TABLE seen (hlc TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE deferred (
	hlc TEXT NOT NULL UNIQUE,
	kind INTEGER NOT NULL,
	schema INTEGER NOT NULL,
	tried INTEGER NOT NULL,
	plain BLOB NOT NULL
);
CREATE INDEX deferred_future ON deferred (hlc) WHERE kind = 1;
CREATE INDEX deferred_unknown ON deferred (schema, tried) WHERE kind = 2;
CREATE TABLE owed_later (
	relay INTEGER NOT NULL,
	hlc TEXT NOT NULL,
	PRIMARY KEY (relay, hlc)
) WITHOUT ROWID;
CREATE TABLE refusals (
	relay INTEGER NOT NULL,
	reason TEXT NOT NULL,
	count INTEGER NOT NULL,
	last_event TEXT NOT NULL,
	last_at INTEGER NOT NULL,
	PRIMARY KEY (relay, reason)
) WITHOUT ROWID;
CREATE TABLE purges (
	relay INTEGER NOT NULL,
	stream TEXT NOT NULL,
	tbl TEXT NOT NULL,
	id TEXT NOT NULL,
	PRIMARY KEY (relay, stream)
) WITHOUT ROWID;
CREATE INDEX purges_key ON purges (tbl, id);
CREATE TABLE blobs (
	relay INTEGER NOT NULL,
	blob TEXT NOT NULL,
	PRIMARY KEY (relay, blob)
) WITHOUT ROWID;
CREATE TABLE old_owners (
	relay INTEGER NOT NULL,
	owner TEXT NOT NULL,
	PRIMARY KEY (relay, owner)
) WITHOUT ROWID;
`}}

// version tells how the file was made: 0 for one that has no tables yet, as an
// interrupted Create leaves it.
func version(c *sqldb.Conn) (int, error) {
	v, err := schema.Version(c)
	if err != nil || v != 0 {
		return v, err
	}
	others, err := c.Int("SELECT count(*) FROM sqlite_schema")
	if err == nil && others != 0 {
		err = fmt.Errorf("%w: it has tables of something else", ErrUnreadable)
	}
	return 0, err
}

// seed makes the tables of a new device, or finds those of another.
func seed(c *sqldb.Conn, owner, device string) error {
	if err := logMode(c); err != nil {
		return err
	}
	return schema.Migrate(c, func(from int) error {
		if from != 0 {
			return fmt.Errorf("%w: there is a device in it", fs.ErrExist)
		}
		return c.Exec("INSERT INTO state (one, owner, device) VALUES (1, ?, ?)", owner, device)
	})
}

// upgrade brings the tables of a device up to date.
func upgrade(c *sqldb.Conn) error {
	v, err := version(c)
	if err != nil {
		return err
	}
	if v == 0 {
		return fmt.Errorf("%w: no device was made in it", fs.ErrNotExist)
	}
	if v > len(schema.Scripts) {
		return fmt.Errorf("%w: version %d, known %d", ErrNewerSchema, v, len(schema.Scripts))
	}
	if err := logMode(c); err != nil {
		return err
	}
	if v == len(schema.Scripts) {
		return nil // no lock is waited for
	}
	return schema.Migrate(c, func(int) error { return nil })
}

func logMode(c *sqldb.Conn) error {
	var mode string
	if err := c.Row("PRAGMA journal_mode = WAL", nil, &mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("device store: no write-ahead log on this file system: journal mode is %s", mode)
	}
	return nil
}

// explain says what an error of opening means.
func explain(err error) error {
	const advice = "put a copy in its place, or move it away with the files beside it, " +
		"-wal and -shm, and restore the device from its credential"
	switch {
	case errors.Is(err, ErrUnreadable):
		return err
	case sqldb.NotDatabase(err), sqldb.Corrupt(err):
		return fmt.Errorf("%w: %w: %s", ErrUnreadable, err, advice)
	case sqldb.Unreachable(err):
		return fmt.Errorf("%w: the file and its directory must be readable and writable", err)
	}
	return err
}
