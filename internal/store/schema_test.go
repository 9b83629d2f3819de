package store

import (
	"path/filepath"
	"testing"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// outside runs statements on a closed database.
func outside(t testing.TB, path string, queries ...string) {
	t.Helper()
	db, err := sqldb.Open(sqldb.Source(path, DefaultBusyTimeout))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		if err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// S50: a newer database is refused and left as it is.
func TestNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.db")
	s := reopen(t, path)
	push(t, s, alice, 1, 0, ev("1", ""))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	outside(t, path, "UPDATE relay_meta SET value = 99 WHERE key = 'schema_version'")
	_, err := Open(Config{Path: path})
	wantErr(t, "open", err, ErrNewerSchema)
	outside(t, path, "UPDATE relay_meta SET value = '1' WHERE key = 'schema_version'")
	check(t, reopen(t, path))
}

// S50: an older one is migrated in one transaction, or not at all.
func TestMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.db")
	s := reopen(t, path)
	push(t, s, alice, 1, 0, ev("1", ""))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Open(sqldb.Source(path, DefaultBusyTimeout))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	add := "ALTER TABLE owners ADD COLUMN more INTEGER; UPDATE owners SET more = 7;"
	next := append([]string{migrations[0]}, add, "SELECT nothing FROM nowhere")
	if err := migrate(db, next, newClock().now()); err == nil {
		t.Fatal("a broken script passed")
	}
	if v, err := schemaVersion(db); v != 1 || err != nil {
		t.Fatalf("version %d, %v", v, err)
	}
	for range 2 { // the second finds nothing to do
		if err := migrate(db, next[:2], newClock().now()); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := db.Int("SELECT more FROM owners"); n != 7 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
}

// S51: rows taken over from another relay keep their numbers and cursors.
func TestTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.db")
	if err := reopen(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	outside(t, path,
		"INSERT INTO owners (owner_id, auth_hash, created_at) VALUES ('alice', 'hash-a', '2024-01-01T00:00:00.000Z')",
		`INSERT INTO events (seq, owner_id, event_id, stream_id, bytes, envelope, received_at) VALUES
			(7, 'alice', 'a', 's', 4, 'four', ''), (19, 'alice', 'b', NULL, 2, '{}', '')`,
		"INSERT INTO blobs (owner_id, hash, bytes, body, created_at) VALUES ('alice', 'h', 3, x'000102', '')")
	clock := newClock()
	s := reopen(t, path, clocked(clock, FloorAuto, 0))
	check(t, s)
	if st := status(t, s, alice); st.UsedBytes != 9 || st.Events != 2 || st.Streams != 1 || st.Blobs != 1 || st.HeadSeq != 19 {
		t.Fatalf("%+v", st)
	}
	if got, next := pulled(t, s, alice, 7, 10); len(got) != 1 || next != 19 {
		t.Fatalf("%q, %d", got, next)
	}
	if n := head(t, s, "c"); n != clock.now().UnixMilli()*1024+1 {
		t.Fatalf("new number %d", n)
	}
	check(t, s)
}

// S12, S25, S48: what each connection is set to.
func TestPragmas(t *testing.T) {
	s := open(t, func(c *Config) { c.Synchronous = "" })
	want := map[string]string{"synchronous": "2", "foreign_keys": "1", "journal_mode": "wal", "busy_timeout": "5000"}
	err := <-script(t, s, func(w *writer) error {
		for name, value := range want {
			var got string
			if err := w.db.SQL().QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&got); err != nil {
				return err
			}
			if got != value {
				t.Errorf("%s is %s, want %s", name, got, value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.readers.db.Exec("DELETE FROM owners"); err == nil {
		t.Error("a reader may write")
	}
}

// A broken invariant is found and named.
func TestCheckFinds(t *testing.T) {
	for _, q := range []string{
		"UPDATE owners SET stored_bytes = stored_bytes + 1",
		"UPDATE owners SET event_count = 5",
		"UPDATE owners SET stream_count = 5",
		"UPDATE owners SET blob_count = 5",
		"UPDATE relay_meta SET value = 1 WHERE key = 'total_bytes'",
		"UPDATE relay_meta SET value = 99 WHERE key = 'last_seq'",
		"UPDATE events SET seq = 1000",
		"UPDATE events SET bytes = 1",
		"UPDATE seq_epochs SET last = 0",
		"UPDATE owners SET closed_at = 'x'",
	} {
		s := open(t)
		push(t, s, alice, 1, 0, ev("1", "s"))
		check(t, s)
		outside(t, s.cfg.Path, q)
		wantErr(t, q, s.Check(), ErrInvariant)
	}
}

// Bad settings stop the start.
func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{},
		{Path: "x", OwnerBytes: -1},
		{Path: "x", TotalBytes: -2},
		{Path: "x", Synchronous: "MAYBE"},
		{Path: "x", Floor: Floor{FloorFixed, -1}},
		{Path: "x", Floor: Floor{FloorFixed, maxFloor + 1}},
		{Path: "/does/not/exist/sync.db"},
	} {
		if _, err := Open(c); err == nil {
			t.Errorf("%+v was opened", c)
		}
	}
}
