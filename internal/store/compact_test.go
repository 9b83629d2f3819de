package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func compactAllNow(t testing.TB, s *Store) Reclaimed {
	t.Helper()
	r, err := s.CompactAll()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Cases 21, 22 and 23; S37, S24, S34.
func TestCompaction(t *testing.T) {
	s := open(t)
	push(t, s, alice, 5, 0, ev("10", "s"), ev("100", "s"), ev("9", "s"), ev("1", ""), ev("0", ""))
	if r := compactAllNow(t, s); r != (Reclaimed{2, 200}) {
		t.Fatalf("case 22: %+v", r)
	}
	got, _ := pulled(t, s, alice, 0, 10)
	if len(got) != 3 || got[0] != string(ev("9", "s").Envelope) {
		t.Fatalf("case 22: %q", got)
	}
	push(t, s, bob, 2, 0, ev("5", "s"), ev("3", "s"))
	cursor := status(t, s, bob).HeadSeq
	if r := compactAllNow(t, s); r != (Reclaimed{1, 100}) {
		t.Fatalf("case 23: %+v", r)
	}
	if st := status(t, s, bob); st.HeadSeq != cursor-1 || st.UsedBytes != 100 || st.Streams != 1 {
		t.Fatalf("case 23: %+v", st)
	}
	if got, next := pulled(t, s, bob, cursor, 10); len(got) != 0 || next != cursor {
		t.Fatalf("case 23: %q, %d", got, next)
	}
	push(t, s, bob, 1, 0, ev("3", "s")) // S24
	if n := status(t, s, bob).HeadSeq; n != cursor+1 {
		t.Fatalf("case 21: number %d after %d", n, cursor)
	}
	if r := compactAllNow(t, s); r != (Reclaimed{1, 100}) {
		t.Fatalf("S24: %+v", r)
	}
	if r := compactAllNow(t, s); r != (Reclaimed{}) {
		t.Fatalf("a second run: %+v", r)
	}
	check(t, s)
}

// S37, S38 against a naive model, over several slices and owners.
func TestCompactionModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := open(t)
	type key struct{ owner, stream string }
	newest := make(map[key]string)
	loose := 0
	each := scale(900)
	for b := range 8 {
		auth := Auth{fmt.Sprint("owner", b%3), "h"}
		var events []Event
		for i := range each {
			stream := fmt.Sprint("s", rnd.IntN(300))
			id := fmt.Sprintf("%d-%d-%d", rnd.IntN(1000), b, i)
			if rnd.IntN(10) == 0 {
				stream = ""
				loose++
			} else if k := (key{auth.Owner, stream}); id > newest[k] {
				newest[k] = id
			}
			events = append(events, ev(id, stream))
		}
		push(t, s, auth, each, 0, events...)
	}
	r := compactAllNow(t, s)
	if want := int64(8*each - loose - len(newest)); r.DeletedEvents != want {
		t.Fatalf("seed %d: deleted %d, want %d", seed, r.DeletedEvents, want)
	}
	if n := s.Stats().Slices; n < 3 && !raceEnabled {
		t.Fatalf("%d slices", n)
	}
	kept := make(map[string]bool)
	for b := range 3 {
		got, _ := pulled(t, s, Auth{fmt.Sprint("owner", b), "h"}, 0, 10_000)
		for _, e := range got {
			kept[fmt.Sprint("owner", b)+e] = true
		}
	}
	for k, id := range newest {
		if !kept[k.owner+string(ev(id, k.stream).Envelope)] {
			t.Fatalf("seed %d: %v lost %s", seed, k, id)
		}
	}
	check(t, s)
}

