package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// inspect opens the database to read it until the test ends.
func inspect(t testing.TB, path string) *Inspector {
	t.Helper()
	i, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return i
}

func summary(t testing.TB, i *Inspector) Summary {
	t.Helper()
	s, err := i.Summary(10, 10)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sound fails the test unless all invariants hold, those of the file too.
func sound(t testing.TB, i *Inspector) {
	t.Helper()
	broken, err := i.Check(t.Context(), true)
	if err != nil || len(broken) > 0 {
		t.Fatalf("%v, %v", broken, err)
	}
}

// listing tells names, sizes and times in a directory. Tests read no file of a
// store that is open: to close it would drop the process's locks (fcntl(2)).
func listing(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.Name(), "-shm") { // SQLite's readers mark their place there
			fmt.Fprintln(&b, e.Name())
			continue
		}
		fmt.Fprintln(&b, e.Name(), info.Size(), info.Mode(), info.ModTime())
	}
	return b.String()
}

// filled is a store with two owners, one of them closed, a chunk, and a stream
// with an event that a newer one replaces.
func filled(t testing.TB) *Store {
	t.Helper()
	s := open(t)
	push(t, s, alice, 3, 0, ev("1", "s"), ev("2", "s"), ev("3", ""))
	if _, err := s.PutBlob(alice, "h", make([]byte, 50)); err != nil {
		t.Fatal(err)
	}
	push(t, s, bob, 1, 0, ev("1", ""))
	if _, err := s.CloseOwner(bob); err != nil {
		t.Fatal(err)
	}
	for left := 1; left > 0; { // the deletion of bob's rows takes turns with these
		err := <-script(t, s, func(w *writer) error {
			left = len(w.background)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.Stats().Slices == 0 {
		t.Fatal("bob's rows are not deleted in slices")
	}
	return s
}

func wantFilled(t testing.TB, s Summary) {
	t.Helper()
	if s.Open != 1 || s.Closed != 1 || s.Events != 3 || s.Streams != 1 || s.Blobs != 1 || s.StoredBytes != 350 || s.TotalBytes != 350 {
		t.Fatalf("sums: %+v", s)
	}
	if s.LastSeq != 4 || s.EpochCount != 1 || len(s.Epochs) != 1 || s.Epochs[0].Start != 1 || s.Epochs[0].Last != 4 || s.Epochs[0].OpenedAt == "" {
		t.Fatalf("numbers: %+v", s)
	}
	if s.SchemaVersion != len(migrations) || s.KnownVersion != len(migrations) || s.StoreID == "" || s.CompactedAt == "" || s.FileBytes == 0 {
		t.Fatalf("store: %+v", s)
	}
	if len(s.Largest) != 2 || s.Largest[0].ID != "alice" || s.Largest[0].Bytes != 350 || s.Largest[0].ClosedAt != "" || s.Largest[1].ClosedAt == "" {
		t.Fatalf("owners: %+v", s.Largest)
	}
}

// S48, S49: beside a running relay, and after it, looking changes no file.
func TestInspectChangesNothing(t *testing.T) {
	s := filled(t)
	dir := filepath.Dir(s.cfg.Path)
	copies := t.TempDir()
	for _, when := range []string{"live", "stopped"} {
		before := listing(t, dir)
		i, err := OpenReadOnly(s.cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		wantFilled(t, summary(t, i))
		if got := summary(t, i); (got.WALBytes > 0) != (when == "live") {
			t.Fatalf("%s: log of %d bytes", when, got.WALBytes)
		}
		sound(t, i)
		copied, err := i.Backup(t.Context(), filepath.Join(copies, when))
		if err != nil || copied.LastSeq != 4 || copied.FileBytes == 0 || copied.StoreID != s.StoreID() {
			t.Fatalf("%s: %+v, %v", when, copied, err)
		}
		if err := i.db.Exec("DELETE FROM events"); err == nil {
			t.Fatal("an inspector may write")
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		if after := listing(t, dir); after != before {
			t.Fatalf("%s: before:\n%safter:\n%s", when, before, after)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, when := range []string{"live", "stopped"} {
		wantFilled(t, summary(t, inspect(t, filepath.Join(copies, when))))
	}
}

// Case 19: what a killed relay left is read with its log, which stays for the
// relay to take up.
func TestInspectKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.db")
	acked := killOnce(t, path, 100)
	before := listing(t, filepath.Dir(path))
	i := inspect(t, path)
	sound(t, i)
	got := summary(t, i)
	for owner, n := range acked {
		at := slices.IndexFunc(got.Largest, func(o OwnerSummary) bool { return o.ID == owner })
		if at < 0 || got.Largest[at].Events < int64(n)*10 {
			t.Fatalf("%s: %d pushes were answered: %+v", owner, n, got.Largest)
		}
	}
	if after := listing(t, filepath.Dir(path)); after != before {
		t.Fatalf("before:\n%safter:\n%s", before, after)
	}
	s := reopen(t, path)
	check(t, s)
	if n := s.Stats().LastSeq; n != got.LastSeq {
		t.Fatalf("last number %d, was %d", n, got.LastSeq)
	}
}

// S25: a copy made while pushes go on holds whole pushes, and all that were
// answered before.
func TestBackupWhilePushing(t *testing.T) {
	s := open(t)
	pushing, stop := make(chan int, 1), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if _, err := s.Push(pushOf(alice, ids(fmt.Sprint(n, "-"), 10, fmt.Sprint("s", n))...)); err != nil {
				ended <- err
				return
			}
			select {
			case pushing <- n + 1:
			default:
			}
		}
	}()
	i := inspect(t, s.cfg.Path)
	dir := t.TempDir()
	for round := range 5 {
		answered := <-pushing // of now, or of the last round
		copied, err := i.Backup(t.Context(), filepath.Join(dir, fmt.Sprint(round)))
		if err != nil {
			t.Fatal(err)
		}
		if copied.Events < int64(answered)*10 || copied.Events%10 != 0 || copied.LastSeq != copied.Epochs[0].Last {
			t.Fatalf("%d pushes were answered: %+v", answered, copied)
		}
		sound(t, inspect(t, copied.Path))
		if broken, err := i.Check(t.Context(), false); err != nil || len(broken) > 0 {
			t.Fatalf("live: %v, %v", broken, err)
		}
	}
	close(stop)
	wantErr(t, "pushing", <-ended, nil)
}

// A copy is never written over anything, is its user's alone, and leaves no part.
func TestBackupFile(t *testing.T) {
	s := filled(t)
	i := inspect(t, s.cfg.Path)
	dir := t.TempDir()
	t.Chdir(dir)
	path := "file:x?mode=memory" // a URI to SQLite
	if _, err := i.Backup(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, path))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	before := listing(t, dir)
	f := func(name, to string, ctx context.Context, want error) {
		t.Helper()
		_, err := i.Backup(ctx, to)
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if after := listing(t, dir); after != before {
			t.Errorf("%s: before:\n%safter:\n%s", name, before, after)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f("there", path, t.Context(), fs.ErrExist)
	f("a directory", dir, t.Context(), fs.ErrExist)
	f("the database itself", s.cfg.Path, t.Context(), fs.ErrExist)
	f("no directory", filepath.Join(dir, "none", "x"), t.Context(), fs.ErrNotExist)
	f("interrupted", "new", ended, nil)
	if err := place(path, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name taken meanwhile: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// S50: what is no database of this program is refused by name, and left alone;
// of an older one the summary tells, and it may be copied.
func TestInspectSchema(t *testing.T) {
	f := func(name string, want error, make func(path string)) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "sync.db")
		make(path)
		before := listing(t, filepath.Dir(path))
		i, err := OpenReadOnly(path)
		if err == nil {
			err = errors.Join(errors.New("it was opened"), i.Close())
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if _, err := CompactOffline(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("%s: compact: %v, want %v", name, err, want)
		}
		if after := listing(t, filepath.Dir(path)); after != before {
			t.Errorf("%s: before:\n%safter:\n%s", name, before, after)
		}
	}
	text := func(s string) func(string) {
		return func(path string) {
			if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	f("absent", fs.ErrNotExist, func(string) {})
	f("empty", ErrNoStore, text(""))
	f("text", ErrNoStore, text(strings.Repeat("no database\n", 1000)))
	f("another's", ErrNoStore, func(path string) { outside(t, path, "CREATE TABLE x (y)") })
	f("newer", ErrNewerSchema, func(path string) {
		if err := reopen(t, path).Close(); err != nil {
			t.Fatal(err)
		}
		outside(t, path, "UPDATE relay_meta SET value = 99 WHERE key = 'schema_version'")
	})
	if _, err := OpenReadOnly(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}

	s := filled(t)
	known := migrations
	migrations = append(slices.Clone(known), "SELECT 1")
	defer func() { migrations = known }()
	i := inspect(t, s.cfg.Path)
	if got := summary(t, i); got.SchemaVersion != 1 || got.KnownVersion != 2 || got.LastSeq != 4 || got.Open != 0 || got.Largest != nil {
		t.Errorf("older: %+v", got)
	}
	_, err := i.Check(t.Context(), false)
	wantErr(t, "older: check", err, ErrOlderSchema)
	if _, err := i.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")); err != nil {
		t.Errorf("older: backup: %v", err)
	}
	_, err = CompactOffline(t.Context(), s.cfg.Path)
	wantErr(t, "older: compact", err, ErrOlderSchema)
	if v := summary(t, i).SchemaVersion; v != 1 {
		t.Errorf("migrated to %d", v)
	}
}

// S49: what is broken is named, by rows that are not too many; so is a broken
// file.
func TestInspectCheckFinds(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		s := filled(t)
		push(t, s, alice, 10, 0, ids("n", 10, "")...)
		outside(t, s.cfg.Path, query)
		broken, err := inspect(t, s.cfg.Path).Check(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(broken, func(b Broken) bool { return b.Error() == "store: invariant broken: "+want }) {
			t.Errorf("%s: %q, want %q", query, broken, want)
		}
	}
	f("UPDATE owners SET stored_bytes = 7 WHERE owner_id = 'alice'", "stored_bytes: alice: 7")
	f("UPDATE owners SET stream_count = 2 WHERE owner_id = 'alice'", "stream_count: alice: 2")
	f("UPDATE events SET bytes = 1", "bytes of an event: 1, 2, 3, 5, 6, and more")
	f("UPDATE relay_meta SET value = 99 WHERE key = 'last_seq'", "last_seq: 99")
	f("DELETE FROM owners WHERE owner_id = 'alice'", "owner of an event: 1, 2, 3, 5, 6, and more")
	f("DELETE FROM owners WHERE owner_id = 'alice'", "owner of a blob: h")

	s := filled(t)
	push(t, s, alice, 1000, 0, ids("n", 1000, "")...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(s.cfg.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(make([]byte, 4096), 30*4096); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	broken, err := inspect(t, s.cfg.Path).Check(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bytes of an event", "the file"} {
		if !slices.ContainsFunc(broken, func(b Broken) bool { return b.Name == name && len(b.Rows) > 0 }) {
			t.Errorf("a page of zeros: %s is not in %q", name, broken)
		}
	}
}

// A relay that starts while its file is read as one that does not change is
// noticed, and the file read again; one that never rests is told of.
func TestInspectNoticesStart(t *testing.T) {
	s := filled(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	i := inspect(t, s.cfg.Path)
	wantFilled(t, summary(t, i))
	s = reopen(t, s.cfg.Path)
	push(t, s, alice, 500, 0, ids("n", 500, "")...)
	if err := s.Close(); err != nil { // moves the log into the file
		t.Fatal(err)
	}
	if got := summary(t, i); got.Events != 503 {
		t.Fatalf("%+v", got)
	}
	tries := 0
	at := time.Now().Add(-time.Hour)
	err := i.steady(func() error {
		tries++
		at = at.Add(time.Second)
		if err := os.Chtimes(s.cfg.Path, at, at); err != nil {
			t.Fatal(err)
		}
		return i.verify(errors.New("malformed"))
	})
	if !errors.Is(err, ErrChanged) || tries != 3 {
		t.Fatalf("%v after %d tries", err, tries)
	}
	if _, err := i.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")); err != nil {
		t.Fatal(err)
	}
}

// S37 without a relay: what is replaced goes, the counters hold; not beside one.
func TestCompactOffline(t *testing.T) {
	s := filled(t)
	_, err := CompactOffline(t.Context(), s.cfg.Path)
	wantErr(t, "beside a relay", err, ErrInUse)
	if st := status(t, s, alice); st.Events != 3 {
		t.Fatalf("%+v", st)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := summary(t, inspect(t, s.cfg.Path))
	r, err := CompactOffline(t.Context(), s.cfg.Path)
	if err != nil || r != (Reclaimed{1, 100}) {
		t.Fatalf("%+v, %v", r, err)
	}
	i := inspect(t, s.cfg.Path)
	sound(t, i)
	got := summary(t, i)
	if got.Events != 2 || got.TotalBytes != 250 || got.LastSeq != 4 || got.EpochCount != 1 || got.CompactedAt < before.CompactedAt {
		t.Fatalf("%+v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CompactOffline(ended, s.cfg.Path); err != nil {
		wantErr(t, "interrupted", err, context.Canceled)
	}
	sound(t, i)
}
