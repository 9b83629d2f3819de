package eventlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// copyDatabase copies a database with the first bytes of its log, all if cut is
// negative.
func copyDatabase(t testing.TB, from, to string, cut int) {
	t.Helper()
	db, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(from + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if cut >= 0 {
		wal = wal[:cut]
	}
	if err := errors.Join(os.WriteFile(to, db, 0o600), os.WriteFile(to+"-wal", wal, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// B51, B55, hard case 36: a power cut at each step of a group (a copy of what is
// on the medium) finds what was committed before it, and goes on with a number
// that nobody has seen: before the commit, in the batch callback, and after the
// answer.
func TestKillPoints(t *testing.T) {
	dir := t.TempDir()
	copies := 0
	var l *Log
	// A copy is cut off here: its newest number has to be the last committed.
	cut := func(what string, committed int64) {
		t.Helper()
		copies++
		path := filepath.Join(dir, fmt.Sprint(copies, ".db"))
		copyDatabase(t, l.cfg.Path, path, -1)
		c := reopen(t, path, func(c *Config) { c.MaxEvents = 4 })
		defer c.Close()
		if st := c.State(); st.Newest != committed || st.Events != min(4, committed) || st.Evicted != max(0, committed-4) {
			t.Fatalf("%s: %+v, want newest %d", what, st, committed)
		}
		wantSeqs(t, what, c, max(1, committed-3), committed)
		if n := add(t, c, ev("after")); n != committed+1 {
			t.Fatalf("%s: number %d after %d", what, n, committed)
		}
	}
	told := int64(0) // of the writer's goroutine
	l = fresh(t, func(c *Config) {
		c.MaxEvents = 4
		c.Committed = func(batch []Stored) {
			told = batch[len(batch)-1].Seq
			cut("in the callback", told)
		}
	})
	add(t, l, ev("first"))
	for round := range 5 {
		release := hold(t, l)
		a, b := begun(l, ev(fmt.Sprint("a", round))), begun(l, ev(fmt.Sprint("b", round)))
		before := script(t, l, func(w *writer) error {
			if w.cur.last != told+2 {
				t.Errorf("the open transaction is at %d, committed is %d", w.cur.last, told)
			}
			cut("before the commit", told)
			return nil
		})
		release()
		wantErr(t, "before", <-before, nil)
		for _, c := range []chan reply{a, b} {
			wantErr(t, "append", (<-c).err, nil)
		}
		cut("after the answers", int64(3+2*round))
	}
	if copies != 16 {
		t.Errorf("%d copies", copies)
	}
}

// B51: cut at any byte of the write-ahead log, the state is that of one commit,
// with all numbers up to its newest.
func TestCutLog(t *testing.T) {
	l := fresh(t, func(c *Config) { c.GroupCount = 1; c.MaxEvents = 8 })
	const n = 20
	for _, e := range many(1, n, 300) {
		add(t, l, e)
	}
	wantErr(t, "dead letter", bury(l, dead("evt_1")), nil)
	size := int(l.Stats().WALBytes)
	dir := t.TempDir()
	const stride = 2311 // no multiple of it is a frame's end, some are near
	newest, copies := int64(0), 0
	for cut := 0; cut < size; cut += stride {
		path := filepath.Join(dir, fmt.Sprint(cut, ".db"))
		copyDatabase(t, l.cfg.Path, path, cut)
		c, err := Open(Config{Path: path, MaxEvents: 8, Now: l.cfg.Now})
		if err != nil {
			// The file itself is empty until the first checkpoint: a log that is cut
			// in its very first transaction has no database to it.
			if !errors.Is(err, ErrUnreadable) || newest > 0 {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue
		}
		st := c.State()
		if st.Newest < newest || st.Events != min(st.Newest, 8) || st.Evicted != max(0, st.Newest-8) {
			t.Fatalf("cut at %d: %+v after %d", cut, st, newest)
		}
		newest = st.Newest
		wantSeqs(t, fmt.Sprint("cut at ", cut), c, st.Evicted+1, st.Newest)
		copies++
		wantErr(t, "close", c.Close(), nil)
	}
	if newest < n-1 || copies < 20 {
		t.Errorf("%d copies, the last with %d events", copies, newest)
	}
}

// killPath names the database of the child process of TestKill.
const killPath = "EVENTLOG_TEST_KILL_PATH"

// killEvents is the bound of the log of TestKill.
const killEvents = 200

// B51, B55, hard case 36: kill -9 under load: what was acknowledged or handed on
// keeps its number, and new numbers are above it.
func TestKill(t *testing.T) {
	if path := os.Getenv(killPath); path != "" {
		killChild(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "data", "aepws.db")
	highest := int64(0)
	for round := range 4 {
		seen := killOnce(t, path, 150+130*round, fmt.Sprint("round", round))
		l := reopen(t, path, func(c *Config) { c.MaxEvents = killEvents })
		st := settled(t, l) // a group may have evicted less than it had to
		for n, id := range seen {
			if n <= highest {
				t.Fatalf("%d was given again, to %s", n, id)
			}
			s, found, err := l.At(n)
			switch {
			case n <= st.Evicted && errors.Is(err, ErrEvicted):
			case err != nil || !found || s.ID != id:
				t.Fatalf("%d was %s, is %+v, %t, %v; %+v", n, id, s, found, err, st)
			}
		}
		for n := range seen {
			highest = max(highest, n)
		}
		if st.Newest < highest {
			t.Fatalf("%+v, %d was told", st, highest)
		}
		wantSeqs(t, "after the kill", l, st.Evicted+1, st.Newest)
		highest = st.Newest + 1
		if n := add(t, l, ev(fmt.Sprint("after", round))); n != highest {
			t.Fatalf("number %d, want %d", n, highest)
		}
		wantErr(t, "close", l.Close(), nil)
	}
}

// killOnce runs the child, kills it after so many lines and returns what it told
// by number.
func killOnce(t *testing.T, path string, after int, name string) map[int64]string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$", "-test.v")
	cmd.Env = append(os.Environ(), killPath+"="+path, killPath+"_NAME="+name)
	out, err := cmd.StdoutPipe()
	wantErr(t, "pipe", err, nil)
	wantErr(t, "start", cmd.Start(), nil)
	seen := make(map[int64]string)
	lines, count := bufio.NewScanner(out), 0
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 3 || f[0] != "told" && f[0] != "answered" {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		if id, ok := seen[n]; ok && id != f[2] {
			t.Errorf("%d is %s and %s", n, id, f[2])
		}
		seen[n] = f[2]
		if count++; count == after {
			wantErr(t, "kill", cmd.Process.Kill(), nil)
		}
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed
	if count < after {
		t.Fatalf("the child ended after %d lines", count)
	}
	return seen
}

func killChild(t *testing.T, path string) {
	name := os.Getenv(killPath + "_NAME")
	l := reopen(t, path, func(c *Config) {
		c.MaxEvents = killEvents
		c.Committed = func(batch []Stored) {
			for _, s := range batch {
				fmt.Println("told", s.Seq, s.ID)
			}
		}
	})
	var work sync.WaitGroup
	for g := range 8 {
		work.Go(func() {
			for i := range 1 << 20 {
				id := fmt.Sprint(name, "-", g, "-", i)
				r, err := try(l, sized(id, 500))
				if err != nil {
					fmt.Println("failed", err)
					os.Exit(1)
				}
				fmt.Println("answered", r.Seq, id)
			}
		})
	}
	work.Wait()
}

// No room in the database: nothing is stored, reads go on, and no number is lost.
func TestDiskFull(t *testing.T) {
	l := fresh(t)
	add(t, l, ev("first"))
	pages := func(n string) {
		t.Helper()
		wantErr(t, "bound", <-script(t, l, func(w *writer) error {
			return w.db.writer.Script("PRAGMA max_page_count = " + n)
		}), nil)
	}
	pages("12")
	kept := int64(1)
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		if _, err = try(l, sized(fmt.Sprint("e", i), 5000)); err == nil {
			kept++
		}
	}
	wantErr(t, "append", err, ErrDiskFull)
	d := dead("evt_1")
	d.Text = make([]byte, 1<<20)
	wantErr(t, "dead letter", bury(l, d), ErrDiskFull)
	wantSeqs(t, "full", l, 1, kept)
	// In one group those that fit are stored, each alone.
	release := hold(t, l)
	large, again := begun(l, sized("large", 1<<20)), begun(l, ev("first"))
	release()
	wantErr(t, "large", (<-large).err, ErrDiskFull)
	if r := <-again; r.err != nil || !r.Duplicate {
		t.Errorf("beside it: %+v", r)
	}
	if st := l.Stats(); st.Failed != 3 || st.Dead != 0 {
		t.Errorf("%+v", st)
	}
	pages("100000")
	if n := add(t, l, sized("large", 1<<20)); n != kept+1 {
		t.Errorf("number %d after %d", n, kept)
	}
	wantErr(t, "dead letter", bury(l, d), nil)
	wantSeqs(t, "room", l, 1, kept+1)
}

// A file system that is really full: the database cannot be made, or not grow;
// what was stored stays, and with room all goes on.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(1<<20)); err != nil {
		t.Skipf("a file system cannot be mounted here (%v); TestDiskFull is near it", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill := func() {
		t.Helper()
		f, err := os.Create(ballast)
		wantErr(t, "ballast", err, nil)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		wantErr(t, "ballast", err, syscall.ENOSPC)
		wantErr(t, "ballast", f.Close(), nil)
	}
	fill()
	l := reopen(t, filepath.Join(dir, "data", "aepws.db"))
	if _, err := try(l, ev("first")); err == nil || l.Ping() == nil {
		t.Fatal("stored without room")
	}
	wantErr(t, "room", os.Remove(ballast), nil)
	add(t, l, ev("first"))
	fill()
	var err error
	kept := int64(1)
	for i := 0; err == nil && i < 1000; i++ {
		if _, err = try(l, sized(fmt.Sprint("e", i), 3000)); err == nil {
			kept++
		}
	}
	wantErr(t, "append", err, ErrDiskFull)
	wantSeqs(t, "full", l, 1, kept)
	wantErr(t, "room", os.Remove(ballast), nil)
	wantSeqs(t, "room", l, 1, kept)
	if n := add(t, l, ev("next")); n != kept+1 {
		t.Errorf("number %d after %d", n, kept)
	}
}

// Another process holds the write lock: writes are refused after the timeout,
// reads go on, and all is well after.
func TestLockedFromOutside(t *testing.T) {
	l := fresh(t)
	add(t, l, ev("1"))
	c := other(t, l.cfg.Path)
	defer c.Close()
	wantErr(t, "lock", c.Exec("BEGIN IMMEDIATE"), nil)
	_, err := try(l, ev("2"))
	wantErr(t, "append", err, ErrBusy)
	wantErr(t, "dead letter", bury(l, dead("2")), ErrBusy)
	wantSeqs(t, "locked", l, 1, 1)
	wantErr(t, "ping", l.Ping(), nil)
	if n := l.Stats().Busy; n != 2 {
		t.Errorf("%d busy", n)
	}
	wantErr(t, "unlock", c.Exec("ROLLBACK"), nil)
	eventually(t, "append once the lock is gone", func() bool {
		_, err = try(l, ev("2"))
		return !errors.Is(err, ErrBusy)
	})
	wantErr(t, "append", err, nil)
	wantSeqs(t, "after", l, 1, 2)
}

// Two relays on one database: the second to give a number stores nothing more,
// since its consumers know nothing of the first one's events.
func TestTwoRelays(t *testing.T) {
	a := fresh(t)
	late := reopen(t, a.cfg.Path) // before the file is made
	add(t, a, ev("1"))
	early := reopen(t, a.cfg.Path)
	if early.Newest() != 1 {
		t.Errorf("newest is %d", early.Newest())
	}
	add(t, a, ev("2"))
	for name, l := range map[string]*Log{"late": late, "early": early} {
		for range 2 {
			_, err := try(l, ev("of "+name))
			wantErr(t, name, err, ErrTwoRelays)
			wantErr(t, name, bury(l, dead(name)), ErrTwoRelays)
		}
		if n := l.Stats().Failed; n != 4 {
			t.Errorf("%s: %d failures", name, n)
		}
	}
	if n := add(t, a, ev("3")); n != 3 {
		t.Errorf("number %d", n)
	}
	// A restart takes over.
	wantErr(t, "close", a.Close(), nil)
	wantErr(t, "close", early.Close(), nil)
	early = reopen(t, a.cfg.Path)
	if n := add(t, early, ev("4")); n != 4 {
		t.Errorf("number %d", n)
	}
	wantSeqs(t, "after", early, 1, 4)
}

// A page that is broken on the medium is an error, and no hole.
func TestBrokenPage(t *testing.T) {
	l := fresh(t)
	addAll(t, l, many(1, 200, 3000)...)
	wantErr(t, "close", l.Close(), nil)
	c := other(t, l.cfg.Path)
	leaf, err := c.Int("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'")
	if err != nil || leaf != 0 {
		t.Fatalf("before: %d, %v", leaf, err)
	}
	wantErr(t, "close", c.Close(), nil)
	db, err := os.ReadFile(l.cfg.Path)
	wantErr(t, "read", err, nil)
	at := strings.Index(string(db), `{"id":"evt_000100"`)
	if at < 0 {
		t.Fatal("the event is not in the file")
	}
	page := db[at/4096*4096:][:4096]
	for i := range page {
		page[i] = 0xff
	}
	wantErr(t, "write", os.WriteFile(l.cfg.Path, db, 0o600), nil)
	l = reopen(t, l.cfg.Path)
	if got, err := l.Page(0, 1000, 1<<30, nil); !sqldb.Corrupt(err) || len(got) != 0 {
		t.Errorf("%d events, %v", len(got), err)
	}
	if n := add(t, l, ev("next")); n != 201 {
		t.Errorf("number %d", n)
	}
	if got, err := l.Page(190, 1000, 1<<30, nil); err != nil || len(got) != 11 {
		t.Errorf("behind it: %d events, %v", len(got), err)
	}
}

// A row that this package has not written is an error, and no event.
func TestBrokenRow(t *testing.T) {
	for _, change := range []string{"digest = x'00'", "mode = 256", "mode = -1"} {
		l := fresh(t)
		addAll(t, l, many(1, 3, 0)...)
		outside(t, l.cfg.Path, "UPDATE events SET "+change+" WHERE seq = 2")
		if got, err := l.Page(0, 10, 1<<20, nil); !errors.Is(err, ErrUnreadable) || len(got) != 0 {
			t.Errorf("%s: %d events, %v", change, len(got), err)
		}
		if _, found, err := l.At(2); found || !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %t, %v", change, found, err)
		}
		if _, found, err := l.At(3); !found || err != nil {
			t.Errorf("%s: %t, %v", change, found, err)
		}
	}
}
