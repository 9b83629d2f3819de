package firehosestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/upstream/state"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// at is the clock's time; its milliseconds are what is stored.
var at = time.Date(2026, 7, 9, 10, 0, 0, 123e6, time.UTC)

// fresh makes a store without a database, in a directory that is not there.
func fresh(t testing.TB, change ...func(*Config)) *Store {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "data", "firehose.db"), change...)
}

func reopen(t testing.TB, path string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{Path: path, BusyTimeout: 20 * time.Millisecond, Now: func() time.Time { return at }}
	for _, f := range change {
		f(&cfg)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// other is a connection of another program.
func other(t testing.TB, path string) *sqldb.Conn {
	t.Helper()
	c, err := sqldb.Open(sqldb.Source(path, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// outside runs statements of another program.
func outside(t testing.TB, path string, queries ...string) {
	t.Helper()
	c := other(t, path)
	for _, q := range queries {
		wantErr(t, q, c.Exec(q), nil)
	}
	wantErr(t, "close", c.Close(), nil)
}

func host(name string) state.Host {
	return state.Host{Hostname: name, Status: state.Active, LastSeq: -1}
}

// saved makes a host and returns its id.
func saved(t testing.TB, s *Store, h state.Host) int64 {
	t.Helper()
	id, err := s.SaveHost(h)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Nothing is made by reading, nor by the clean stop of a firehose that was not
// used; each kind of write makes the directory and the file.
func TestLazy(t *testing.T) {
	for name, write := range map[string]func(*Store) error{
		"Reserve":  func(s *Store) error { return s.Reserve(1) },
		"SaveHost": func(s *Store) error { _, err := s.SaveHost(host("a.example")); return err },
		"Apply":    func(s *Store) error { return s.Apply(state.Batch{Repos: []state.Repo{{DID: "did:web:a"}}}) },
	} {
		opened := 0
		s := fresh(t, func(c *Config) { c.OnStore = func() { opened++ } })
		dir := filepath.Dir(s.cfg.Path)
		st, err := s.Load()
		hosts, hostsErr := s.Hosts()
		_, found, repoErr := s.Repo("did:web:a")
		wantErr(t, "reads", errors.Join(err, hostsErr, repoErr, s.Ping(), s.EraseClean(), s.StoreClean(7, 0, at), s.Apply(state.Batch{})), nil)
		if st.Clean || st.Reserved != 0 || len(hosts) != 0 || found || s.Stats() != (Stats{}) || opened != 0 {
			t.Errorf("%s: a fresh store has %+v %v %t %+v", name, st, hosts, found, s.Stats())
		}
		wantErr(t, "invalid", errors.Join(s.Reserve(0)), ErrInvalid)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: the directory was made: %v", name, err)
		}
		for range 2 {
			wantErr(t, name, write(s), nil)
		}
		if st := s.Stats(); opened != 1 || !st.Opened || st.FileBytes == 0 || st.WALBytes == 0 || st.Commits != 2 {
			t.Errorf("%s: opened %d times, %+v", name, opened, st)
		}
		wantErr(t, "ping", s.Ping(), nil)
	}
}

// A database that cannot be made is told with each write and by Ping, and tried
// again.
func TestLazyTriesAgain(t *testing.T) {
	s := fresh(t)
	dir := filepath.Dir(s.cfg.Path)
	wantErr(t, "obstacle", os.WriteFile(dir, nil, 0o600), nil)
	if err := s.Reserve(1); err == nil || s.Ping() == nil || s.Stats().Failed != 1 {
		t.Fatalf("%v, ping %v, %+v", err, s.Ping(), s.Stats())
	}
	wantErr(t, "remove", os.Remove(dir), nil)
	wantErr(t, "reserve", s.Reserve(1), nil)
	wantErr(t, "ping", s.Ping(), nil)
}

func TestOpensWhatIsThere(t *testing.T) {
	s := fresh(t)
	wantErr(t, "reserve", s.Reserve(5), nil)
	wantErr(t, "close", s.Close(), nil)
	opened := 0
	c := reopen(t, s.cfg.Path, func(c *Config) { c.OnStore = func() { opened++ } })
	if opened != 1 || !c.Stats().Opened {
		t.Error("a database that is there was not opened")
	}
	wantErr(t, "a write before Load", c.Reserve(6), nil)
}

// An empty file holds no state: a first write without room leaves one.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "firehose.db")
	wantErr(t, "write", os.WriteFile(path, nil, 0o600), nil)
	s := reopen(t, path)
	wantState(t, "empty", s, unclean(0))
	if sqldb.Size(path) != 0 || s.Stats().Opened {
		t.Error("reading made the database")
	}
	wantErr(t, "reserve", s.Reserve(3), nil)
	wantState(t, "after", s, unclean(3))
}

func TestAfterClose(t *testing.T) {
	for _, used := range []bool{false, true} {
		s := fresh(t)
		if used {
			wantErr(t, "reserve", s.Reserve(1), nil)
		}
		for range 2 {
			wantErr(t, "close", s.Close(), nil)
		}
		wantErr(t, "reserve", s.Reserve(2), ErrStopped)
		_, err := s.SaveHost(host("a.example"))
		wantErr(t, "host", err, ErrStopped)
		wantErr(t, "apply", s.Apply(state.Batch{Repos: []state.Repo{{DID: "did:web:a"}}}), ErrStopped)
		if _, _, err := s.Repo("did:web:a"); used != errors.Is(err, ErrStopped) {
			t.Errorf("used %t: read: %v", used, err)
		}
		if st := s.Stats(); st.Failed != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// F71: the tables and columns as the contract names them; WAL, and synced.
func TestTables(t *testing.T) {
	s := fresh(t)
	wantErr(t, "reserve", s.Reserve(5), nil)
	for table, want := range map[string][]string{
		"firehose_meta": {"key", "value"},
		"hosts": {
			"id", "hostname", "no_ssl", "status", "last_seq", "account_limit", "account_count",
			"created_at", "updated_at",
		},
		"repos": {"did", "host_id", "rev", "commit_cid", "data_cid", "status", "upstream_status"},
	} {
		var got string
		err := s.read(func(c *sqldb.Conn) error {
			return c.Row("SELECT group_concat(name) FROM pragma_table_info(?)", []any{table}, &got)
		})
		if err != nil || got != strings.Join(want, ",") {
			t.Errorf("%s has %s, %v", table, got, err)
		}
	}
	var key string
	err := s.read(func(c *sqldb.Conn) error {
		return c.Row("SELECT name FROM pragma_table_info('repos') WHERE pk = 1", nil, &key)
	})
	if err != nil || key != "did" {
		t.Errorf("key of repos: %q, %v", key, err)
	}
	for name, want := range map[string]string{"synchronous": "2", "foreign_keys": "1", "journal_mode": "wal", "busy_timeout": "20"} {
		var got string
		if err := s.opened.Load().writer.Row("PRAGMA "+name, nil, &got); err != nil || got != want {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
	if s.read(func(c *sqldb.Conn) error { return c.Exec("DELETE FROM firehose_meta") }) == nil {
		t.Error("the reading connection may write")
	}
}

// A file that is there and is not as we left it stops the start (K4), and is
// left as it is.
func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  error
	}{
		{"newer schema", func(t *testing.T, path string) {
			outside(t, path, "UPDATE firehose_meta SET value = 99 WHERE key = 'schema_version'")
		}, ErrNewerSchema},
		{"a row that cannot be", func(t *testing.T, path string) {
			schema := "UPDATE sqlite_schema SET sql = replace(sql, 'status TEXT%s,', 'status TEXT%s,') WHERE name = 'hosts'"
			outside(t, path, "PRAGMA writable_schema = ON", fmt.Sprintf(schema, " NOT NULL", ""))
			outside(t, path, "UPDATE hosts SET status = NULL")
			outside(t, path, "PRAGMA writable_schema = ON", fmt.Sprintf(schema, "", " NOT NULL"))
		}, ErrUnreadable},
		{"no database", func(t *testing.T, path string) {
			wantErr(t, "write", os.WriteFile(path, []byte(strings.Repeat("this is no database. ", 500)), 0o600), nil)
		}, ErrUnreadable},
		{"another's database", func(t *testing.T, path string) {
			wantErr(t, "remove", os.Remove(path), nil)
			outside(t, path, "CREATE TABLE notes (n)")
		}, ErrUnreadable},
		{"truncated", func(t *testing.T, path string) {
			wantErr(t, "truncate", os.Truncate(path, 3*4096), nil)
		}, ErrUnreadable},
		{"pages of zeros", func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			wantErr(t, "read", err, nil)
			clear(b[4096:])
			wantErr(t, "write", os.WriteFile(path, b, 0o600), nil)
		}, ErrUnreadable},
		{"no reserved number", func(t *testing.T, path string) {
			outside(t, path, "DELETE FROM firehose_meta WHERE key = 'reserved'")
		}, ErrUnreadable},
		{"reserved is text", func(t *testing.T, path string) {
			outside(t, path, "UPDATE firehose_meta SET value = 'many' WHERE key = 'reserved'")
		}, ErrUnreadable},
		{"reserved is null", func(t *testing.T, path string) {
			outside(t, path, "UPDATE firehose_meta SET value = NULL WHERE key = 'reserved'")
		}, ErrUnreadable},
		{"reserved is too high", func(t *testing.T, path string) {
			outside(t, path, "UPDATE firehose_meta SET value = 9007199254740992 WHERE key = 'reserved'")
		}, ErrUnreadable},
		{"reserved is negative", func(t *testing.T, path string) {
			outside(t, path, "UPDATE firehose_meta SET value = -1 WHERE key = 'reserved'")
		}, ErrUnreadable},
		{"half a clean stop", func(t *testing.T, path string) {
			outside(t, path, "DELETE FROM firehose_meta WHERE key = 'clean_at'")
		}, ErrUnreadable},
		{"log without database", func(t *testing.T, path string) {
			wantErr(t, "rename", os.Rename(path, path+"-wal"), nil)
		}, ErrUnreadable},
		{"log of an empty database", func(t *testing.T, path string) {
			wantErr(t, "rename", os.Rename(path, path+"-wal"), nil)
			wantErr(t, "write", os.WriteFile(path, nil, 0o600), nil)
		}, ErrUnreadable},
		{"directory", func(t *testing.T, path string) {
			wantErr(t, "remove", os.Remove(path), nil)
			wantErr(t, "mkdir", os.Mkdir(path, 0o700), nil)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fresh(t)
			path := s.cfg.Path
			wantErr(t, "reserve", s.Reserve(1000), nil)
			id := saved(t, s, host("a.example"))
			repos := make([]state.Repo, 500)
			for i := range repos {
				repos[i] = state.Repo{DID: fmt.Sprint("did:web:", i), HostID: id}
			}
			wantErr(t, "apply", s.Apply(state.Batch{Repos: repos}), nil)
			wantErr(t, "clean", s.StoreClean(900, 0, at), nil)
			wantErr(t, "close", s.Close(), nil)
			c.spoil(t, path)
			before, _ := os.ReadFile(path)
			got, err := Open(Config{Path: path})
			if err == nil {
				_ = got.Close()
				t.Fatal("it was opened")
			}
			if c.want != nil {
				wantErr(t, "open", err, c.want)
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("the error does not name the file: %v", err)
			}
			if after, _ := os.ReadFile(path); !slices.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("no path")
	}
}

// What was taken away under a running relay takes nothing more: it would be
// gone with the process (F25). Back at its place, all goes on.
func TestTakenAway(t *testing.T) {
	for _, file := range []string{"", "-wal"} {
		for _, replace := range []bool{false, true} {
			s := fresh(t)
			wantErr(t, "reserve", s.Reserve(1), nil)
			path := s.cfg.Path + file
			wantErr(t, "rename", os.Rename(path, path+".away"), nil)
			if replace {
				wantErr(t, "replace", os.WriteFile(path, nil, 0o600), nil)
			}
			wantErr(t, "reserve", s.Reserve(2), ErrTakenAway)
			wantErr(t, "erase", s.EraseClean(), ErrTakenAway)
			wantErr(t, "store", s.StoreClean(1, 0, at), ErrTakenAway)
			_, err := s.SaveHost(host("a.example"))
			wantErr(t, "host", err, ErrTakenAway)
			wantErr(t, "apply", s.Apply(state.Batch{Repos: []state.Repo{{DID: "did:web:a"}}}), ErrTakenAway)
			wantErr(t, "ping", s.Ping(), ErrTakenAway)
			if n := s.Stats().Failed; n != 5 {
				t.Errorf("%d failures counted", n)
			}
			wantErr(t, "rename", os.Rename(path+".away", path), nil)
			wantErr(t, "reserve", s.Reserve(2), nil)
			wantErr(t, "ping", s.Ping(), nil)
		}
	}
}
