package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// scripted is a request that runs a test's code on the writer.
type scripted struct {
	do    func(w *writer) error
	after func(w *writer)
	done  chan error
}

func (s *scripted) bytes() int64                  { return 0 }
func (s *scripted) apply(w *writer) (bool, error) { return false, s.do(w) }

func (s *scripted) committed(w *writer) {
	if s.after != nil {
		s.after(w)
	}
}

func (s *scripted) answer(_ *writer, err error) { s.done <- err }

// script queues do and returns where its answer will come.
func script(t testing.TB, s *Store, do func(w *writer) error) chan error {
	t.Helper()
	return enqueue(t, s, &scripted{do: do, done: make(chan error, 1)})
}

func enqueue(t testing.TB, s *Store, r *scripted) chan error {
	t.Helper()
	if err := s.queue.Put(r, r.bytes()); err != nil {
		t.Fatal(err)
	}
	return r.done
}

// hold stops the writer until release is called. What is queued meanwhile is
// the next group.
func hold(t testing.TB, s *Store) (release func()) {
	t.Helper()
	held, free := make(chan struct{}), make(chan struct{})
	done := enqueue(t, s, &scripted{
		do: func(w *writer) error {
			w.maxGroup, w.leastGroup = 1, time.Hour // how slow the machine is must not count
			close(held)
			<-free
			return nil
		},
		after: func(w *writer) { w.maxGroup = groupCount },
		done:  make(chan error, 1),
	})
	<-held
	return func() {
		close(free)
		<-done
	}
}

// answers collects what async pushes get, in order of the calls.
func answers(s *Store, pushes ...Push) func() []error {
	errs := make([]error, len(pushes))
	var wg sync.WaitGroup
	for i, p := range pushes {
		wg.Add(1)
		s.PushAsync(p, func(_ PushResult, err error) {
			errs[i] = err
			wg.Done()
		})
	}
	return func() []error {
		wg.Wait()
		return errs
	}
}

