package store

import (
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// migrations holds one script for each schema version, the first for an empty
// file (S48, S50). A script is never edited once released: a change is another
// script. The three counts of owners go beyond the contract's columns: they
// keep status and close from counting rows.
var migrations = []string{`
CREATE TABLE relay_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE seq_epochs (
	start INTEGER PRIMARY KEY,
	last INTEGER NOT NULL,
	opened_at TEXT NOT NULL
);
CREATE TABLE owners (
	owner_id TEXT PRIMARY KEY,
	auth_hash TEXT NOT NULL,
	stored_bytes INTEGER NOT NULL DEFAULT 0,
	created_at TEXT NOT NULL,
	closed_at TEXT,
	event_count INTEGER NOT NULL DEFAULT 0,
	stream_count INTEGER NOT NULL DEFAULT 0,
	blob_count INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE events (
	seq INTEGER PRIMARY KEY,
	owner_id TEXT NOT NULL REFERENCES owners,
	event_id TEXT NOT NULL,
	stream_id TEXT,
	bytes INTEGER NOT NULL,
	envelope TEXT NOT NULL,
	received_at TEXT NOT NULL,
	UNIQUE (owner_id, event_id)
);
CREATE INDEX events_owner_seq ON events (owner_id, seq);
CREATE INDEX events_stream ON events (owner_id, stream_id, event_id)
	WHERE stream_id IS NOT NULL;
CREATE TABLE blobs (
	owner_id TEXT NOT NULL REFERENCES owners,
	hash TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	body BLOB NOT NULL,
	created_at TEXT NOT NULL,
	PRIMARY KEY (owner_id, hash)
);
`}

// Keys of relay_meta.
const (
	metaSchema     = "schema_version"
	metaStoreID    = "store_id"
	metaLastSeq    = "last_seq"
	metaTotalBytes = "total_bytes"
	// metaCompacted is when S37 ran last, in unix milliseconds; at first when
	// the store was made.
	metaCompacted = "last_compaction"
)

// timeLayout is S9's form.
const timeLayout = "2006-01-02T15:04:05.000Z"

func isoTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// migrate brings the database to the version of the last of scripts in one
// transaction, or refuses a newer one.
func migrate(db *conn, scripts []string, now time.Time) error {
	if err := db.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := migrateInside(db, scripts, now); err != nil {
		return errors.Join(err, db.exec("ROLLBACK"))
	}
	return db.exec("COMMIT")
}

func migrateInside(db *conn, scripts []string, now time.Time) error {
	version, err := schemaVersion(db)
	if err != nil {
		return err
	}
	if version > len(scripts) {
		return fmt.Errorf("%w: version %d, known %d", ErrNewerSchema, version, len(scripts))
	}
	for v := version; v < len(scripts); v++ {
		if err := db.script(scripts[v]); err != nil {
			return fmt.Errorf("store: migration to %d: %w", v+1, err)
		}
	}
	if version == 0 {
		if err := seedMeta(db, now); err != nil {
			return err
		}
	}
	if err := db.setMeta(metaSchema, int64(len(scripts))); err != nil {
		return err
	}
	return adopt(db, now)
}

// schemaVersion is 0 for an empty file.
func schemaVersion(db *conn) (int, error) {
	tables, err := db.int("SELECT count(*) FROM sqlite_schema WHERE name = 'relay_meta'")
	if err != nil || tables == 0 {
		return 0, err
	}
	v, err := db.meta(metaSchema)
	return int(v), err
}

func seedMeta(db *conn, now time.Time) error {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand, Go 1.24)
	if err := db.exec("INSERT INTO relay_meta (key, value) VALUES (?, ?)", metaStoreID, hex.EncodeToString(id[:])); err != nil {
		return err
	}
	for key, value := range map[string]int64{
		metaLastSeq: 0, metaTotalBytes: 0, metaCompacted: now.UnixMilli(),
	} {
		if err := db.setMeta(key, value); err != nil {
			return err
		}
	}
	return nil
}

// adopt takes over rows that were filled in from another relay (S51): events
// without any epoch. Their numbers are kept under one epoch, so cursors of the
// old relay stay valid, and all counters are taken anew.
func adopt(db *conn, now time.Time) error {
	n, err := db.int(`SELECT EXISTS (SELECT 1 FROM events)
		AND NOT EXISTS (SELECT 1 FROM seq_epochs)`)
	if err != nil || n == 0 {
		return err
	}
	if err := db.exec(`INSERT INTO seq_epochs (start, last, opened_at)
		SELECT 1, max(seq), ? FROM events`, isoTime(now)); err != nil {
		return err
	}
	for _, query := range []string{
		`UPDATE owners SET
			event_count = (SELECT count(*) FROM events e WHERE e.owner_id = owners.owner_id),
			stream_count = (SELECT count(DISTINCT stream_id) FROM events e WHERE e.owner_id = owners.owner_id),
			blob_count = (SELECT count(*) FROM blobs b WHERE b.owner_id = owners.owner_id),
			stored_bytes = (SELECT coalesce(sum(bytes), 0) FROM events e WHERE e.owner_id = owners.owner_id)
				+ (SELECT coalesce(sum(bytes), 0) FROM blobs b WHERE b.owner_id = owners.owner_id)
			WHERE closed_at IS NULL`,
		`UPDATE relay_meta SET value = (SELECT max(seq) FROM events) WHERE key = 'last_seq'`,
		`UPDATE relay_meta SET value = (SELECT coalesce(sum(stored_bytes), 0) FROM owners)
			WHERE key = 'total_bytes'`,
	} {
		if err := db.exec(query); err != nil {
			return fmt.Errorf("store: taking over: %w", err)
		}
	}
	return nil
}

// meta reads a number of relay_meta. Text is accepted: an import may write it.
func (c *conn) meta(key string) (int64, error) {
	var text string
	err := c.row("SELECT CAST(value AS TEXT) FROM relay_meta WHERE key = ?", []any{key}, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("store: relay_meta %s: %w", key, err)
	}
	return n, nil
}

func (c *conn) setMeta(key string, value int64) error {
	return c.exec("INSERT INTO relay_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value)
}
