package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// B51: numbers are dense and go on over restarts, also when retention has left
// nothing.
func TestNumbersOverRestarts(t *testing.T) {
	now := at
	clock := func(c *Config) { c.Now = func() time.Time { return now } }
	l := fresh(t, clock)
	want := int64(0)
	for round := range 4 {
		for i := range 5 {
			want++
			if n := add(t, l, ev(fmt.Sprint("evt_", round, "_", i))); n != want {
				t.Fatalf("number %d, want %d", n, want)
			}
		}
		if st := l.State(); st.Newest != want {
			t.Fatalf("%+v, want newest %d", st, want)
		}
		wantErr(t, "close", l.Close(), nil)
		if round%2 == 1 {
			now = now.Add(DefaultMaxAge + time.Hour) // all are evicted when it is opened
		}
		l = reopen(t, l.cfg.Path, clock)
		if round%2 == 1 {
			eventually(t, "eviction", func() bool { return l.State() == State{Newest: want, Evicted: want} })
		}
	}
}

// What is read is what was appended, any bytes in it; times in milliseconds.
func TestKeptAsGiven(t *testing.T) {
	l := fresh(t)
	expires := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("", 3600))
	var want []Stored
	for i, e := range []Event{
		{Tenant: "t", Source: "s", ID: "i", Type: "a.b", Text: []byte("x"), Mode: 2, ExpiresAt: expires},
		{Source: "a\x00b", ID: "i", Type: "a.b", Text: []byte("x\x00y")},
		{Source: "a", ID: "i", Type: "a.b", Text: []byte{0}},
		{Source: "a\x00", ID: "i", Type: "a.b", Text: []byte{0xff, 0xfe}, Mode: 255},
		{
			Tenant: strings.Repeat("t", 512), Source: strings.Repeat("\xff", 512), ID: strings.Repeat("i", 128),
			Type: strings.Repeat("a", 128), Text: bytes.Repeat([]byte("ä"), 1<<19), ExpiresAt: time.Unix(-1, 5e6),
		},
		{Source: "12", ID: "1e3", Type: "a.b", Text: []byte("5")}, // no number becomes of it
	} {
		e.Digest = [32]byte{byte(i), 31: 7}
		add(t, l, e)
		if !e.ExpiresAt.IsZero() {
			e.ExpiresAt = e.ExpiresAt.Truncate(time.Millisecond).UTC()
		}
		want = append(want, Stored{Seq: int64(i + 1), StoredAt: at, Event: e})
	}
	got, err := l.Page(0, 100, 1<<30, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n%.1000v\nwant\n%.1000v", err, got, want)
	}
	for _, w := range want {
		if s, found, err := l.At(w.Seq); err != nil || !found || !reflect.DeepEqual(s, w) {
			t.Errorf("At(%d): %t, %v", w.Seq, found, err)
		}
	}
}

