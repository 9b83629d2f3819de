package devicestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// noon is the wall clock of the tests.
var noon = time.Date(2026, 7, 9, 12, 0, 0, 0, time.UTC)

func testOptions() Options {
	return Options{Busy: 20 * time.Millisecond, Now: func() time.Time { return noon }}
}

// fresh makes a device in a directory that is not there.
func fresh(t testing.TB, change ...func(*Options)) *Store {
	t.Helper()
	o := testOptions()
	for _, f := range change {
		f(&o)
	}
	s, err := Create(filepath.Join(t.TempDir(), "device", "device.db"), "owner-1", "dev-a", o)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	return s
}

func closing(t testing.TB, s *Store) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	n, err := Open(s.path, s.opt)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, n)
	return n
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// put writes one row of table "t" and returns it.
func put(t testing.TB, s *Store, id, data string) Row {
	t.Helper()
	e := Edit{Key: Key{"t", id}}
	if data != "" {
		e.Data = []byte(data)
	}
	rows, err := s.Write(noon, e)
	if err != nil {
		t.Fatalf("write %s: %v", id, err)
	}
	return rows[0]
}

func addRelay(t testing.TB, s *Store, url string) int64 {
	t.Helper()
	return must(s.AddRelay(url))(t).ID
}

func relay(t testing.TB, s *Store, id int64) Relay {
	t.Helper()
	return must(s.Relay(id))(t)
}

// owedIDs are the ids that a relay has to get, of what they hold with "=".
func owedIDs(t testing.TB, s *Store, id int64) (list []string) {
	t.Helper()
	for _, p := range must(s.Owed(id, 0, 1<<40))(t) {
		list = append(list, p.ID)
	}
	return list
}

func ack(t testing.TB, s *Store, id int64, ids ...string) {
	t.Helper()
	wantErr(t, "acknowledge", s.Acknowledge(id, relay(t, s, id).Generation, ids), nil)
}

// hlcAt is an id of another device, so long after noon.
func hlcAt(after time.Duration, counter uint16, device string) string {
	return synccrypt.HLC{Millis: noon.Add(after).UnixMilli(), Counter: counter, Device: device}.String()
}

func upsert(hlc, id, data string) Event {
	return Event{ID: hlc, Key: Key{"t", id}, Data: []byte(data)}
}

func remove(hlc, id string) Event {
	return Event{ID: hlc, Key: Key{"t", id}, Deleted: true}
}

// pull applies a page after the relay's cursor and verifies the store.
func pull(t testing.TB, s *Store, id int64, events ...Event) Applied {
	t.Helper()
	r := relay(t, s, id)
	a, err := s.ApplyPage(id, Page{After: r.Cursor, Next: r.Cursor + "x", Generation: r.Generation, Events: events}, noon)
	if err != nil || a.Stale {
		t.Fatalf("pull: %+v, %v", a, err)
	}
	verify(t, s)
	return a
}

// back gives a relay's own events back to the device.
func back(t testing.TB, s *Store, id int64, ids ...string) {
	t.Helper()
	var list []Event
	for _, hlc := range ids {
		list = append(list, upsert(hlc, "row of another table", "{}"))
		list[len(list)-1].Table = "given.back"
	}
	for i := range list { // unknown ones change no row
		list[i].Defer, list[i].Schema, list[i].Plain = Unknown, 9, []byte("{}")
	}
	pull(t, s, id, list...)
}

func wantRow(t testing.TB, s *Store, id, data string) Row {
	t.Helper()
	r, err := s.Get(Key{"t", id})
	switch {
	case data == "none":
		wantErr(t, id, err, ErrNoRow)
	case err != nil || string(r.Data) != data || r.Deleted != (data == ""):
		t.Fatalf("row %s: %+v (%s), %v, want %q", id, r, r.Data, err, data)
	}
	return r
}

