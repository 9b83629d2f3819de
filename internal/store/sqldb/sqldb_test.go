package sqldb

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func open(t testing.TB, path string, pragmas ...string) *Conn {
	t.Helper()
	c, err := Open(Source(path, 20*time.Millisecond, pragmas...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func fresh(t testing.TB, pragmas ...string) (c *Conn, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "some.db")
	return open(t, path, pragmas...), path
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// A name that means something in a URI is a name.
func TestSourceOfAnyName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a b.db", "a?mode=ro.db", "a#b.db", "100%41.db", "a;b&c=d.db", "ä.db"} {
		c := open(t, filepath.Join(dir, name), "journal_mode(WAL)")
		wantErr(t, name, c.Script("CREATE TABLE t (n)"), nil)
		if Size(filepath.Join(dir, name)) == 0 {
			t.Errorf("%q: made another file", name)
		}
	}
}

func TestStatements(t *testing.T) {
	c, _ := fresh(t)
	wantErr(t, "script", c.Script("CREATE TABLE t (n); INSERT INTO t VALUES (1), (2), (3);"), nil)
	if n, err := c.Change("UPDATE t SET n = n + ? WHERE n > ?", 10, 1); n != 2 || err != nil {
		t.Errorf("Change: %d, %v", n, err)
	}
	if n, err := c.Int("SELECT sum(n) FROM t"); n != 26 || err != nil {
		t.Errorf("Int: %d, %v", n, err)
	}
	_, err := c.Int("SELECT n FROM t WHERE n = ?", 99)
	wantErr(t, "no row", err, sql.ErrNoRows)
	errScan, seen := errors.New("enough"), 0
	scan := func(*sql.Rows) error {
		if seen++; seen == 2 {
			return errScan
		}
		return nil
	}
	wantErr(t, "Rows", c.Rows("SELECT n FROM t WHERE n > ?", []any{0}, scan), errScan)
	if seen != 2 {
		t.Errorf("%d rows were scanned", seen)
	}
	if c.Exec("NONSENSE") == nil || c.Exec("INSERT INTO t VALUES (4)") != nil {
		t.Error("a bad statement is to fail alone")
	}
	for range 100 { // Q3
		_ = c.Exec("INSERT INTO t VALUES (?)", 5)
	}
	if len(c.stmts) != 6 {
		t.Errorf("%d statements are kept", len(c.stmts))
	}
}

// Q1.
func TestClassify(t *testing.T) {
	c, path := fresh(t, "journal_mode(WAL)")
	wantErr(t, "script", c.Script("CREATE TABLE t (n UNIQUE)"), nil)
	other := open(t, path)
	wantErr(t, "begin", other.Exec("BEGIN IMMEDIATE"), nil)
	wantErr(t, "locked", c.Exec("BEGIN IMMEDIATE"), ErrBusy)
	wantErr(t, "rollback", other.Exec("ROLLBACK"), nil)
	wantErr(t, "bound", c.Script("PRAGMA max_page_count = 4"), nil)
	err := c.Exec("INSERT INTO t VALUES (?)", make([]byte, 100_000))
	wantErr(t, "full", err, ErrDiskFull)
	if !FromSQLite(err) || Corrupt(err) || NotDatabase(err) || Unreachable(err) {
		t.Errorf("%v is taken for something else", err)
	}
	wantErr(t, "nil", Classify(nil), nil)
	own := errors.New("own")
	if got := Classify(own); got != own || FromSQLite(own) {
		t.Errorf("%v became %v", own, got)
	}
}

// A transaction that fails leaves nothing, a lock is told as one, and one that was
// left open is ended first.
func TestTransaction(t *testing.T) {
	c, path := fresh(t, "journal_mode(WAL)")
	wantErr(t, "script", c.Script("CREATE TABLE t (n)"), nil)
	insert := func(fail error) error {
		_, err := c.Transaction(func(c *Conn) error {
			return errors.Join(c.Exec("INSERT INTO t VALUES (1)"), fail)
		})
		return err
	}
	rows := func(want int64) {
		t.Helper()
		if n, err := c.Int("SELECT count(*) FROM t"); n != want || err != nil {
			t.Errorf("%d rows, %v, want %d", n, err, want)
		}
	}
	wantErr(t, "good", insert(nil), nil)
	rows(1)
	own := errors.New("own")
	wantErr(t, "failed", insert(own), own)
	rows(1)
	other := open(t, path)
	wantErr(t, "lock", other.Begin(), nil)
	wantErr(t, "locked", insert(nil), ErrBusy)
	other.Rollback()
	wantErr(t, "left open", c.Exec("BEGIN"), nil)
	wantErr(t, "after it", insert(nil), nil)
	rows(2)
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	wantErr(t, "write", os.WriteFile(text, []byte("this is no database, and long enough to be seen as none"), 0o600), nil)
	_, err := Open(Source(text, time.Second, "journal_mode(WAL)"))
	if !NotDatabase(err) {
		t.Errorf("text: %v", err)
	}
	_, err = Open(Source(filepath.Join(dir, "none", "x.db"), time.Second, "journal_mode(WAL)"))
	if !Unreachable(err) {
		t.Errorf("no directory: %v", err)
	}
}

// Q2.
func TestMigrate(t *testing.T) {
	c, _ := fresh(t)
	first := "CREATE TABLE some_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID; CREATE TABLE t (n);"
	var from []int
	f := func(want error, end error, scripts ...string) {
		t.Helper()
		err := Schema{Meta: "some_meta", Scripts: scripts}.Migrate(c, func(v int) error {
			from = append(from, v)
			return end
		})
		wantErr(t, fmt.Sprint(scripts), err, want)
	}
	version := func(want int) {
		t.Helper()
		if v, err := (Schema{Meta: "some_meta"}).Version(c); v != want || err != nil {
			t.Fatalf("version %d, %v, want %d", v, err, want)
		}
	}
	own := errors.New("own")
	version(0)
	f(own, own, first) // what finish refuses is not there
	version(0)
	f(nil, nil, first)
	version(1)
	err := Schema{Meta: "some_meta", Scripts: []string{first, "CREATE TABLE u (n); NONSENSE"}}.Migrate(c, func(int) error { return nil })
	if err == nil {
		t.Fatal("a broken script passed")
	}
	version(1)
	f(nil, nil, first, "CREATE TABLE u (n)")
	f(nil, nil, first, "CREATE TABLE u (n)")
	version(2)
	f(ErrNewerSchema, nil, first)
	version(2)
	if got := fmt.Sprint(from); got != "[0 0 1 2]" {
		t.Errorf("finish got %s", got)
	}
}

func TestNumbersOfMeta(t *testing.T) {
	c, _ := fresh(t)
	s := Schema{Meta: "some_meta", Scripts: []string{"CREATE TABLE some_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID"}}
	wantErr(t, "migrate", s.Migrate(c, func(int) error { return nil }), nil)
	wantErr(t, "set", s.SetNumber(c, "a", 1), nil)
	wantErr(t, "set again", s.SetNumber(c, "a", 1<<53-1), nil)
	wantErr(t, "text", c.Exec("INSERT INTO some_meta VALUES ('b', '12'), ('c', 'x')"), nil)
	for _, w := range []struct {
		key   string
		n     int64
		found bool
		ok    bool
	}{{"a", 1<<53 - 1, true, true}, {"b", 12, true, true}, {"none", 0, false, true}, {"c", 0, true, false}} {
		n, found, err := s.Number(c, w.key)
		if n != w.n || found != w.found || (err == nil) != w.ok {
			t.Errorf("%s: %d, %t, %v", w.key, n, found, err)
		}
	}
}

func TestWhereabouts(t *testing.T) {
	c, path := fresh(t, "journal_mode(WAL)")
	wantErr(t, "script", c.Script("CREATE TABLE t (n)"), nil)
	w, err := WhereaboutsOf(path)
	wantErr(t, "whereabouts", err, nil)
	for _, file := range []string{path, path + "-wal"} {
		for _, replace := range []bool{false, true} {
			wantErr(t, "before", w.Check(), nil)
			wantErr(t, "rename", os.Rename(file, file+".away"), nil)
			if replace {
				wantErr(t, "replace", os.WriteFile(file, nil, 0o600), nil)
			}
			wantErr(t, file, w.Check(), ErrTakenAway)
			wantErr(t, "rename", os.Rename(file+".away", file), nil)
		}
	}
	wantErr(t, "after", w.Check(), nil)
	if _, err := WhereaboutsOf(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestMakeDir(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		wantErr(t, "made", MakeDir(filepath.Join(dir, "a", "b", "c")), nil)
	}
	info, err := os.Stat(filepath.Join(dir, "a", "b"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	wantErr(t, "write", os.WriteFile(file, nil, 0o600), nil)
	for _, path := range []string{file, filepath.Join(file, "x")} {
		if err := MakeDir(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
}
