package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
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

// tables is the schema made by scripts.
func tables(scripts []string) sqldb.Schema {
	return sqldb.Schema{Meta: "relay_meta", Scripts: scripts}
}

// migrate brings the database to the version of the last of scripts in one
// transaction, or refuses a newer one.
func migrate(db *sqldb.Conn, scripts []string, now time.Time) error {
	return tables(scripts).Migrate(db, func(from int) error {
		if from == 0 {
			if err := seedMeta(db, now); err != nil {
				return err
			}
		}
		return adopt(db, now)
	})
}

// schemaVersion is 0 for an empty file.
func schemaVersion(db *sqldb.Conn) (int, error) { return tables(migrations).Version(db) }

func seedMeta(db *sqldb.Conn, now time.Time) error {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand, Go 1.24)
	if err := db.Exec("INSERT INTO relay_meta (key, value) VALUES (?, ?)", metaStoreID, hex.EncodeToString(id[:])); err != nil {
		return err
	}
	for key, value := range map[string]int64{
		metaLastSeq: 0, metaTotalBytes: 0, metaCompacted: now.UnixMilli(),
	} {
		if err := setMeta(db, key, value); err != nil {
			return err
		}
	}
	return nil
}

// adopt takes over rows that were filled in from another relay (S51): events
// without any epoch. Their numbers are kept under one epoch, so cursors of the
// old relay stay valid, and all counters are taken anew.
func adopt(db *sqldb.Conn, now time.Time) error {
	n, err := db.Int(`SELECT EXISTS (SELECT 1 FROM events)
		AND NOT EXISTS (SELECT 1 FROM seq_epochs)`)
	if err != nil || n == 0 {
		return err
	}
	if err := db.Exec(`INSERT INTO seq_epochs (start, last, opened_at)
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
		if err := db.Exec(query); err != nil {
			return fmt.Errorf("store: taking over: %w", err)
		}
	}
	return nil
}

// meta reads a number of relay_meta, 0 if it is not there.
func meta(db *sqldb.Conn, key string) (int64, error) {
	n, _, err := tables(migrations).Number(db, key)
	return n, err
}

func setMeta(db *sqldb.Conn, key string, value int64) error {
	return tables(migrations).SetNumber(db, key, value)
}
