package eventlog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// B51, B60: what a page holds, by its bounds and its start.
func TestPage(t *testing.T) {
	l := fresh(t, func(c *Config) { c.MaxEvents = 10 })
	addAll(t, l, many(1, 14, 100)...) // 5 to 14 are kept
	settled(t, l)
	large := sized("large", 1000)
	add(t, l, large) // 15: 6 to 15
	for _, c := range []struct {
		name        string
		after       int64
		events      int
		bytes       int64
		first, last int64
		err         error
	}{
		{"all", 5, 100, 1 << 20, 6, 15, nil},
		{"from the middle", 9, 100, 1 << 20, 10, 15, nil},
		{"by count", 9, 2, 1 << 20, 10, 11, nil},
		{"no event", 9, 0, 1 << 20, 1, 0, nil},
		{"negative count", 9, -1, 1 << 20, 1, 0, nil},
		{"by bytes, reached", 9, 100, 300, 10, 12, nil},
		{"by bytes, passed by one", 9, 100, 299, 10, 11, nil},
		{"at least one", 9, 100, 0, 10, 10, nil},
		{"the first is larger", 14, 100, 10, 15, 15, nil},
		{"a later one is larger", 13, 100, 900, 14, 14, nil},
		{"at the newest", 15, 100, 1 << 20, 1, 0, nil},
		{"above the newest", 1 << 60, 100, 1 << 20, 1, 0, nil},
		{"what followed has gone", 4, 100, 1 << 20, 1, 0, ErrEvicted},
		{"from the start", 0, 100, 1 << 20, 1, 0, ErrEvicted},
		{"negative", -1 << 63, 100, 1 << 20, 1, 0, ErrEvicted},
	} {
		kept := []Stored{{Seq: -7}}
		got, err := l.Page(c.after, c.events, c.bytes, kept)
		if !errors.Is(err, c.err) || len(got) == 0 || got[0].Seq != -7 {
			t.Errorf("%s: %v, %v", c.name, got, err)
			continue
		}
		got = got[1:]
		if int64(len(got)) != c.last-c.first+1 {
			t.Errorf("%s: %d events, want %d to %d", c.name, len(got), c.first, c.last)
			continue
		}
		for i, s := range got {
			if s.Seq != c.first+int64(i) {
				t.Errorf("%s: number %d is %d", c.name, i, s.Seq)
			}
		}
	}
}