// Case 24: compaction while 10,000 events are pushed to the same streams. S38: a
// push waits for one slice of it at most.
func TestCompactionWhilePushing(t *testing.T) {
	s := open(t)
	for i := range 8 { // several slices that delete nothing
		events := ids(fmt.Sprint(i, "-"), scale(1000), "")
		for j := range events {
			events[j].Stream = events[j].ID
		}
		push(t, s, bob, len(events), 0, events...)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := s.CompactAll(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range scale(100) {
		events := make([]Event, 100)
		for j := range events {
			events[j] = ev(fmt.Sprintf("%06d", i*100+j), fmt.Sprint("s", j%37))
		}
		if n := slicesBefore(t, s, pushOf(alice, events...)); n > 1 {
			t.Errorf("a push waited for %d slices", n)
		}
		if i%20 == 0 {
			check(t, s)
		}
	}
	close(stop)
	wg.Wait()
	if s.Stats().Slices == 0 {
		t.Error("there was no slice to wait for")
	}
	compactAllNow(t, s)
	if st := status(t, s, alice); st.Events != 37 || st.Streams != 37 || st.UsedBytes != 3700 {
		t.Fatalf("%+v", st)
	}
	check(t, s)
}

// slicesBefore pushes and returns how many slices went before the answer. The
// writer hands the push over and counts: how slow the machine is does not matter.
func slicesBefore(t *testing.T, s *Store, p Push) (n int) {
	t.Helper()
	answered := make(chan error, 1)
	s.PushAsync(pushOf(alice), func(_ PushResult, err error) {
		before := s.stats.slices.Load()
		if err != nil {
			answered <- err
			return
		}
		s.PushAsync(p, func(r PushResult, err error) {
			if n = int(s.stats.slices.Load() - before); err == nil && r != (PushResult{Accepted: p.Count}) {
				err = fmt.Errorf("%+v", r)
			}
			answered <- err
		})
	})
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	return n
}

// Case 26, S40: whole streams go, over several slices; repeats and unknown
// streams do no harm; a pushed event comes again under a new number.
func TestCompactStreams(t *testing.T) {
	s := open(t)
	f := func(want Reclaimed, streams ...string) {
		t.Helper()
		got, err := s.CompactStreams(alice, streams)
		if err != nil || got != want {
			t.Fatalf("%v: %+v, %v; want %+v", streams, got, err, want)
		}
	}
	push(t, s, alice, 0, 0)
	f(Reclaimed{})
	for i := range 5 {
		push(t, s, alice, 1000, 0, ids(string(rune('a'+i)), 1000, "s")...)
	}
	push(t, s, alice, 2, 0, ev("x", "t"), ev("y", ""))
	push(t, s, bob, 1, 0, ev("x", "s"))
	last := status(t, s, alice).HeadSeq
	f(Reclaimed{5000, 500_000}, "none", "s", "s")
	if st := status(t, s, alice); st.Events != 2 || st.Streams != 1 || st.UsedBytes != 200 {
		t.Fatalf("%+v", st)
	}
	push(t, s, alice, 1, 0, ev("a000000", "s"))
	if n := status(t, s, alice).HeadSeq; n <= last {
		t.Fatalf("number %d after %d", n, last)
	}
	f(Reclaimed{2, 200}, "t", "s")
	if st := status(t, s, bob); st.Events != 1 {
		t.Fatalf("bob's stream went: %+v", st)
	}
	check(t, s)
}

// S40 racing pushes to the same streams: the counters stay true.
func TestCompactStreamsWhilePushing(t *testing.T) {
	s := open(t)
	push(t, s, alice, 0, 0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range scale(40) {
			push(t, s, alice, 150, 0, ids(fmt.Sprint(i, "-"), 150, fmt.Sprint("s", i%3))...)
		}
	})
	for range scale(30) {
		if _, err := s.CompactStreams(alice, []string{"s0", "s1", "s2"}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	check(t, s)
}

// S37: the interval counts from the stored last run, so restarts do not put it
// off, and a run that is due starts at once.
func TestCompactionSchedule(t *testing.T) {
	clock := newClock()
	path := filepath.Join(t.TempDir(), "sync.db")
	set := func(c *Config) {
		c.Now = clock.now
		c.CompactionInterval = time.Hour
	}
	s := reopen(t, path, set)
	push(t, s, alice, 2, 0, ev("1", "s"), ev("2", "s"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.advance(40 * time.Minute)
	s = reopen(t, path, set)
	push(t, s, alice, 1, 0, ev("3", ""))
	if n := s.Stats().Slices; n != 0 {
		t.Fatalf("%d slices before the time", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.advance(20 * time.Minute)
	s = reopen(t, path, set)
	// The run is on its way, or over; joining it or following it, one row goes.
	compactAllNow(t, s)
	if n := s.Stats().CompactedEvents; n != 1 {
		t.Fatalf("%d events compacted", n)
	}
	last, err := s.readMeta(metaCompacted)
	if err != nil || last != clock.ms.Load() {
		t.Fatalf("last run %d, %v", last, err)
	}
}

func (s *Store) readMeta(key string) (n int64, err error) {
	err = s.readers.db.QueryRow("SELECT value FROM relay_meta WHERE key = ?", key).Scan(&n)
	return n, err
}
