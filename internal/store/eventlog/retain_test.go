package eventlog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// settled waits until retention has nothing left to do.
func settled(t testing.TB, l *Log) State {
	t.Helper()
	cfg := &l.cfg
	eventually(t, "retention", func() bool {
		st := l.State()
		c := counters{events: st.Events, bytes: st.Bytes, oldestAt: cfg.Now().UnixMilli()}
		return !c.passed(cfg, c.oldestAt)
	})
	return l.State()
}

// B62: each of the three bounds, reached exactly and passed. The clock moves by a
// minute with each event.
func TestRetention(t *testing.T) {
	one := sized("evt_000000", 300)
	charge := one.charge()
	for _, c := range []struct {
		name   string
		n      int
		change func(*Config)
		kept   int64
	}{
		{"defaults", 20, func(*Config) {}, 20},
		{"count, reached", 20, func(c *Config) { c.MaxEvents = 20 }, 20},
		{"count, passed by one", 21, func(c *Config) { c.MaxEvents = 20 }, 20},
		{"count of one", 9, func(c *Config) { c.MaxEvents = 1 }, 1},
		{"age, reached", 20, func(c *Config) { c.MaxAge = 19 * time.Minute }, 20},
		{"age, passed by a millisecond", 20, func(c *Config) { c.MaxAge = 19*time.Minute - time.Millisecond }, 19},
		{"age of nothing", 20, func(c *Config) { c.MaxAge = time.Millisecond }, 1},
		{"bytes, reached", 20, func(c *Config) { c.MaxBytes = 20 * charge }, 20},
		{"bytes, passed by one", 20, func(c *Config) { c.MaxBytes = 20*charge - 1 }, 19},
		{"bytes keep the newest", 20, func(c *Config) { c.MaxBytes = 1 }, 1},
		{"the first of several bounds", 20, func(c *Config) {
			c.MaxEvents, c.MaxAge, c.MaxBytes = 12, 7*time.Minute, 10*charge
		}, 8},
	} {
		var minutes atomic.Int64
		change := func(cfg *Config) {
			cfg.Now = func() time.Time { return at.Add(time.Duration(minutes.Load()) * time.Minute) }
			c.change(cfg)
		}
		l := fresh(t, change)
		for i, e := range many(0, c.n, 300) {
			minutes.Store(int64(i))
			if n := add(t, l, e); n != int64(i+1) {
				t.Fatalf("%s: number %d", c.name, n)
			}
		}
		want := State{Oldest: int64(c.n) - c.kept + 1, Newest: int64(c.n), Evicted: int64(c.n) - c.kept, Events: c.kept, Bytes: c.kept * charge}
		check := func(what string) {
			t.Helper()
			if got := l.State(); got != want || l.Oldest() != want.Oldest || l.Newest() != want.Newest || l.Evicted() != want.Evicted {
				t.Errorf("%s: %s: %+v, want %+v", c.name, what, got, want)
			}
			wantSeqs(t, c.name, l, want.Oldest, want.Newest)
			if _, _, err := l.At(want.Evicted); want.Evicted > 0 {
				wantErr(t, c.name, err, ErrEvicted)
			}
			if _, found, err := l.At(want.Oldest); !found || err != nil {
				t.Errorf("%s: the oldest: %t, %v", c.name, found, err)
			}
		}
		check("at once") // in the transactions of the appends
		if n := l.Stats().Evicted; n != uint64(want.Evicted) {
			t.Errorf("%s: %d counted as evicted", c.name, n)
		}
		wantErr(t, "close", l.Close(), nil)
		l = reopen(t, l.cfg.Path, change)
		check("after a restart")
	}
}

// Lower bounds than before: what is there is taken down in slices, between which
// appends are answered; numbers stay.
func TestLowerBounds(t *testing.T) {
	n := 20_000
	if raceEnabled {
		n = 2000
	}
	l := fresh(t, func(c *Config) { c.QueueCount = n })
	addAll(t, l, many(0, n, 0)...)
	wantErr(t, "close", l.Close(), nil)
	come := make(chan struct{})
	l = reopen(t, l.cfg.Path, func(c *Config) {
		c.MaxEvents, c.GroupCount = 10, 1
		c.Now = func() time.Time { <-come; return at } // nothing is evicted before the appends
	})
	between, answered := 0, make(chan error, 3) // only the writer counts
	for i := range cap(answered) {
		l.Append(ev(fmt.Sprint("new", i)), func(_ Result, err error) {
			if st := l.State(); st.Evicted > 0 && st.Events > 10 {
				between++
			}
			answered <- err
		})
	}
	close(come)
	for range cap(answered) {
		wantErr(t, "append", <-answered, nil)
	}
	if between < 2 { // the first may come before it all
		t.Error("no append was answered while retention went on")
	}
	st := settled(t, l)
	if st.Events != 10 || st.Evicted != st.Newest-10 || st.Newest <= int64(n) || l.Stats().Slices < 2 {
		t.Errorf("%+v, %d slices", st, l.Stats().Slices)
	}
	wantSeqs(t, "after", l, st.Oldest, st.Newest)
}

