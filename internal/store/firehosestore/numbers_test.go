package firehosestore

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/upstream/state"

	"github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// step is a call of Marks and the state after it.
type step struct {
	name string
	do   func(*Store) error
	want firehose.State
}

func reserve(upTo int64) func(*Store) error {
	return func(s *Store) error { return s.Reserve(upTo) }
}

func storeClean(last, outdated int64) func(*Store) error {
	return func(s *Store) error { return s.StoreClean(last, outdated, at) }
}

func clean(reserved, last, outdated int64) firehose.State {
	return firehose.State{Reserved: reserved, Clean: true, Last: last, Outdated: outdated, At: at}
}

func unclean(reserved int64) firehose.State { return firehose.State{Reserved: reserved} }

// runs are F25's orders of calls over several runs.
var runs = []step{
	{"first block", reserve(10), unclean(10)},
	{"next block", reserve(20), unclean(20)},
	{"clean stop", storeClean(15, 3), clean(20, 15, 3)},
	{"erased", (*Store).EraseClean, unclean(20)},
	{"erased twice", (*Store).EraseClean, unclean(20)},
	{"reserved after", reserve(30), unclean(30)},
	{"clean stop", storeClean(29, 4), clean(30, 29, 4)},
	{"clean stop without a number", storeClean(29, 5), clean(30, 29, 5)},
	{"a reservation ends a clean stop", reserve(31), unclean(31)},
	{"never back", reserve(5), unclean(31)},
	{"clean stop above what is reserved", storeClean(1<<41, 0), clean(31, 1<<41, 0)},
	{"last of all", reserve(firehose.MaxNumber), unclean(firehose.MaxNumber)},
	{"clean stop at the end", storeClean(firehose.MaxNumber, firehose.MaxNumber), clean(firehose.MaxNumber, firehose.MaxNumber, firehose.MaxNumber)},
}

