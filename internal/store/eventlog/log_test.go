package eventlog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// at is where the clock of most tests stands; milliseconds are what is stored.
var at = time.Date(2026, 7, 9, 10, 0, 0, 123e6, time.UTC)

// patience ends a wait that should have ended long ago.
const patience = time.Minute

// fresh makes a log without a database, in a directory that is not there.
func fresh(t testing.TB, change ...func(*Config)) *Log {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "data", "aepws.db"), change...)
}

func reopen(t testing.TB, path string, change ...func(*Config)) *Log {
	t.Helper()
	cfg := Config{Path: path, BusyTimeout: 20 * time.Millisecond, Now: func() time.Time { return at }}
	for _, f := range change {
		f(&cfg)
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
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

// ev is an event whose text tells which.
func ev(id string) Event { return sized(id, 0) }

// sized is ev with a text of n bytes, or what the name needs.
func sized(id string, n int) Event {
	text := []byte(`{"id":"` + id + `"`)
	for len(text) < n {
		text = append(text, ' ')
	}
	return Event{Source: "agent:a", ID: id, Type: "task.progress", Text: text, Digest: sha256.Sum256([]byte(id))}
}

// reply is what a done got.
type reply struct {
	Result
	err error
}

// begun appends and returns where the answer will come.
func begun(l *Log, e Event) chan reply {
	c := make(chan reply, 2) // a second answer is to be seen
	l.Append(e, func(r Result, err error) { c <- reply{r, err} })
	return c
}

// try appends and waits.
func try(l *Log, e Event) (Result, error) {
	r := <-begun(l, e)
	return r.Result, r.err
}

// add appends and returns the number.
func add(t testing.TB, l *Log, e Event) int64 {
	t.Helper()
	r, err := try(l, e)
	if err != nil || r.Duplicate {
		t.Fatalf("append %s: %+v, %v", e.ID, r, err)
	}
	return r.Seq
}

// addAll appends at once and waits for all.
func addAll(t testing.TB, l *Log, events ...Event) {
	t.Helper()
	var waiting []chan reply
	for _, e := range events {
		waiting = append(waiting, begun(l, e))
	}
	for i, c := range waiting {
		if r := <-c; r.err != nil || r.Duplicate {
			t.Fatalf("append %s: %+v", events[i].ID, r)
		}
	}
}

// many are events with ids from first on.
func many(first, n, size int) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = sized(fmt.Sprintf("evt_%06d", first+i), size)
	}
	return events
}

// seqs reads all numbers after the given one in pages of three.
func seqs(t testing.TB, l *Log, after int64) []int64 {
	t.Helper()
	var got []int64
	for {
		page, err := l.Page(after, 3, 1<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return got
		}
		for _, s := range page {
			got = append(got, s.Seq)
		}
		after = page[len(page)-1].Seq
	}
}

// wantSeqs wants exactly the numbers from first to last, none when last is less.
func wantSeqs(t testing.TB, what string, l *Log, first, last int64) {
	t.Helper()
	got := seqs(t, l, first-1)
	if int64(len(got)) != last-first+1 {
		t.Fatalf("%s: %d events, want %d to %d: %v", what, len(got), first, last, got)
	}
	for i, n := range got {
		if n != first+int64(i) {
			t.Fatalf("%s: %v, want %d to %d", what, got, first, last)
		}
	}
}

// scripted is a request that runs a test's code in the writer's transaction.
type scripted struct {
	do   func(w *writer) error
	done chan error
}

func (s *scripted) bytes() int64          { return 0 }
func (s *scripted) apply(w *writer) error { return s.do(w) }
func (s *scripted) answer(err error)      { s.done <- err }

// script queues do and returns where its answer will come.
func script(t testing.TB, l *Log, do func(w *writer) error) chan error {
	t.Helper()
	s := &scripted{do: do, done: make(chan error, 1)}
	wantErr(t, "script", l.queue.Put(s, s.bytes()), nil)
	return s.done
}