// A batch is bounded by bytes too: long texts are freed page by page.
func TestBatchOfLongTexts(t *testing.T) {
	l := fresh(t)
	addAll(t, l, many(0, 6, 1<<20)...)
	err := <-script(t, l, func(w *writer) error {
		w.l.cfg.MaxEvents = 1
		n, err := w.evictBatch(batchRows)
		if n != 2 || err != nil || w.cur.events != 4 {
			t.Errorf("a batch of %d, %v, %+v", n, err, w.cur)
		}
		return err
	})
	wantErr(t, "script", err, nil)
	if st := settled(t, l); st.Events != 1 || st.Evicted != 5 {
		t.Errorf("%+v", st)
	}
}

// B62: age passes without anybody appending.
func TestAgeAlone(t *testing.T) {
	var late atomic.Int64
	l := fresh(t, func(c *Config) {
		c.MaxAge = time.Hour
		c.Now = func() time.Time { return at.Add(time.Duration(late.Load())) }
	})
	addAll(t, l, many(0, 100, 0)...)
	late.Store(int64(time.Hour + time.Millisecond))
	l.queue.Ring() // the writer sleeps for up to a minute
	eventually(t, "retention", func() bool { return l.State() == State{Newest: 100, Evicted: 100} })
	if n := add(t, l, ev("next")); n != 101 {
		t.Errorf("number %d", n)
	}

	// By its own timer.
	timed := fresh(t, func(c *Config) { c.Now, c.MaxAge = time.Now, 30*time.Millisecond })
	add(t, timed, ev("1"))
	eventually(t, "retention", func() bool { return timed.State() == State{Newest: 1, Evicted: 1} })
}

// Retention that fails changes nothing, is counted, and is tried again without
// being in the way.
func TestRetentionTriesAgain(t *testing.T) {
	var late atomic.Int64
	l := fresh(t, func(c *Config) {
		c.MaxAge = time.Hour
		c.Now = func() time.Time { return at.Add(time.Duration(late.Load())) }
	})
	addAll(t, l, many(1, 10, 0)...)
	c := other(t, l.cfg.Path)
	defer c.Close()
	wantErr(t, "lock", c.Exec("BEGIN IMMEDIATE"), nil)
	late.Store(int64(2 * time.Hour))
	l.queue.Ring()
	eventually(t, "failure", func() bool { return l.Stats().Busy > 0 })
	if st := l.State(); st.Events != 10 || l.Stats().Slices != 0 {
		t.Errorf("%+v", st)
	}
	wantSeqs(t, "locked", l, 1, 10)
	wantErr(t, "unlock", c.Exec("ROLLBACK"), nil)
	eventually(t, "retention", func() bool { return l.State() == State{Newest: 10, Evicted: 10} })
	if n := l.Stats().Slices; n != 1 {
		t.Errorf("%d slices", n)
	}
}

// A clock that went back does not let an event look old; one that is ahead makes
// room as soon as it is passed.
func TestClockJumps(t *testing.T) {
	var offset atomic.Int64
	l := fresh(t, func(c *Config) {
		c.MaxAge = time.Hour
		c.Now = func() time.Time { return at.Add(time.Duration(offset.Load())) }
	})
	for _, s := range []struct {
		name    string
		offset  time.Duration
		evicted int64
	}{
		{"first", 0, 0},
		{"a day back", -24 * time.Hour, 0},
		{"far back", -290 * 365 * 24 * time.Hour, 0},
		{"forth again", 0, 0},
		{"the first is due, and those behind it", time.Hour + time.Millisecond, 4},
		{"a year ahead", 365 * 24 * time.Hour, 5},
		{"back again", 2 * time.Hour, 5},
		{"the one that was ahead is due", 366 * 24 * time.Hour, 7},
	} {
		offset.Store(int64(s.offset))
		add(t, l, ev(s.name))
		want := s.evicted
		eventually(t, s.name, func() bool { return l.Evicted() >= want })
		if got := l.Evicted(); got != want {
			t.Errorf("%s: evicted %d, want %d", s.name, got, want)
		}
	}
}

// Another process deletes events: the sums follow, nothing is stuck (E4).
func TestRowsDeletedOutside(t *testing.T) {
	l := fresh(t, func(c *Config) { c.MaxEvents = 10 })
	addAll(t, l, many(0, 10, 0)...)
	outside(t, l.cfg.Path, "DELETE FROM events") // and not the sums
	for i := range 12 {
		add(t, l, ev(fmt.Sprint("next", i)))
	}
	st := settled(t, l)
	if st.Newest != 22 || st.Events > 10 || st.Oldest <= st.Evicted || st.Evicted < 12 {
		t.Errorf("%+v", st)
	}
	wantSeqs(t, "after", l, st.Oldest, 22)
}

// The three bounds hold under appends from many sides, and State is one state.
func TestRetentionUnderLoad(t *testing.T) {
	const maxEvents = 50
	l := fresh(t, func(c *Config) { c.MaxEvents = maxEvents })
	rounds := 300
	if raceEnabled {
		rounds = 60
	}
	var work sync.WaitGroup
	for g := range 8 {
		work.Go(func() {
			for i := range rounds {
				if _, err := try(l, ev(fmt.Sprint(g, "-", i))); err != nil {
					t.Error(err)
					return
				}
				st := l.State()
				if st.Oldest != 0 && st.Oldest != st.Evicted+1 || st.Events != st.Newest-st.Evicted || st.Events > maxEvents {
					t.Errorf("%+v", st)
					return
				}
			}
		})
	}
	work.Wait()
	if st := settled(t, l); st.Events != maxEvents || st.Newest != int64(8*rounds) {
		t.Errorf("%+v", st)
	}
}