func TestInvalid(t *testing.T) {
	l := fresh(t)
	good := Event{Source: "s", ID: "i", Type: "a.b", Text: []byte("x")}
	for name, change := range map[string]func(*Event){
		"tenant":    func(e *Event) { e.Tenant = strings.Repeat("t", 513) },
		"source":    func(e *Event) { e.Source = strings.Repeat("t", 513) },
		"no source": func(e *Event) { e.Source = "" },
		"id":        func(e *Event) { e.ID = strings.Repeat("t", 129) },
		"no id":     func(e *Event) { e.ID = "" },
		"type":      func(e *Event) { e.Type = strings.Repeat("t", 129) },
		"no type":   func(e *Event) { e.Type = "" },
		"text":      func(e *Event) { e.Text = make([]byte, MaxTextBytes+1) },
		"no text":   func(e *Event) { e.Text = nil },
	} {
		e := good
		change(&e)
		if r, err := try(l, e); !errors.Is(err, ErrInvalid) || r != (Result{}) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if l.Stats().Opened {
		t.Error("something was stored")
	}
	add(t, l, good)
	// No number is left.
	wantErr(t, "close", l.Close(), nil)
	outside(t, l.cfg.Path, fmt.Sprint("UPDATE sums SET last_seq = ", MaxSeq-1))
	l = reopen(t, l.cfg.Path)
	if n := add(t, l, ev("last")); n != MaxSeq {
		t.Errorf("number %d", n)
	}
	if _, err := try(l, ev("one more")); err == nil || l.Newest() != MaxSeq {
		t.Errorf("%v, newest %d", err, l.Newest())
	}
}

// B56, hard cases 34 and 35: what a second event of a name gets, in a later
// group, in the same, and after a restart.
func TestDuplicates(t *testing.T) {
	first := Event{Tenant: "t", Source: "s", ID: "i", Type: "a.b", Text: []byte("first"), Digest: [32]byte{1}}
	for _, c := range []struct {
		name   string
		change func(*Event)
		want   reply
	}{
		{"same bytes", func(*Event) {}, reply{Result: Result{Seq: 1, Duplicate: true}}},
		{"another envelope, same digest", func(e *Event) { e.Text = []byte("other"); e.Mode = 1 }, reply{Result: Result{Seq: 1, Duplicate: true}}},
		{"another digest", func(e *Event) { e.Digest[31] = 1 }, reply{Result{Seq: 1}, ErrDuplicateID}},
		{"another tenant", func(e *Event) { e.Tenant = "u" }, reply{Result: Result{Seq: 2}}},
		{"no tenant", func(e *Event) { e.Tenant = "" }, reply{Result: Result{Seq: 2}}},
		{"another source", func(e *Event) { e.Source = "S" }, reply{Result: Result{Seq: 2}}},
		{"another id", func(e *Event) { e.ID = "i " }, reply{Result: Result{Seq: 2}}},
		{"names that join alike", func(e *Event) { e.Tenant, e.Source = "ts", ""+"s" }, reply{Result: Result{Seq: 2}}},
	} {
		second := first
		second.Text = bytes.Clone(first.Text)
		c.change(&second)
		check := func(what string, l *Log, got reply) {
			t.Helper()
			if got.Result != c.want.Result || !errors.Is(got.err, c.want.err) {
				t.Errorf("%s: %s: %+v, want %+v", c.name, what, got, c.want)
			}
			st, isNew := l.Stats(), c.want.Seq == 2
			kept := int64(1)
			if isNew {
				kept = 2
			}
			if st.Log.Events != kept || st.Log.Newest != kept || (st.Duplicates == 1) != c.want.Duplicate || (st.Conflicts == 1) != (c.want.err != nil) {
				t.Errorf("%s: %s: %+v", c.name, what, st)
			}
		}
		l := fresh(t)
		add(t, l, first)
		check("later", l, <-begun(l, second))

		l = fresh(t)
		release := hold(t, l)
		a, b := begun(l, first), begun(l, second)
		release()
		if r := <-a; r.err != nil || r.Seq != 1 || r.Duplicate {
			t.Errorf("%s: %+v", c.name, r)
		}
		check("in a group", l, <-b)

		l = fresh(t)
		add(t, l, first)
		wantErr(t, "close", l.Close(), nil)
		l = reopen(t, l.cfg.Path)
		check("after a restart", l, <-begun(l, second))
	}
}

// B56 holds as long as the event is in the log: after that it is a new one.
func TestDuplicateAfterEviction(t *testing.T) {
	l := fresh(t, func(c *Config) { c.MaxEvents = 2 })
	addAll(t, l, ev("a"), ev("b"), ev("c"))
	eventually(t, "eviction", func() bool { return l.Evicted() == 1 })
	if r, err := try(l, ev("b")); err != nil || r != (Result{2, true}) {
		t.Errorf("kept: %+v, %v", r, err)
	}
	if r, err := try(l, ev("a")); err != nil || r != (Result{4, false}) {
		t.Errorf("evicted: %+v, %v", r, err)
	}
}

// B55: the answers of a group follow its commit, and the batch goes before them;
// nobody sees an event that is not committed.
func TestGroupCommit(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(s string) {
		mu.Lock()
		order = append(order, s)
		mu.Unlock()
	}
	var l *Log
	l = fresh(t, func(c *Config) {
		c.Committed = func(batch []Stored) {
			for _, s := range batch {
				note(fmt.Sprint("committed ", s.Seq, " ", s.ID))
			}
			last := batch[len(batch)-1].Seq
			if page, err := l.Page(last-1, 1, 1, nil); err != nil || len(page) != 1 {
				t.Errorf("a batch before its commit: %v, %v", page, err)
			}
			if l.Newest() != last {
				t.Errorf("newest is %d in the callback for %d", l.Newest(), last)
			}
		}
	})
	add(t, l, ev("first"))
	release := hold(t, l)
	var waiting sync.WaitGroup
	for i := range 3 {
		waiting.Add(1)
		l.Append(ev(fmt.Sprint("e", i)), func(r Result, err error) {
			note(fmt.Sprint("answer ", r.Seq, " ", err))
			waiting.Done()
		})
	}
	// The group's last request looks at what is there before the commit.
	looked := script(t, l, func(w *writer) error {
		if w.cur.last != 4 || len(w.fresh) != 3 {
			t.Errorf("the group is at %d with %d events", w.cur.last, len(w.fresh))
		}
		if got := seqs(t, l, 0); len(got) != 1 || l.Newest() != 1 {
			t.Errorf("before the commit there are %v, newest %d", got, l.Newest())
		}
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 1 {
			t.Errorf("before the commit: %q", order)
		}
		return nil
	})
	release()
	wantErr(t, "look", <-looked, nil)
	waiting.Wait()
	want := []string{
		"committed 1 first", "committed 2 e0", "committed 3 e1", "committed 4 e2",
		"answer 2 <nil>", "answer 3 <nil>", "answer 4 <nil>",
	}
	if !reflect.DeepEqual(order, want) {
		t.Errorf("%q\nwant %q", order, want)
	}
	if st := l.Stats(); st.Groups != 2 || st.MaxGroup != 5 || st.Requests != 6 || st.Events != 4 || st.MaxCommit <= 0 || st.CommitTime < st.MaxCommit {
		t.Errorf("%+v", st)
	}
	wantSeqs(t, "after", l, 1, 4)
}

// GroupCount bounds a commit.
func TestGroupCount(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		l := fresh(t, func(c *Config) { c.GroupCount = n })
		addAll(t, l, many(0, 20, 0)...)
		if st := l.Stats(); st.MaxGroup > n || st.Requests != 20 || n == 1 && st.Groups != 20 {
			t.Errorf("GroupCount %d: %+v", n, st)
		}
	}
}

