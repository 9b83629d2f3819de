package store

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func clocked(c *fakeClock, mode FloorMode, number int64) func(*Config) {
	return func(cfg *Config) {
		cfg.Now = c.now
		cfg.Floor = Floor{mode, number}
	}
}

// head pushes one event and returns its number.
func head(t testing.TB, s *Store, id string) int64 {
	t.Helper()
	push(t, s, alice, 1, 0, ev(id, ""))
	return status(t, s, alice).HeadSeq
}

// S29: where the first number of a run lies.
func TestFloor(t *testing.T) {
	clock := newClock()
	floor := clock.now().UnixMilli() * 1024
	f := func(what string, mode FloorMode, number, first, second int64) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "sync.db")
		s := reopen(t, path, clocked(clock, mode, number))
		if got := head(t, s, "1"); got != first {
			t.Errorf("%s: first number %d, want %d", what, got, first)
		}
		if got := head(t, s, "2"); got != first+1 {
			t.Errorf("%s: second number %d, want %d", what, got, first+1)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, path, clocked(clock, mode, number))
		if got := head(t, s, "3"); got != second {
			t.Errorf("%s: after a restart %d, want %d", what, got, second)
		}
		check(t, s)
	}
	f("auto", FloorAuto, 0, 1, floor+1)
	f("clock", FloorClock, 0, floor+1, floor+3)
	f("number", FloorFixed, 5000, 5001, 5003)
	f("zero", FloorFixed, 0, 1, 3)
}

// S29: auto raises a fresh store after ten minutes or 10,000 numbers.
func TestAutoRaise(t *testing.T) {
	clock := newClock()
	s := open(t, clocked(clock, FloorAuto, 0))
	if got := head(t, s, "1"); got != 1 {
		t.Fatalf("first %d", got)
	}
	clock.advance(raiseAfterTime)
	want := clock.now().UnixMilli()*1024 + 1
	if got := head(t, s, "2"); got != want {
		t.Fatalf("after ten minutes %d, want %d", got, want)
	}
	check(t, s)

	s = open(t, clocked(clock, FloorAuto, 0))
	// The raise falls inside one push.
	for i := range 11 {
		push(t, s, alice, 950, 0, ids(string(rune('a'+i)), 950, "")...)
	}
	page, err := s.Pull(Pull{Auth: alice, After: raiseAfterNumbers - 1, Limit: 1}, func([]byte) {})
	if err != nil || page.Next != raiseAfterNumbers {
		t.Fatalf("number 10,000: %+v, %v", page, err)
	}
	page, err = s.Pull(Pull{Auth: alice, After: raiseAfterNumbers, Limit: 1}, func([]byte) {})
	if err != nil || page.Next != want {
		t.Fatalf("the next number: %+v, %v; want %d", page, err, want)
	}
	check(t, s)
}

// Case 17, S33: the store was wiped, and another device came first.
func TestWipedStore(t *testing.T) {
	clock := newClock()
	s := open(t, clocked(clock, FloorClock, 0))
	old := head(t, s, "1")
	clock.advance(time.Minute)
	s = open(t, clocked(clock, FloorClock, 0))
	push(t, s, alice, 2, 0, ev("1", ""), ev("2", ""))
	_, err := s.Pull(Pull{Auth: alice, After: old, Limit: 1}, nil)
	wantErr(t, "cursor of the wiped store", err, ErrStaleCursor)
	_, err = s.Pull(Pull{Auth: alice, After: status(t, s, alice).HeadSeq + 1, Limit: 1}, nil)
	wantErr(t, "cursor never issued", err, ErrStaleCursor)
}

// Case 18, S30: a backup of an hour ago is restored; a copy made by Backup.
func TestRestoredBackup(t *testing.T) {
	clock := newClock()
	dir := t.TempDir()
	s := open(t, clocked(clock, FloorClock, 0))
	before := head(t, s, "1")
	push(t, s, alice, 1, 0, ev("2", ""))
	backup := filepath.Join(dir, "backup.db")
	if err := s.Backup(backup); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(backup); err == nil {
		t.Fatal("a backup was overwritten")
	}
	id := s.StoreID()
	lost := head(t, s, "3")
	clock.advance(time.Hour)
	s = reopen(t, backup, clocked(clock, FloorAuto, 0))
	if s.StoreID() != id {
		t.Fatal("another store id")
	}
	check(t, s)
	f := func(when string) {
		t.Helper()
		_, err := s.Pull(Pull{Auth: alice, After: lost, Limit: 1}, nil)
		wantErr(t, when, err, ErrStaleCursor)
	}
	f("before a push")
	fresh := head(t, s, "4")
	f("after a push")
	if fresh <= lost {
		t.Fatalf("number %d was issued again or below %d", fresh, lost)
	}
	if got, next := pulled(t, s, alice, before, 10); len(got) != 2 || next != fresh {
		t.Fatalf("cursor from before the copy: %q, %d", got, next)
	}
}

// copyFile copies what the file holds at this moment, which may be torn.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}

// Case 19, S27, S34: numbers and cursors over restarts.
func TestRestarts(t *testing.T) {
	for _, mode := range []FloorMode{FloorAuto, FloorClock, FloorFixed} {
		clock := newClock()
		path := filepath.Join(t.TempDir(), "sync.db")
		var last int64
		var issued []int64
		for run := range 4 {
			s := reopen(t, path, clocked(clock, mode, 0))
			for i := range 3 {
				n := head(t, s, string(rune('a'+run))+string(rune('0'+i)))
				if n <= last {
					t.Fatalf("mode %d: %d after %d", mode, n, last)
				}
				last, issued = n, append(issued, n)
			}
			for i, n := range issued {
				if got, _ := pulled(t, s, alice, n, 100); len(got) != len(issued)-i-1 {
					t.Fatalf("mode %d: cursor %d gave %d events", mode, n, len(got))
				}
			}
			check(t, s)
			clock.advance(time.Second)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