// S21: in one group a bad request hurts no other: refused, failing while read,
// failing in the database, and failing the commit.
func TestBadRequestInGroup(t *testing.T) {
	insertOrphan := func(w *writer) error {
		if err := w.db.Exec("PRAGMA defer_foreign_keys = ON"); err != nil {
			return err
		}
		return w.db.Exec(`INSERT INTO blobs (owner_id, hash, bytes, body, created_at) VALUES ('none', 'h', 0, '', '')`)
	}
	for _, c := range []struct {
		name string
		do   func(w *writer) error
	}{
		{"none", func(*writer) error { return nil }},
		{"refused", func(*writer) error { return ErrQuota }},
		{"statement", func(w *writer) error { return w.db.Exec("INSERT INTO relay_meta (key) VALUES ('store_id')") }},
		{"transaction gone", func(w *writer) error {
			if err := w.db.Exec("ROLLBACK"); err != nil {
				return err
			}
			return w.db.Exec("ROLLBACK")
		}},
		{"commit", insertOrphan},
		{"panic", func(*writer) error { panic("bad") }},
	} {
		s := open(t, func(c *Config) { c.OwnerBytes = 1000 })
		push(t, s, alice, 1, 0, ev("0", "s"))
		release := hold(t, s)
		first := answers(s, pushOf(alice, ev("1", "s"), ev("0", "s")), pushOf(Auth{alice.Owner, "x"}, ev("2", "")))
		bad := script(t, s, c.do)
		second := answers(s, pushOf(bob, sized("1", "s", 1001)), pushOf(bob, ev("2", "s")), pushOf(alice, ev("3", "t")))
		release()
		got := append(first(), second()...)
		want := []error{nil, ErrUnauthorized, ErrQuota, nil, nil}
		for i := range want {
			if !errors.Is(got[i], want[i]) {
				t.Errorf("%s: request %d: %v, want %v", c.name, i, got[i], want[i])
			}
		}
		if err := <-bad; (err == nil) != (c.name == "none") {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == "refused" && s.Stats().MaxGroup != 6 {
			t.Errorf("group of %d", s.Stats().MaxGroup)
		}
		if st := status(t, s, alice); st.Events != 3 || st.HeadSeq != 4 || st.Streams != 2 {
			t.Errorf("%s: %+v", c.name, st)
		}
		push(t, s, alice, 1, 0, ev("4", ""))
		check(t, s)
	}
}

// The queue is bounded by count and bytes; a stop answers what waits.
func TestQueueBoundsAndStop(t *testing.T) {
	s := open(t, func(c *Config) {
		c.QueueCount = 3
		c.QueueBytes = 1000
	})
	release := hold(t, s)
	byBytes := answers(s, pushOf(alice, ev("1", "")), pushOf(alice, sized("2", "", 901)), pushOf(alice, ev("3", "")), pushOf(alice, ev("4", "")))
	if n := s.Stats().QueueCount; n != 3 {
		t.Fatalf("%d wait", n)
	}
	release()
	got := byBytes()
	for i, want := range []error{nil, ErrBusy, nil, ErrBusy} {
		wantErr(t, fmt.Sprint("push ", i), got[i], want)
	}
	push(t, s, alice, 1, 0, sized("5", "", 5000)) // larger than the bound, but alone
	if st := s.Stats(); st.QueueCount != 0 || st.QueueBytes != 0 || st.Busy != 2 {
		t.Fatalf("%+v", st)
	}
	release = hold(t, s)
	waiting := answers(s, pushOf(alice, ev("6", "")))
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-s.stop
	for _, stopped := s.queue.State(); !stopped; _, stopped = s.queue.State() {
	}
	release()
	wantErr(t, "waiting", waiting()[0], ErrStopped)
	wantErr(t, "close", <-closed, nil)
	_, err := s.Push(pushOf(alice))
	wantErr(t, "after the stop", err, ErrStopped)
}

// S52's hook: told after the commit and before the answer, of new events and
// closes only.
func TestNotify(t *testing.T) {
	var got []Notice // only the writer's goroutine appends; answers order the reads
	s := open(t, func(c *Config) { c.Notify = func(n Notice) { got = append(got, n) } })
	push(t, s, alice, 2, 0, ev("1", ""), ev("2", ""))
	push(t, s, alice, 0, 1, ev("1", ""))
	push(t, s, alice, 0, 0)
	if _, err := s.CloseOwner(alice); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CloseOwner(alice); err != nil {
		t.Fatal(err)
	}
	want := []Notice{{Owner: "alice", Head: 2}, {Owner: "alice", Closed: true}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// A group that could not begin refuses those that waited for it: what comes while
// they are refused has a try of its own, for the lock may have gone.
func TestRefusesOnlyWhatWaited(t *testing.T) {
	s := open(t, func(c *Config) { c.BusyTimeout = 50 * time.Millisecond })
	push(t, s, alice, 1, 0, ev("1", "s"))
	other, err := sqldb.Open(sqldb.Source(s.cfg.Path, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	s.PushAsync(pushOf(alice, ev("2", "s")), func(_ PushResult, err error) {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("while it is locked: %v", err)
		}
		if err := other.Exec("ROLLBACK"); err != nil {
			t.Error(err)
		}
		s.PushAsync(pushOf(alice, ev("3", "s")), func(_ PushResult, err error) { second <- err })
	})
	if err := <-second; err != nil {
		t.Errorf("a push that came while others were refused: %v", err)
	}
}

// S48: another process holds the write lock: writes are refused after the
// timeout, reads go on, and all is well after.
func TestLockedFromOutside(t *testing.T) {
	s := open(t, func(c *Config) { c.BusyTimeout = 50 * time.Millisecond })
	push(t, s, alice, 1, 0, ev("1", "s"))
	other, err := sqldb.Open(sqldb.Source(s.cfg.Path, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Push(pushOf(alice, ev("2", "s")))
	wantErr(t, "push", err, ErrBusy)
	_, err = s.CloseOwner(alice)
	wantErr(t, "close", err, ErrBusy)
	if got, _ := pulled(t, s, alice, 0, 10); len(got) != 1 {
		t.Fatalf("pulled %d", len(got))
	}
	if err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	// SQLite may take the lock for held a moment longer.
	for range 100 {
		if _, err = s.Push(pushOf(alice, ev("2", "s"))); !errors.Is(err, ErrBusy) {
			break
		}
	}
	if err != nil {
		t.Fatalf("push once the lock is gone: %v", err)
	}
	check(t, s)
}

// Another process writes to the database, even numbers: nothing is issued twice.
func TestTwoWriters(t *testing.T) {
	s := open(t)
	other := reopen(t, s.cfg.Path)
	var last int64
	for i := range 10 {
		for j, one := range []*Store{s, s, other} {
			n := head(t, one, fmt.Sprint(i, j))
			if n <= last {
				t.Fatalf("%d after %d", n, last)
			}
			last = n
		}
		push(t, []*Store{s, other}[i%2], Auth{fmt.Sprint("owner", i), "h"}, 0, 0)
	}
	if _, err := other.CloseOwner(alice); err != nil {
		t.Fatal(err)
	}
	push(t, s, bob, 1, 0, ev("1", "s"))
	if st := s.Stats(); st.TotalBytes != 100 || st.Owners != 12 {
		t.Fatalf("%+v", st)
	}
	check(t, s)
}

// Case 43: the disk fills up during a push; reads go on; small pushes of the
// same group are stored while there is room; with room again all is well.
func TestDiskFull(t *testing.T) {
	s := open(t)
	push(t, s, alice, 1, 0, ev("1", "s"))
	limit := func(room int64) {
		t.Helper()
		err := <-script(t, s, func(w *writer) error {
			pages, err := w.db.Int("PRAGMA page_count")
			if err != nil {
				return err
			}
			_, err = w.db.SQL().ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages+room))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(10)
	before := status(t, s, alice)
	_, err := s.PutBlob(alice, "h", make([]byte, 100_000))
	wantErr(t, "blob", err, ErrDiskFull)
	release := hold(t, s)
	wait := answers(s, pushOf(alice, sizedAll(ids("big", 100, "s"), 1000)...), pushOf(bob, ev("1", "s")))
	release()
	got := wait()
	wantErr(t, "large push", got[0], ErrDiskFull)
	wantErr(t, "small push", got[1], nil)
	if st := status(t, s, alice); st != before {
		t.Fatalf("%+v, was %+v", st, before)
	}
	if n := s.Stats().Failed; n < 2 {
		t.Fatalf("%d failures counted", n)
	}
	check(t, s)
	limit(1 << 20)
	push(t, s, alice, 100, 0, sizedAll(ids("big", 100, "s"), 1000)...)
	check(t, s)
}

// Case 19: killed at any byte of the write-ahead log, each push is wholly there
// or wholly not, in order, and S49 holds.
func TestCutLog(t *testing.T) {
	dir := t.TempDir()
	s := open(t)
	const pushes, size = 25, 7
	for i := range pushes {
		push(t, s, alice, size, 0, ids(fmt.Sprint(i, "-"), size, fmt.Sprint("s", i%4))...)
	}
	if _, err := s.CompactStreams(alice, []string{"s3"}); err != nil {
		t.Fatal(err)
	}
	if s.Stats().Checkpoints != 0 {
		t.Fatal("a checkpoint has run: the log does not hold all")
	}
	wal, err := os.ReadFile(s.cfg.Path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for cut := 0; cut <= len(wal); cut += min(1+rand.IntN(len(wal)/30), max(1, len(wal)-cut)) {
		path := filepath.Join(dir, fmt.Sprint(cut, ".db"))
		copyFile(t, s.cfg.Path, path)
		if err := os.WriteFile(path+"-wal", wal[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		c := reopen(t, path)
		check(t, c)
		st, err := c.Status(alice)
		if err != nil && !errors.Is(err, ErrUnknownOwner) {
			t.Fatal(err)
		}
		if st.Events%size != 0 || int(st.Events) < last && st.Streams != 3 {
			t.Fatalf("cut at %d: %+v after %d events", cut, st, last)
		}
		last = int(st.Events)
		push(t, c, bob, 1, 0, ev("1", "s"))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if want := (pushes - pushes/4) * size; last != want {
		t.Fatalf("the whole log gave %d events, want %d", last, want)
	}
}

// killPath names the database of the child process of TestKill.
const killPath = "STORE_TEST_KILL_PATH"

// Case 19: kill -9 during pushes from several goroutines, with compactions and
// checkpoints: what was answered is there, no push is there in part.
func TestKill(t *testing.T) {
	if path := os.Getenv(killPath); path != "" {
		killChild(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "sync.db")
	for round := range 3 {
		acked := killOnce(t, path, 150+100*round)
		s := reopen(t, path)
		check(t, s)
		for owner, n := range acked {
			st := status(t, s, Auth{owner, "h"})
			if int(st.Events) < n*10 || st.Events%10 != 0 {
				t.Fatalf("%s: %d events, %d pushes were answered", owner, st.Events, n)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killOnce runs the child, kills it after so many answers and returns the
// answered pushes of each owner.
func killOnce(t *testing.T, path string, after int) map[string]int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$", "-test.v")
	cmd.Env = append(os.Environ(), killPath+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := make(map[string]int)
	lines := bufio.NewScanner(out)
	count := 0
	for lines.Scan() {
		if owner, ok := strings.CutPrefix(lines.Text(), "ack "); ok {
			acked[owner]++
			if count++; count == after {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed
	if count < after {
		t.Fatalf("the child ended after %d answers", count)
	}
	return acked
}

func killChild(t *testing.T, path string) {
	s := reopen(t, path, func(c *Config) { c.Synchronous = "NORMAL" })
	run := rand.Uint64()
	for g := range 4 {
		auth := Auth{fmt.Sprintf("owner%d-%d", g, run), "h"}
		go func() {
			for i := 0; ; i++ {
				events := sizedAll(ids(fmt.Sprint(i, "-"), 10, ""), 3000)
				if _, err := s.Push(pushOf(auth, events...)); err != nil {
					fmt.Println("failed", err)
					os.Exit(1)
				}
				fmt.Println("ack " + auth.Owner)
			}
		}()
	}
	select {} // until the parent kills
}

// The write-ahead log stays bounded under steady pushes.
func TestLogIsBounded(t *testing.T) {
	s := open(t)
	for i := range 60 {
		push(t, s, alice, 100, 0, sizedAll(ids(fmt.Sprint(i, "-"), 100, "s"), 10_000)...)
	}
	if st := s.Stats(); st.WALBytes > 32<<20 || st.Checkpoints == 0 {
		t.Fatalf("%d bytes of log after %d checkpoints", st.WALBytes, st.Checkpoints)
	}
}