// In one group a bad request hurts no other, whatever it does to the
// transaction, and the batch callback sees each event once (E1, E3).
func TestBadRequestInGroup(t *testing.T) {
	own := errors.New("own")
	for _, c := range []struct {
		name string
		do   func(w *writer, first bool) error
	}{
		{"none", func(*writer, bool) error { return nil }},
		{"error", func(*writer, bool) error { return own }},
		{"statement", func(w *writer, _ bool) error { return w.db.writer.Exec("INSERT INTO events (seq) VALUES (1)") }},
		{"transaction gone", func(w *writer, _ bool) error {
			if err := w.db.writer.Exec("ROLLBACK"); err != nil {
				return err
			}
			return w.db.writer.Exec("ROLLBACK")
		}},
		{"commit", func(w *writer, first bool) error {
			if !first {
				return own
			}
			return w.db.writer.Exec("CREATE TEMP TRIGGER no BEFORE UPDATE ON sums BEGIN SELECT RAISE(ABORT, 'no'); END")
		}},
	} {
		var told []int64 // only the writer appends; answers order the read
		l := fresh(t, func(cfg *Config) {
			cfg.Committed = func(batch []Stored) {
				for _, s := range batch {
					told = append(told, s.Seq)
				}
			}
		})
		add(t, l, ev("0"))
		other := ev("0")
		other.Digest[0]++
		release := hold(t, l)
		calls := 0
		waiting := []chan reply{begun(l, ev("1")), begun(l, other)}
		bad := script(t, l, func(w *writer) error { calls++; return c.do(w, calls == 1) })
		waiting = append(waiting, begun(l, ev("2")), begun(l, ev("0")))
		release()
		for i, want := range []reply{{Result: Result{Seq: 2}}, {Result{Seq: 1}, ErrDuplicateID}, {Result: Result{Seq: 3}}, {Result: Result{1, true}}} {
			got := <-waiting[i]
			if got.Result != want.Result || !errors.Is(got.err, want.err) {
				t.Errorf("%s: request %d: %+v, want %+v", c.name, i, got, want)
			}
			if len(waiting[i]) != 0 {
				t.Errorf("%s: request %d was answered twice", c.name, i)
			}
		}
		if err := <-bad; (err == nil) != (c.name == "none") {
			t.Errorf("%s: %v", c.name, err)
		}
		add(t, l, ev("3"))
		if fmt.Sprint(told) != "[1 2 3 4]" {
			t.Errorf("%s: told of %v", c.name, told)
		}
		wantSeqs(t, c.name, l, 1, 4)
		if st := l.State(); st.Events != 4 {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
}

// The queue is bounded by count and by bytes; a stop answers what waits, after
// the group under way.
func TestQueueBoundsAndStop(t *testing.T) {
	charge := ev("1")
	l := fresh(t, func(c *Config) {
		c.GroupCount = 1
		c.QueueCount = 3
		c.QueueBytes = 2*charge.charge() + 1
	})
	release := hold(t, l)
	var waiting []chan reply
	for i := range 5 {
		waiting = append(waiting, begun(l, ev(fmt.Sprint(i)))) // the script counts too, with no bytes
	}
	if st := l.Stats(); st.QueueCount != 3 || st.QueueBytes != 2*charge.charge() || st.Busy != 3 {
		t.Fatalf("%+v", st)
	}
	for i := 2; i < 5; i++ {
		if len(waiting[i]) != 1 {
			t.Fatalf("append %d was not refused at once", i)
		}
	}
	release()
	for i, want := range []error{nil, nil, ErrBusy, ErrBusy, ErrBusy} {
		wantErr(t, fmt.Sprint("append ", i), (<-waiting[i]).err, want)
	}
	eventually(t, "queue", func() bool { st := l.Stats(); return st.QueueCount == 0 && st.QueueBytes == 0 })
	add(t, l, sized("large", 5000)) // larger than the bound, but alone
	release = hold(t, l)
	one := begun(l, ev("5"))
	if r := <-begun(l, sized("large too", 5000)); !errors.Is(r.err, ErrBusy) {
		t.Fatalf("beside others: %+v", r)
	}
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	eventually(t, "stop", func() bool { _, stopped := l.queue.State(); return stopped })
	release()
	wantErr(t, "waiting", (<-one).err, ErrStopped)
	wantErr(t, "close", <-closed, nil)
	_, err := try(l, ev("6"))
	wantErr(t, "after the stop", err, ErrStopped)
	if st := l.Stats(); st.QueueCount != 0 || st.QueueBytes != 0 {
		t.Errorf("%+v", st)
	}
}

// What was taken away under a running relay takes nothing more: it would be gone
// with the process. Back at its place, all goes on.
func TestTakenAway(t *testing.T) {
	for _, file := range []string{"", "-wal"} {
		for _, replace := range []bool{false, true} {
			l := fresh(t)
			add(t, l, ev("1"))
			path := l.cfg.Path + file
			wantErr(t, "rename", os.Rename(path, path+".away"), nil)
			if replace {
				wantErr(t, "replace", os.WriteFile(path, nil, 0o600), nil)
			}
			_, err := try(l, ev("2"))
			wantErr(t, "append", err, ErrTakenAway)
			wantErr(t, "dead letter", bury(l, dead("2")), ErrTakenAway)
			wantErr(t, "ping", l.Ping(), ErrTakenAway)
			if n := l.Stats().Failed; n != 2 {
				t.Errorf("%d failures counted", n)
			}
			wantErr(t, "rename", os.Rename(path+".away", path), nil)
			if n := add(t, l, ev("2")); n != 2 {
				t.Errorf("number %d", n)
			}
			wantErr(t, "ping", l.Ping(), nil)
		}
	}
}

// An append that comes while others are refused is not refused with them: what
// was wrong may have gone.
func TestRefusedWithoutLater(t *testing.T) {
	l := fresh(t)
	add(t, l, ev("1"))
	path := l.cfg.Path
	wantErr(t, "rename", os.Rename(path, path+".away"), nil)
	later := make(chan chan reply, 1)
	l.Append(ev("2"), func(_ Result, err error) {
		if back := os.Rename(path+".away", path); !errors.Is(err, ErrTakenAway) || back != nil {
			t.Errorf("append: %v, rename: %v", err, back)
		}
		later <- begun(l, ev("2"))
	})
	if r := <-<-later; r.err != nil || r.Seq != 2 {
		t.Errorf("%+v", r)
	}
}