// hold stops the writer inside a transaction until release is called. What is
// queued meanwhile belongs to the same group.
func hold(t testing.TB, l *Log) (release func()) {
	t.Helper()
	held, free := make(chan struct{}), make(chan struct{})
	first := true
	done := script(t, l, func(w *writer) error {
		w.leastGroup = time.Hour // how slow the machine is must not count
		if first {
			first = false
			close(held)
			<-free
		}
		return nil
	})
	<-held
	return func() {
		close(free)
		<-done
	}
}

// Nothing is made by reading; an event or a dead letter makes directory and
// file, and a refused one does not.
func TestLazy(t *testing.T) {
	for name, write := range map[string]func(*Log) error{
		"Append":     func(l *Log) error { _, err := try(l, ev("evt_1")); return err },
		"DeadLetter": func(l *Log) error { return bury(l, dead("evt_1")) },
	} {
		var opened atomic.Int32
		l := fresh(t, func(c *Config) { c.OnStore = func() { opened.Add(1) } })
		page, err := l.Page(0, 10, 100, nil)
		_, found, atErr := l.At(1)
		letters, deadErr := l.DeadLetters(10)
		wantErr(t, "reads", errors.Join(err, atErr, deadErr, l.Ping()), nil)
		if len(page) != 0 || found || len(letters) != 0 || l.Stats() != (Stats{}) || l.State() != (State{}) || opened.Load() != 0 {
			t.Errorf("%s: a fresh log has %v %v %+v", name, page, letters, l.Stats())
		}
		_, err = try(l, Event{})
		wantErr(t, "invalid", err, ErrInvalid)
		if _, err := os.Stat(filepath.Dir(l.cfg.Path)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: the directory was made: %v", name, err)
		}
		for range 2 {
			wantErr(t, name, write(l), nil)
		}
		if st := l.Stats(); opened.Load() != 1 || !st.Opened || st.FileBytes == 0 || st.WALBytes == 0 || st.Groups != 2 || st.Requests != 2 {
			t.Errorf("%s: opened %d times, %+v", name, opened.Load(), st)
		}
		wantErr(t, "ping", l.Ping(), nil)
	}
}

// A database that cannot be made is told with each write and by Ping, and tried
// again.
func TestLazyTriesAgain(t *testing.T) {
	l := fresh(t)
	dir := filepath.Dir(l.cfg.Path)
	wantErr(t, "obstacle", os.WriteFile(dir, nil, 0o600), nil)
	if _, err := try(l, ev("evt_1")); err == nil || l.Ping() == nil || l.Stats().Failed != 1 {
		t.Fatalf("%v, ping %v, %+v", err, l.Ping(), l.Stats())
	}
	wantErr(t, "remove", os.Remove(dir), nil)
	if n := add(t, l, ev("evt_1")); n != 1 {
		t.Errorf("number %d", n)
	}
	wantErr(t, "ping", l.Ping(), nil)
}

// An empty file holds no state: a first write without room leaves one.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aepws.db")
	wantErr(t, "write", os.WriteFile(path, nil, 0o600), nil)
	l := reopen(t, path)
	if sqldb.Size(path) != 0 || l.Stats().Opened {
		t.Error("opening made the database")
	}
	add(t, l, ev("evt_1"))
	wantSeqs(t, "after", l, 1, 1)
}

