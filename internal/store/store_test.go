package store

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// fakeClock is a clock that a test moves. Any goroutine.
type fakeClock struct{ ms atomic.Int64 }

func newClock() *fakeClock {
	c := &fakeClock{}
	c.ms.Store(1_796_000_000_000)
	return c
}

func (c *fakeClock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// open makes a store in a fresh directory that ends with the test. Compaction
// by time is off unless change turns it on.
func open(t testing.TB, change ...func(*Config)) *Store {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "sync.db"), change...)
}

func reopen(t testing.TB, path string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{Path: path, CompactionInterval: -1, Synchronous: "OFF"}
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

var (
	alice = Auth{"alice", "hash-a"}
	bob   = Auth{"bob", "hash-b"}
)

// ev is an event of 100 bytes.
func ev(id, stream string) Event { return sized(id, stream, 100) }

func sized(id, stream string, n int) Event {
	b := make([]byte, n)
	copy(b, id+"|"+stream)
	return Event{ID: id, Stream: stream, Envelope: b}
}

func each(events []Event) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func pushOf(auth Auth, events ...Event) Push {
	p := Push{Auth: auth, Events: each(events), Count: len(events)}
	for _, e := range events {
		p.Bytes += int64(len(e.Envelope))
	}
	return p
}

// push fails the test unless the answer is as wanted.
func push(t testing.TB, s *Store, auth Auth, accepted, duplicate int, events ...Event) {
	t.Helper()
	got, err := s.Push(pushOf(auth, events...))
	if err != nil || got != (PushResult{accepted, duplicate}) {
		t.Fatalf("push: %+v, %v; want %d, %d", got, err, accepted, duplicate)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// pulled is the envelopes of one page.
func pulled(t testing.TB, s *Store, auth Auth, after int64, limit int) ([]string, int64) {
	t.Helper()
	var got []string
	page, err := s.Pull(Pull{Auth: auth, After: after, Limit: limit}, func(b []byte) { got = append(got, string(b)) })
	if err != nil {
		t.Fatalf("pull after %d: %v", after, err)
	}
	if page.Events != len(got) {
		t.Fatalf("page says %d events, gave %d", page.Events, len(got))
	}
	return got, page.Next
}

func status(t testing.TB, s *Store, auth Auth) Status {
	t.Helper()
	st, err := s.Status(auth)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// check tests S49's invariants.
func check(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// scale makes a test's size fit for the race detector.
func scale(n int) int {
	if raceEnabled {
		return n / 8
	}
	return n
}

func ids(prefix string, n int, stream string) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = ev(fmt.Sprintf("%s%06d", prefix, i), stream)
	}
	return events
}
