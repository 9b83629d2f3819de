package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// megabyte pushes 1 MB of new events.
func megabyte(t *testing.T, s *Store, name string) {
	t.Helper()
	push(t, s, alice, 100, 0, sizedAll(ids(name+"-", 100, "s"), 10_000)...)
}

// The log starts over only in a moment without a reader of its pages. Pulls that
// overlap without end leave none, so the writer has to make one.
func TestLogIsBoundedUnderPulls(t *testing.T) {
	s := open(t)
	megabyte(t, s, "first")
	var stop atomic.Bool
	var pulls atomic.Int64
	var ended sync.WaitGroup
	for range 16 {
		ended.Go(func() {
			for !stop.Load() {
				if _, err := s.Pull(Pull{Auth: alice, Limit: 1000}, func([]byte) {}); err != nil {
					t.Error(err)
					return
				}
				pulls.Add(1)
			}
		})
	}
	var most int64
	for i := range 120 {
		megabyte(t, s, fmt.Sprint(i))
		most = max(most, s.Stats().WALBytes)
	}
	stop.Store(true)
	ended.Wait()
	if most > walKeepBytes || pulls.Load() == 0 {
		t.Errorf("%d bytes of log, while %d pages were pulled", most, pulls.Load())
	}
	check(t, s)
}

// A reader outside of the relay, such as a backup, holds an old state: the log
// has to grow, pushes and pulls go on, and with the reader gone it shrinks.
func TestLogShrinksAfterOldReader(t *testing.T) {
	s := open(t)
	megabyte(t, s, "first")
	other, err := sqldb.Open(sqldb.Source(s.cfg.Path, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	events := func() int64 {
		t.Helper()
		n, err := other.Int("SELECT count(*) FROM events")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := events()
	for i := range 80 {
		megabyte(t, s, fmt.Sprint("held", i))
	}
	if got, _ := pulled(t, s, alice, 0, 10); len(got) != 10 {
		t.Errorf("pulled %d", len(got))
	}
	if n := events(); n != before {
		t.Fatalf("the other reader sees %d events, saw %d", n, before)
	}
	if n := s.Stats().WALBytes; n <= walKeepBytes {
		t.Fatalf("%d bytes of log: it did not have to grow", n)
	}
	if err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		megabyte(t, s, fmt.Sprint("free", i))
	}
	if n := s.Stats().WALBytes; n > walKeepBytes {
		t.Errorf("%d bytes of log once the reader is gone", n)
	}
	check(t, s)
}