func TestAfterClose(t *testing.T) {
	for _, used := range []bool{false, true} {
		l := fresh(t)
		if used {
			add(t, l, ev("evt_1"))
		}
		for range 2 {
			wantErr(t, "close", l.Close(), nil)
		}
		_, err := try(l, ev("evt_2"))
		wantErr(t, "append", err, ErrStopped)
		wantErr(t, "dead letter", bury(l, dead("evt_2")), ErrStopped)
		_, pageErr := l.Page(0, 1, 1, nil)
		_, _, atErr := l.At(1)
		_, deadErr := l.DeadLetters(1)
		for _, err := range []error{pageErr, atErr, deadErr} {
			if used != errors.Is(err, ErrStopped) {
				t.Errorf("used %t: read: %v", used, err)
			}
		}
		if st := l.Stats(); st.Failed != 0 || st.Busy != 0 {
			t.Errorf("%+v", st)
		}
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no path": {}, "events": {Path: "x", MaxEvents: -1}, "age": {Path: "x", MaxAge: -1}, "bytes": {Path: "x", MaxBytes: -1},
		"queue": {Path: "x", QueueCount: -1}, "queue bytes": {Path: "x", QueueBytes: -1},
		"group": {Path: "x", GroupCount: -1}, "busy": {Path: "x", BusyTimeout: -1},
	} {
		if _, err := Open(c); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	got, err := Config{Path: "x"}.withDefaults()
	if err != nil || got.MaxEvents != 1_000_000 || got.MaxAge != 86_400_000*time.Millisecond || got.MaxBytes != 1_073_741_824 {
		t.Errorf("section 1 has other defaults: %+v, %v", got, err)
	}
}

// The log is written ahead and synced before an answer (B55).
func TestPragmas(t *testing.T) {
	l := fresh(t)
	add(t, l, ev("evt_1"))
	err := <-script(t, l, func(w *writer) error {
		for name, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "busy_timeout": "20"} {
			var got string
			if err := w.db.writer.Row("PRAGMA "+name, nil, &got); err != nil || got != want {
				t.Errorf("%s is %s, %v", name, got, err)
			}
		}
		return nil
	})
	wantErr(t, "script", err, nil)
	if l.opened.Load().read(func(c *sqldb.Conn) error { return c.Exec("DELETE FROM events") }) == nil {
		t.Error("a reading connection may write")
	}
}

// A file that is there and is not as we left it stops the start (E7), and is left
// as it is.
func TestRefusedFiles(t *testing.T) {
	sums := func(change string) func(*testing.T, string) {
		return func(t *testing.T, path string) { outside(t, path, "UPDATE sums SET "+change) }
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  error
	}{
		{"newer schema", func(t *testing.T, path string) {
			outside(t, path, "UPDATE aepws_meta SET value = 99 WHERE key = 'schema_version'")
		}, ErrNewerSchema},
		{"a row that cannot be", func(t *testing.T, path string) {
			schema := "UPDATE sqlite_schema SET sql = replace(sql, 'last_dead INTEGER%s,', 'last_dead INTEGER%s,') WHERE name = 'sums'"
			outside(t, path, "PRAGMA writable_schema = ON", fmt.Sprintf(schema, " NOT NULL", ""))
			outside(t, path, "UPDATE sums SET last_dead = NULL")
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
		{"no sums", func(t *testing.T, path string) { outside(t, path, "DELETE FROM sums") }, ErrUnreadable},
		{"last number below an event's", sums("last_seq = 499"), ErrUnreadable},
		{"last number too high", sums("last_seq = 9007199254740992"), ErrUnreadable},
		{"last number is text", sums("last_seq = 'many'"), nil},
		{"evicted is an event kept", sums("evicted = 101"), ErrUnreadable},
		{"evicted above the last number", sums("evicted = 501"), ErrUnreadable},
		{"evicted is negative", sums("evicted = -1"), ErrUnreadable},
		{"events without events", sums("events = 0"), ErrUnreadable},
		{"events are negative", sums("events = -400"), ErrUnreadable},
		{"bytes are negative", sums("bytes = -1"), ErrUnreadable},
		{"dead letters are negative", sums("dead_letters = -1"), ErrUnreadable},
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
			l := fresh(t, func(c *Config) { c.MaxEvents = 400 })
			path := l.cfg.Path
			addAll(t, l, many(0, 500, 300)...)
			eventually(t, "retention", func() bool { return l.Evicted() == 100 })
			wantErr(t, "dead letter", bury(l, dead("evt_1")), nil)
			wantErr(t, "close", l.Close(), nil)
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
}
