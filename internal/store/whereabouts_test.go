package store

import (
	"errors"
	"os"
	"testing"
)

// S25: what is written to a file that is no longer at its path would be gone
// with the process. So nothing is, and the store does not count as reachable;
// back at its place, all goes on.
func TestFilesTakenAway(t *testing.T) {
	for _, c := range []struct {
		name, file string
		replace    bool
	}{
		{"database removed", "", false},
		{"database replaced", "", true},
		{"log removed", "-wal", false},
		{"log replaced", "-wal", true},
	} {
		s := open(t)
		push(t, s, alice, 1, 0, ev("1", "s"))
		wantErr(t, c.name+": ping before", s.Ping(), nil)
		path := s.cfg.Path + c.file
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if c.replace {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Push(pushOf(alice, ev("2", "s")))
		wantErr(t, c.name+": push", err, ErrTakenAway)
		_, err = s.CloseOwner(alice)
		wantErr(t, c.name+": close", err, ErrTakenAway)
		wantErr(t, c.name+": ping", s.Ping(), ErrTakenAway)
		if errors.Is(err, ErrBusy) {
			t.Errorf("%s: a client is told to come again at once", c.name)
		}
		if got, _ := pulled(t, s, alice, 0, 10); len(got) != 1 {
			t.Errorf("%s: pulled %d events", c.name, len(got))
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		// The writer may have looked before the file was back, and refuses with
		// that whoever has come meanwhile.
		for range 100 {
			if _, err = s.Push(pushOf(alice, ev("2", "s"))); !errors.Is(err, ErrTakenAway) {
				break
			}
		}
		wantErr(t, c.name+": push after", err, nil)
		wantErr(t, c.name+": ping after", s.Ping(), nil)
		check(t, s)
	}
}