// verify holds the tables to V3, V4, V8 and the bounds of V7.
func verify(t testing.TB, s *Store) {
	t.Helper()
	st := must(s.state())(t)
	err := s.db.read(func(c *sqldb.Conn) error {
		for query, want := range map[string]int64{
			"SELECT count(*) FROM rows WHERE deleted = 0":               st.live,
			"SELECT count(*) FROM rows WHERE deleted = 1":               st.tombstones,
			"SELECT count(*) FROM deferred":                             st.deferred,
			"SELECT coalesce(sum(length(plain)), 0) FROM deferred":      st.deferredBytes,
			"SELECT count(*) FROM seen":                                 st.seen,
			"SELECT count(*) FROM outbox":                               st.outbox,
			"SELECT count(*) FROM outbox WHERE envelope IS NULL":        st.unsealed,
			"SELECT count(*) FROM purges":                               st.due,
			"SELECT coalesce(max(change), 0) > ? FROM rows":             0,
			"SELECT count(*) FROM rows WHERE hlc > ?":                   0,
			"SELECT count(*) FROM outbox WHERE hlc > ?":                 0,
			"SELECT count(*) FROM rows WHERE deleted <> (data IS NULL)": 0,
			"SELECT count(*) FROM relays r WHERE owed <> (SELECT count(*) FROM owed o WHERE o.relay = r.id AND ack = 0)":               0,
			"SELECT count(*) FROM relays r WHERE unseen <> (SELECT count(*) FROM owed o WHERE o.relay = r.id AND ack > 0)":             0,
			"SELECT count(*) FROM relays r WHERE blobs <> (SELECT count(*) FROM blobs b WHERE b.relay = r.id)":                         0,
			"SELECT count(*) FROM relays WHERE reseeding AND owed = 0":                                                                 0,
			"SELECT count(*) FROM owed WHERE relay NOT IN (SELECT id FROM relays)":                                                     0,
			"SELECT count(*) FROM owed o WHERE seed = 0 AND NOT EXISTS (SELECT 1 FROM outbox b WHERE b.hlc = o.hlc)":                   0,
			"SELECT count(*) FROM owed o WHERE seed = 1 AND EXISTS (SELECT 1 FROM outbox b WHERE b.hlc = o.hlc)":                       0,
			"SELECT count(*) FROM owed o JOIN relays r ON r.id = o.relay WHERE o.ack > r.acks OR o.ack < 0":                            0,
			"SELECT count(*) FROM outbox WHERE hlc NOT IN (SELECT hlc FROM owed)":                                                      0,
			"SELECT count(*) FROM outbox b WHERE (envelope IS NOT NULL OR deleted) <> (data IS NULL)":                                  0,
			"SELECT count(*) FROM owed o WHERE seed = 1 AND o.hlc <> coalesce((SELECT hlc FROM rows r WHERE r.change = o.change), '')": 0,
		} {
			var args []any
			if strings.Contains(query, "?") {
				if args = []any{st.lastHLC}; strings.Contains(query, "max(change)") {
					args = []any{st.lastChange}
				}
			}
			n, err := c.Int(query, args...)
			if err != nil {
				return fmt.Errorf("%s: %w", query, err)
			}
			if n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if st.seen > int64(s.opt.SeenMax) || st.deferred > int64(s.opt.DeferredMax) || st.deferredBytes > s.opt.DeferredMaxBytes {
		t.Errorf("beyond the bounds: %+v", st)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// Create makes what Open finds, and nothing over anything.
func TestCreateAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "device")
	path := filepath.Join(dir, "device.db")
	o := testOptions()
	_, err := Open(path, o)
	wantErr(t, "open nothing", err, fs.ErrNotExist)
	for _, w := range [][2]string{{"", "dev"}, {"own er", "dev"}, {"owner", ""}, {"owner", "Dev"}, {strings.Repeat("o", 65), "dev"}} {
		_, err := Create(path, w[0], w[1], o)
		wantErr(t, fmt.Sprint(w), err, ErrInvalid)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("something was made: %v", err)
	}
	s := must(Create(path, "owner", "dev", o))(t)
	for name, want := range map[string]fs.FileMode{"": 0o700, "device.db": 0o600, "device.db-wal": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	_, err = Create(path, "owner", "dev", o)
	wantErr(t, "twice", err, fs.ErrExist)
	wantErr(t, "close", s.Close(), nil)
	wantErr(t, "close again", s.Close(), nil)
	_, err = s.Write(noon)
	wantErr(t, "write after", err, ErrClosed)
	_, err = s.Relays()
	wantErr(t, "read after", err, ErrClosed)
	s = must(Open(path, o))(t)
	closing(t, s)
	if owner := must(s.Owner())(t); owner != "owner" || s.Device() != "dev" {
		t.Errorf("%s, %s", owner, s.Device())
	}
}

// What is no device's database is left as it is, with a clear error; what an
// interrupted Create left is none, and is taken by the next.
func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	sql := func(path string, scripts ...string) {
		t.Helper()
		c := must(sqldb.Open(sqldb.Source(path, time.Second)))(t)
		for _, q := range scripts {
			wantErr(t, q, c.Script(q), nil)
		}
		wantErr(t, "close", c.Close(), nil)
	}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		wantErr(t, name, os.WriteFile(path, []byte(text), 0o600), nil)
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	sql(foreign, "CREATE TABLE t (n)")
	s := fresh(t)
	newer := s.path
	wantErr(t, "close", s.Close(), nil)
	sql(newer, "UPDATE device_meta SET value = 2 WHERE key = 'schema_version'")
	empty := file("empty.db", "")
	begun := filepath.Join(dir, "begun.db")
	sql(begun, "PRAGMA journal_mode = WAL")
	for _, w := range []struct {
		path         string
		open, create error
	}{
		{file("text.db", strings.Repeat("this is no database, and long enough. ", 100)), ErrUnreadable, fs.ErrExist},
		{foreign, ErrUnreadable, fs.ErrExist},
		{newer, ErrNewerSchema, fs.ErrExist},
		{empty, fs.ErrNotExist, nil},
		{begun, fs.ErrNotExist, nil},
	} {
		before := must(os.ReadFile(w.path))(t)
		_, err := Open(w.path, o)
		wantErr(t, "open "+w.path, err, w.open)
		s, err := Create(w.path, "owner", "dev", o)
		wantErr(t, "create "+w.path, err, w.create)
		if err == nil {
			wantErr(t, "close", s.Close(), nil)
			continue
		}
		if after := must(os.ReadFile(w.path))(t); string(after) != string(before) {
			t.Errorf("%s was changed", w.path)
		}
	}
	_, err := Open(dir, o)
	wantErr(t, "directory", err, ErrUnreadable)
	file("lone.db", "")
	file("lone.db-wal", "log")
	_, err = Open(filepath.Join(dir, "lone.db"), o)
	wantErr(t, "log alone", err, ErrUnreadable)
}

// The database taken away under an open store, or locked, fails writes and
// changes nothing; reads go on.
func TestTakenAwayAndBusy(t *testing.T) {
	s := fresh(t)
	put(t, s, "a", "{}")
	lock := must(sqldb.Open(sqldb.Source(s.path, time.Second)))(t)
	wantErr(t, "lock", lock.Exec("BEGIN IMMEDIATE"), nil)
	_, err := s.Write(noon, Edit{Key: Key{"t", "b"}, Data: []byte("{}")})
	wantErr(t, "locked", err, ErrBusy)
	wantRow(t, s, "a", "{}")
	wantRow(t, s, "b", "none")
	wantErr(t, "unlock", lock.Exec("ROLLBACK"), nil)
	wantErr(t, "close", lock.Close(), nil)
	put(t, s, "b", "{}")
	wantErr(t, "move", os.Rename(s.path, s.path+".away"), nil)
	_, err = s.Write(noon, Edit{Key: Key{"t", "c"}, Data: []byte("{}")})
	wantErr(t, "away", err, ErrTakenAway)
	wantErr(t, "back", os.Rename(s.path+".away", s.path), nil)
	put(t, s, "c", "{}")
	verify(t, s)
}

// Another process' commit is seen, and so is one's own.
func TestDataVersion(t *testing.T) {
	a := fresh(t)
	b := reopen(t, a)
	before := must(a.DataVersion())(t)
	if again := must(a.DataVersion())(t); again != before {
		t.Errorf("%d became %d by itself", before, again)
	}
	put(t, b, "x", "{}")
	after := must(a.DataVersion())(t)
	if after == before {
		t.Error("the other's commit is not seen")
	}
	put(t, a, "y", "{}")
	if must(a.DataVersion())(t) == after {
		t.Error("the own commit is not seen")
	}
}

// Without room nothing is half stored, and with room it goes on.
func TestDiskFull(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	put(t, s, "a", "{}")
	limit := func(room int64) {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		pages := must(s.db.writer.Int("PRAGMA page_count"))(t)
		wantErr(t, "limit", s.db.writer.Script(fmt.Sprintf("PRAGMA max_page_count = %d", pages+room)), nil)
	}
	limit(2)
	big := strings.Repeat("x", 100_000)
	_, err := s.Write(noon, Edit{Key: Key{"t", "b"}, Data: []byte("{}")}, Edit{Key: Key{"t", "c"}, Data: []byte(big)})
	wantErr(t, "write", err, ErrDiskFull)
	_, err = s.ApplyPage(id, Page{Next: "n", Generation: 1, Events: []Event{upsert(hlcAt(0, 0, "dev-b"), "d", big)}}, noon)
	wantErr(t, "page", err, ErrDiskFull)
	wantRow(t, s, "b", "none")
	wantRow(t, s, "d", "none")
	if r := relay(t, s, id); r.Cursor != "" || r.Owed != 1 {
		t.Errorf("%+v", r)
	}
	verify(t, s)
	limit(1 << 20)
	put(t, s, "c", big)
	verify(t, s)
}

// V1: a commit is on the medium when it is told: SQLite syncs its log with each.
func TestCommitsAreSynced(t *testing.T) {
	s := fresh(t)
	const full = 2
	if level := must(s.db.writer.Int("PRAGMA synchronous"))(t); level != full {
		t.Errorf("synchronous is %d, want %d", level, full)
	}
}

// V2: who decides has the lock already: nobody else writes between its first read
// and its commit, and it waits for its turn instead of failing at its end.
func TestLockComesBeforeReading(t *testing.T) {
	s := fresh(t)
	other := reopen(t, s)
	wantErr(t, "outer", s.write(func(*tx) error {
		_, err := other.Write(noon, Edit{Key: Key{"t", "x"}, Data: []byte("{}")})
		wantErr(t, "between", err, ErrBusy)
		return nil
	}), nil)
	put(t, other, "x", "{}")
	verify(t, s)
}
