package eventlog

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func dead(id string) DeadLetter {
	return DeadLetter{
		Tenant: "t\x00", ID: id, Original: "evt_original", OriginalSeq: 7, Subscription: "sub_1",
		Text: []byte(`{"dead":"` + id + `"}`),
	}
}

// bury stores a dead letter and waits.
func bury(l *Log, d DeadLetter) error {
	c := make(chan error, 1)
	l.DeadLetter(d, func(err error) { c <- err })
	return <-c
}

// B58: a table of their own: kept as given, newest first, over a restart; no
// event, number or retention has to do with them.
func TestDeadLetters(t *testing.T) {
	l := fresh(t, func(c *Config) { c.MaxEvents = 1; c.MaxBytes = 1 })
	var want []StoredDeadLetter
	for i := range 5 {
		d := dead(fmt.Sprint("evt_", i))
		wantErr(t, "bury", bury(l, d), nil)
		want = append([]StoredDeadLetter{{Number: int64(i + 1), StoredAt: at, DeadLetter: d}}, want...)
	}
	if st := l.Stats(); st.Log != (State{}) || st.Dead != 5 || st.DeadLetters != 5 {
		t.Errorf("%+v", st)
	}
	if n := add(t, l, ev("evt_1")); n != 1 {
		t.Errorf("number %d", n)
	}
	for _, limit := range []int{-1, 0, 1, 3, 5, 100} {
		got, err := l.DeadLetters(limit)
		part := want[:max(0, min(limit, 5))]
		if err != nil || len(got) != len(part) || len(part) > 0 && !reflect.DeepEqual(got, part) {
			t.Errorf("limit %d: %+v, %v", limit, got, err)
		}
	}
	wantErr(t, "close", l.Close(), nil)
	l = reopen(t, l.cfg.Path)
	if got, err := l.DeadLetters(9); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
	if n := l.Stats().Dead; n != 5 {
		t.Errorf("%d are kept", n)
	}
}

func TestDeadLetterInvalid(t *testing.T) {
	l := fresh(t)
	for name, change := range map[string]func(*DeadLetter){
		"tenant":       func(d *DeadLetter) { d.Tenant = strings.Repeat("t", 513) },
		"id":           func(d *DeadLetter) { d.ID = strings.Repeat("t", 129) },
		"no id":        func(d *DeadLetter) { d.ID = "" },
		"original":     func(d *DeadLetter) { d.Original = strings.Repeat("t", 129) },
		"subscription": func(d *DeadLetter) { d.Subscription = strings.Repeat("t", 513) },
		"number":       func(d *DeadLetter) { d.OriginalSeq = -1 },
		"text":         func(d *DeadLetter) { d.Text = make([]byte, MaxTextBytes+1) },
		"no text":      func(d *DeadLetter) { d.Text = nil },
	} {
		d := dead("evt_1")
		change(&d)
		wantErr(t, name, bury(l, d), ErrInvalid)
	}
	if l.Stats().Opened {
		t.Error("something was stored")
	}
}

// B58's bound, and that of the bytes; the oldest go. Small bounds stand for the
// real ones, which the last case reaches.
func TestDeadLettersBounded(t *testing.T) {
	one := dead("evt_00000")
	charge := one.charge()
	for _, c := range []struct {
		name         string
		count, bytes int64
		n, want      int
	}{
		{"count", 3, 1 << 40, 10, 3},
		{"bytes", 100, 4*charge + charge/2, 10, 4},
		{"the newest stays", 100, 1, 10, 1},
		{"the contract's", MaxDeadLetters, MaxDeadLetterBytes, MaxDeadLetters + 100, MaxDeadLetters},
	} {
		if raceEnabled && c.n > 1000 {
			continue
		}
		l := fresh(t, func(cfg *Config) { cfg.QueueCount = c.n })
		wantErr(t, "bounds", <-script(t, l, func(w *writer) error {
			if w.maxDead != MaxDeadLetters || w.maxDeadBytes != MaxDeadLetterBytes {
				t.Errorf("bounds %d, %d", w.maxDead, w.maxDeadBytes)
			}
			w.maxDead, w.maxDeadBytes = c.count, c.bytes
			return nil
		}), nil)
		errs := make(chan error, c.n)
		for i := range c.n {
			l.DeadLetter(dead(fmt.Sprintf("evt_%05d", i)), func(err error) { errs <- err })
		}
		for range c.n {
			wantErr(t, c.name, <-errs, nil)
		}
		got, err := l.DeadLetters(1 << 20)
		if err != nil || len(got) != c.want || l.Stats().Dead != int64(c.want) {
			t.Fatalf("%s: %d are kept, %v, %+v", c.name, len(got), err, l.Stats())
		}
		for i, d := range got {
			if want := fmt.Sprintf("evt_%05d", c.n-1-i); d.ID != want {
				t.Fatalf("%s: %d is %s, want %s", c.name, i, d.ID, want)
			}
		}
		err = <-script(t, l, func(w *writer) error {
			rows, err := w.db.writer.Int("SELECT count(*) FROM dead_letters")
			size, err2 := w.db.writer.Int("SELECT sum(bytes) FROM dead_letters")
			if err != nil || err2 != nil || rows != w.cur.dead || size != w.cur.deadBytes {
				t.Errorf("%s: %d rows of %d bytes, sums %+v", c.name, rows, size, w.cur)
			}
			return nil
		})
		wantErr(t, c.name, err, nil)
	}
}

// What one read returns is bounded by bytes.
func TestDeadLettersRead(t *testing.T) {
	l := fresh(t)
	for i := range 4 {
		d := dead(fmt.Sprint(i))
		d.Text = make([]byte, 6<<20)
		if i == 3 {
			d.Text = make([]byte, maxDeadRead+1)
		}
		wantErr(t, "bury", bury(l, d), nil)
		if i == 2 {
			if got, err := l.DeadLetters(10); err != nil || len(got) != 2 {
				t.Errorf("%d of 6 MiB each, %v", len(got), err)
			}
		}
	}
	if got, err := l.DeadLetters(10); err != nil || len(got) != 1 {
		t.Errorf("%d with a large first, %v", len(got), err)
	}
}