// B51: what the check of a cursor learns of a number.
func TestAt(t *testing.T) {
	l := fresh(t, func(c *Config) { c.MaxEvents = 3 })
	addAll(t, l, many(1, 5, 0)...)
	settled(t, l)
	for _, c := range []struct {
		seq   int64
		found bool
		err   error
	}{
		{-1, false, nil},
		{0, false, nil},
		{1, false, ErrEvicted},
		{2, false, ErrEvicted},
		{3, true, nil},
		{5, true, nil},
		{6, false, nil},
		{1 << 62, false, nil},
	} {
		s, found, err := l.At(c.seq)
		if found != c.found || !errors.Is(err, c.err) || found && (s.Seq != c.seq || s.ID != fmt.Sprintf("evt_%06d", c.seq)) {
			t.Errorf("At(%d): %+v, %t, %v", c.seq, s, found, err)
		}
	}
	if st := l.Stats(); st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// B61, hard case 39: an expired event is kept and has a number; who delivers
// reads when it expires.
func TestExpiredIsKept(t *testing.T) {
	l := fresh(t)
	past := ev("past")
	past.ExpiresAt = at.Add(-time.Hour)
	if n := add(t, l, past); n != 1 {
		t.Errorf("number %d", n)
	}
	page, err := l.Page(0, 10, 100, nil)
	if err != nil || len(page) != 1 || !page[0].ExpiresAt.Equal(past.ExpiresAt) {
		t.Errorf("%+v, %v", page, err)
	}
	if r, err := try(l, past); err != nil || !r.Duplicate {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// Hard case 31, B52: pages beside a running writer, and the batches that follow
// them, have no hole and nothing twice, at the pace of the slowest and of the
// fastest.
func TestPagesBesideWriter(t *testing.T) {
	total := 1000
	if raceEnabled {
		total = 300
	}
	l := fresh(t, func(c *Config) { c.QueueCount = total })
	ids := make([]string, total+1) // by number
	var mu sync.Mutex
	l.cfg.Committed = func(batch []Stored) { // before the first append
		mu.Lock()
		defer mu.Unlock()
		for _, s := range batch {
			ids[s.Seq] = s.ID
		}
	}
	var work sync.WaitGroup
	for g := range 4 {
		work.Go(func() {
			for i := range total / 4 {
				if _, err := try(l, sized(fmt.Sprint(g, "-", i), 200)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for g := range 6 {
		work.Go(func() {
			var page []Stored
			end := time.Now().Add(patience)
			for last := int64(0); last < int64(total); {
				seen := l.Newest()
				var err error
				if page, err = l.Page(last, 1+g*20, 1<<20, page[:0]); err != nil {
					t.Error(err)
					return
				}
				for _, s := range page {
					mu.Lock()
					id := ids[s.Seq] // empty: the reader was there before the callback
					mu.Unlock()
					if s.Seq != last+1 || id != "" && id != s.ID {
						t.Errorf("%d (%s, told %q) after %d", s.Seq, s.ID, id, last)
						return
					}
					last = s.Seq
				}
				if len(page) == 0 && seen > last {
					t.Errorf("the newest is %d, and nothing follows %d", seen, last)
					return
				}
				if time.Now().After(end) {
					t.Errorf("at %d after %v", last, patience)
					return
				}
			}
		})
	}
	work.Wait()
	wantSeqs(t, "after", l, 1, int64(total))
}

// B60: a reader that retention overtakes is told, and never skips in silence.
func TestOvertaken(t *testing.T) {
	l := fresh(t, func(c *Config) { c.MaxEvents = 20 })
	rounds := 400
	if raceEnabled {
		rounds = 80
	}
	addAll(t, l, many(0, 40, 0)...) // so each reader is overtaken once at least
	var done atomic.Bool
	var overtaken, read atomic.Int64
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := int64(0)
			for !done.Load() || last < l.Newest() {
				page, err := l.Page(last, 3, 1<<20, nil)
				if errors.Is(err, ErrEvicted) {
					overtaken.Add(1)
					if last >= l.evictedWithin() {
						t.Errorf("overtaken at %d without cause", last)
						return
					}
					last = max(last+1, l.Evicted())
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, s := range page {
					if s.Seq != last+1 {
						t.Errorf("%d after %d", s.Seq, last)
						return
					}
					last = s.Seq
					read.Add(1)
				}
			}
		})
	}
	for i := range rounds {
		var waiting []chan reply
		for j := range 40 {
			waiting = append(waiting, begun(l, ev(fmt.Sprint(i, "-", j))))
		}
		for _, c := range waiting {
			wantErr(t, "append", (<-c).err, nil)
		}
	}
	done.Store(true)
	readers.Wait()
	if overtaken.Load() < 4 || read.Load() < 4 {
		t.Errorf("overtaken %d times, %d events read", overtaken.Load(), read.Load())
	}
}

// evictedWithin is the evicted number of the database itself, which State follows.
func (l *Log) evictedWithin() (n int64) {
	_ = l.opened.Load().read(func(c *sqldb.Conn) (err error) {
		n, err = c.Int(selectEvicted)
		return err
	})
	return n
}

// More reads than connections wait for one; Close waits for those under way.
func TestReadsWaitForConnection(t *testing.T) {
	l := fresh(t)
	add(t, l, ev("1"))
	d := l.opened.Load()
	inside, free := make(chan struct{}), make(chan struct{})
	var reads sync.WaitGroup
	for range readerCount {
		reads.Go(func() {
			err := d.read(func(*sqldb.Conn) error {
				inside <- struct{}{}
				<-free
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range readerCount {
		<-inside
	}
	one := make(chan error, 1)
	go func() {
		_, err := l.Page(0, 1, 1, nil)
		one <- err
	}()
	add(t, l, ev("2")) // the writer waits for no reader
	if len(one) != 0 {
		t.Error("a fifth read did not wait")
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	wantErr(t, "the one that waited", <-one, ErrStopped)
	if len(closed) != 0 {
		t.Error("closed under a read")
	}
	close(free)
	wantErr(t, "close", <-closed, nil)
	reads.Wait()
}

// The write-ahead log starts over only in a moment without a reader of its pages.
// Pages that are read one after the other leave none, so the writer has to make
// one.
func TestWALIsBoundedUnderReads(t *testing.T) {
	if raceEnabled {
		t.Skip("too slow with the race detector")
	}
	l := fresh(t, func(c *Config) { c.MaxEvents = 1000 })
	addAll(t, l, many(0, 100, 10_000)...)
	var stop atomic.Bool
	var pages atomic.Int64
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for !stop.Load() {
				if _, err := l.Page(l.Newest()-90, 90, 1<<20, nil); err != nil && !errors.Is(err, ErrEvicted) {
					t.Error(err)
					return
				}
				pages.Add(1)
			}
		})
	}
	var most int64
	for i := range 150 {
		addAll(t, l, many(1000+i*100, 100, 10_000)...)
		most = max(most, l.Stats().WALBytes)
	}
	stop.Store(true)
	readers.Wait()
	if most > walKeepBytes || pages.Load() == 0 || l.Stats().Checkpoints == 0 {
		t.Errorf("%d bytes of log, while %d pages were read; %+v", most, pages.Load(), l.Stats())
	}
}