func wantState(t testing.TB, what string, s *Store, want firehose.State) {
	t.Helper()
	got, err := s.Load()
	if err != nil || !got.At.Equal(want.At) {
		t.Fatalf("%s: %+v, %v, want %+v", what, got, err, want)
	}
	if got.At = want.At; got != want {
		t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

// F25: each call is durable when it returns: a power cut after it (a copy of
// what is on the medium) finds its state, and so does a restart.
func TestMarks(t *testing.T) {
	dir := t.TempDir()
	for _, restarts := range []bool{false, true} {
		s := fresh(t)
		wantState(t, "fresh", s, firehose.State{})
		for i, step := range runs {
			wantErr(t, step.name, step.do(s), nil)
			wantState(t, step.name, s, step.want)
			path := filepath.Join(dir, fmt.Sprint(restarts, i, ".db"))
			copyDatabase(t, s.cfg.Path, path, -1)
			wantState(t, step.name+": after a power cut", reopen(t, path), step.want)
			if restarts {
				wantErr(t, "close", s.Close(), nil)
				s = reopen(t, s.cfg.Path)
				wantState(t, step.name+": after a restart", s, step.want)
			}
		}
	}
}

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

// F25: cut at any byte of the log, the state is that before a call or after it,
// and the calls come in order.
func TestMarksCutLog(t *testing.T) {
	s := fresh(t)
	for _, step := range runs {
		wantErr(t, step.name, step.do(s), nil)
	}
	if s.Stats().WALBytes == 0 {
		t.Fatal("there is no log")
	}
	dir := t.TempDir()
	const stride = 2311 // no multiple of it is a frame's end, some are near
	seen, reached := map[firehose.State]bool{}, 0
	states := []firehose.State{{}} // as seeded
	for _, step := range runs {
		states = append(states, step.want)
	}
	total := int(s.Stats().WALBytes)
	for cut := 0; cut <= total; cut += min(stride, max(1, total-cut)) {
		path := filepath.Join(dir, fmt.Sprint(cut, ".db"))
		copyDatabase(t, s.cfg.Path, path, cut)
		c := reopen(t, path)
		got, err := c.Load()
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if got.Clean {
			got.At = at
		}
		from := reached
		for reached < len(states) && states[reached] != got {
			reached++
		}
		if reached == len(states) {
			t.Fatalf("cut at %d: %+v is none of the states from %d on", cut, got, from)
		}
		seen[got] = true
		wantErr(t, "close", c.Close(), nil)
	}
	if reached != len(states)-1 || len(seen) < len(runs)/2 {
		t.Fatalf("the whole log leads to state %d of %d; %d were seen", reached, len(states)-1, len(seen))
	}
}

func TestMarksInvalid(t *testing.T) {
	s := fresh(t)
	wantErr(t, "reserve", s.Reserve(7), nil)
	for _, n := range []int64{math.MinInt64, -1, 0, firehose.MaxNumber + 1, math.MaxInt64} {
		wantErr(t, fmt.Sprint("reserve ", n), s.Reserve(n), ErrInvalid)
		if n != 0 {
			wantErr(t, fmt.Sprint("last ", n), s.StoreClean(n, 0, at), ErrInvalid)
			wantErr(t, fmt.Sprint("outdated ", n), s.StoreClean(1, n, at), ErrInvalid)
		}
	}
	wantState(t, "after", s, unclean(7))
}

// K2: two relays on one database by mistake: what one reserved, the other does
// not give out, and no clean stop of one hides it.
func TestTwoRelays(t *testing.T) {
	a := fresh(t)
	wantErr(t, "reserve", a.Reserve(100), nil)
	wantErr(t, "clean", a.StoreClean(50, 0, at), nil)
	b := reopen(t, a.cfg.Path)
	wantState(t, "b", b, clean(100, 50, 0))
	wantErr(t, "a goes on", a.Reserve(200), nil)
	wantErr(t, "b", b.EraseClean(), nil)
	wantErr(t, "b", b.Reserve(150), ErrTwoRelays)
	wantErr(t, "b", b.StoreClean(50, 0, at), ErrTwoRelays)
	wantState(t, "b sees a's", b, unclean(200))
	wantErr(t, "b knows now", b.Reserve(300), nil)
	wantErr(t, "a", a.Reserve(250), ErrTwoRelays)
	// A database that appears at the path of a relay that found none.
	c := fresh(t)
	wantState(t, "c", c, firehose.State{})
	wantErr(t, "directory", os.MkdirAll(filepath.Dir(c.cfg.Path), 0o700), nil)
	copyDatabase(t, a.cfg.Path, c.cfg.Path, -1)
	wantErr(t, "c", c.Reserve(1), ErrTwoRelays)
}

// F28: a lock held by another process fails the publisher and uses no number;
// once it is gone the numbers go on without a gap.
func TestBusyNumbers(t *testing.T) {
	s := fresh(t)
	saved(t, s, host("a.example"))
	n, err := firehose.OpenNumbers(s, firehose.NumbersConfig{Block: 4})
	wantErr(t, "numbers", err, nil)
	lock := other(t, s.cfg.Path)
	defer lock.Close()
	wantErr(t, "lock", lock.Exec("BEGIN IMMEDIATE"), nil)
	for range 2 {
		_, err = n.Use(func(seq int64) error {
			t.Errorf("%d was used", seq)
			return nil
		})
		wantErr(t, "locked", err, ErrBusy)
	}
	wantState(t, "locked: reads go on", s, firehose.State{})
	wantErr(t, "clean", s.StoreClean(1, 0, at), ErrBusy)
	if _, err := s.SaveHost(host("b.example")); !errors.Is(err, ErrBusy) {
		t.Errorf("host: %v", err)
	}
	wantErr(t, "apply", s.Apply(state.Batch{Repos: []state.Repo{{DID: "did:web:a"}}}), ErrBusy)
	if st := s.Stats(); st.Busy != 5 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
	wantErr(t, "unlock", lock.Exec("ROLLBACK"), nil)
	for want := range int64(10) {
		seq, err := n.Use(func(int64) error { return nil })
		if err != nil || seq != want+1 {
			t.Fatalf("%d, %v, want %d", seq, err, want+1)
		}
	}
	wantErr(t, "stop", n.Stop(2, true), nil)
	st, err := s.Load()
	if err != nil || !st.Clean || st.Last != 10 || st.Outdated != 2 || st.Reserved < 10 {
		t.Fatalf("%+v, %v", st, err)
	}
}

// F25, F26, F27: numbers on this store, killed and stopped in turns, never
// repeat, and a clean stop goes on at L + 1.
func TestNumbersOverRestarts(t *testing.T) {
	s := fresh(t)
	path, dir := s.cfg.Path, t.TempDir()
	var last int64
	for run := range 12 {
		n, err := firehose.OpenNumbers(s, firehose.NumbersConfig{Mode: firehose.FloorNumber, Floor: 1, Block: 8})
		wantErr(t, "numbers", err, nil)
		for i := range 13 {
			seq, err := n.Use(func(int64) error { return nil })
			if err != nil || seq <= last || run%2 == 1 && i == 0 && seq != last+1 {
				t.Fatalf("run %d: %d after %d, %v", run, seq, last, err)
			}
			last = seq
		}
		kill := run%2 == 1
		wantErr(t, "stop", n.Stop(0, !kill), nil)
		if kill { // what was not synced is not in the copy
			path = filepath.Join(dir, fmt.Sprint(run, ".db"))
			copyDatabase(t, s.cfg.Path, path, -1)
		}
		wantErr(t, "close", s.Close(), nil)
		s = reopen(t, path)
	}
}

// F28: without room nothing is reserved, and the state stays readable; with room
// it goes on.
func TestDiskFull(t *testing.T) {
	s := fresh(t)
	wantErr(t, "reserve", s.Reserve(10), nil)
	limit := func(room int64) {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		w := s.opened.Load().writer
		pages, err := w.Int("PRAGMA page_count")
		wantErr(t, "pages", err, nil)
		wantErr(t, "limit", w.Script(fmt.Sprintf("PRAGMA max_page_count = %d", pages+room)), nil)
	}
	id := saved(t, s, host("a.example"))
	limit(2)
	err := s.Apply(state.Batch{Repos: many(0, 2000, id), Cursors: []state.HostCursor{{ID: id, LastSeq: 7}}})
	wantErr(t, "apply", err, ErrDiskFull)
	wantState(t, "full", s, unclean(10))
	if _, found, err := s.Repo(many(0, 1, id)[0].DID); found || err != nil {
		t.Errorf("half of a batch is there: %v", err)
	}
	if h, err := s.Hosts(); err != nil || h[0].LastSeq != -1 {
		t.Errorf("%+v, %v", h, err)
	}
	wantErr(t, "a small write fits", s.Reserve(11), nil)
	limit(1 << 20)
	wantErr(t, "apply", s.Apply(state.Batch{Repos: many(0, 2000, id)}), nil)
	if st := s.Stats(); st.Failed != 1 {
		t.Errorf("%+v", st)
	}
}

// A broken table found while running fails the call, and takes no number.
func TestSpoiledWhileRunning(t *testing.T) {
	s := fresh(t)
	wantErr(t, "reserve", s.Reserve(10), nil)
	outside(t, s.cfg.Path, "UPDATE firehose_meta SET value = 'x' WHERE key = 'reserved'")
	wantErr(t, "reserve", s.Reserve(20), ErrUnreadable)
	wantErr(t, "ping", s.Ping(), ErrUnreadable)
	_, err := s.Load()
	wantErr(t, "load", err, ErrUnreadable)
}

// A transaction that something left open is ended, not joined.
func TestLeftOpen(t *testing.T) {
	s := fresh(t)
	wantErr(t, "reserve", s.Reserve(10), nil)
	w := s.opened.Load().writer
	wantErr(t, "begin", w.Exec("BEGIN IMMEDIATE"), nil)
	wantErr(t, "write", schema.SetNumber(w, keyReserved, 3), nil)
	wantErr(t, "reserve", s.Reserve(11), nil)
	wantState(t, "after", s, unclean(11))
	errOwn := errors.New("own")
	wantErr(t, "own", s.write(func(c *sqldb.Conn) error {
		return errors.Join(schema.SetNumber(c, keyReserved, 3), errOwn)
	}), errOwn)
	wantState(t, "undone", s, unclean(11))
}

// at in other zones is the same moment.
func TestCleanTime(t *testing.T) {
	s := fresh(t)
	wantErr(t, "reserve", s.Reserve(1), nil)
	zone := at.In(time.FixedZone("far", 3*3600))
	wantErr(t, "clean", s.StoreClean(1, 0, zone.Add(999*time.Microsecond)), nil)
	wantState(t, "clean", s, clean(1, 1, 0))
	wantErr(t, "before 1970", s.StoreClean(1, 0, time.UnixMilli(-5)), nil)
	st, err := s.Load()
	if err != nil || st.At.UnixMilli() != -5 {
		t.Errorf("%+v, %v", st, err)
	}
}
