package devicestore

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// D30: a write commits the row and an event for each relay; without a relay it
// is a row.
func TestWrite(t *testing.T) {
	s := fresh(t)
	alone := put(t, s, "alone", `{"n":1}`)
	if st := must(s.Stats())(t); st != (Stats{Rows: 1}) {
		t.Errorf("%+v", st)
	}
	a, b := addRelay(t, s, "http://a"), addRelay(t, s, "http://b")
	rows := must(s.Write(noon,
		Edit{Key{"t", "x"}, []byte("1")}, Edit{Key{"t", "x"}, []byte("2")}, Edit{Key{"t", "alone"}, nil}))(t)
	verify(t, s)
	for i, r := range rows {
		if r.Change != alone.Change+int64(i)+1 || i > 0 && r.HLC <= rows[i-1].HLC || r.HLC <= alone.HLC {
			t.Errorf("%d: %+v", i, r)
		}
	}
	wantRow(t, s, "x", "2")
	wantRow(t, s, "alone", "")
	if st := must(s.Stats())(t); st != (Stats{Rows: 1, Tombstones: 1, Outbox: 3, Unsealed: 3}) {
		t.Errorf("%+v", st)
	}
	want := []string{rows[0].HLC, rows[1].HLC, rows[2].HLC}
	for _, id := range []int64{a, b} { // the seed of the deleted row is not owed any more
		if got := owedIDs(t, s, id); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("relay %d is owed %v, want %v", id, got, want)
		}
	}
	p := must(s.Owed(a, 0, 1<<20))(t)
	if string(p[0].Data) != "1" || string(p[1].Data) != "2" || !p[2].Deleted || p[2].Data != nil || p[2].Key != (Key{"t", "alone"}) {
		t.Errorf("%+v", p)
	}
}

// A write is all or nothing.
func TestWriteRefused(t *testing.T) {
	s := fresh(t)
	addRelay(t, s, "http://a")
	put(t, s, "gone", "{}")
	put(t, s, "gone", "")
	before := must(s.state())(t)
	good := Edit{Key{"t", "good"}, []byte("{}")}
	many := make([]Edit, MaxEdits+1)
	large := make([]Edit, MaxEditBytes/MaxDataBytes+1)
	for i := range many {
		many[i] = good
	}
	for i := range large {
		large[i] = Edit{good.Key, make([]byte, MaxDataBytes)}
	}
	for _, w := range []struct {
		name  string
		edits []Edit
		want  error
	}{
		{"delete of nothing", []Edit{good, {Key{"t", "none"}, nil}}, ErrNoRow},
		{"delete of a tombstone", []Edit{good, {Key{"t", "gone"}, nil}}, ErrNoRow},
		{"delete twice", []Edit{good, {good.Key, nil}, {good.Key, nil}}, ErrNoRow},
		{"no table", []Edit{good, {Key{"", "x"}, []byte("{}")}}, ErrInvalid},
		{"bad table", []Edit{good, {Key{"a b", "x"}, []byte("{}")}}, ErrInvalid},
		{"long table", []Edit{good, {Key{strings.Repeat("t", 65), "x"}, []byte("{}")}}, ErrInvalid},
		{"no id", []Edit{good, {Key{"t", ""}, []byte("{}")}}, ErrInvalid},
		{"control character", []Edit{good, {Key{"t", "a\x00"}, []byte("{}")}}, ErrInvalid},
		{"bad UTF-8", []Edit{good, {Key{"t", "a\xff"}, []byte("{}")}}, ErrInvalid},
		{"long id", []Edit{good, {Key{"t", strings.Repeat("i", 257)}, []byte("{}")}}, ErrInvalid},
		{"empty row", []Edit{good, {Key{"t", "x"}, []byte{}}}, ErrInvalid},
		{"large row", []Edit{good, {Key{"t", "x"}, make([]byte, MaxDataBytes+1)}}, ErrInvalid},
		{"many", many, ErrInvalid},
		{"large", large, ErrInvalid},
	} {
		_, err := s.Write(noon, w.edits...)
		wantErr(t, w.name, err, w.want)
		if after := must(s.state())(t); after != before {
			t.Errorf("%s: %+v became %+v", w.name, before, after)
		}
	}
	if rows, err := s.Write(noon); len(rows) != 0 || err != nil {
		t.Errorf("nothing: %v, %v", rows, err)
	}
	wantRow(t, s, "good", "none")
	verify(t, s)
}

// D20, D21: a local id is above all that were seen and not below wall time, and
// a clock set back, or a restart, uses none twice.
func TestClock(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	last := ""
	step := func(what string, now time.Time) {
		t.Helper()
		rows := must(s.Write(now, Edit{Key{"t", "x"}, []byte("{}")}))(t)
		if hlc := rows[0].HLC; hlc <= last || hlc < before(now.UnixMilli()) {
			t.Fatalf("%s: %s after %s", what, hlc, last)
		}
		last = rows[0].HLC
	}
	step("first", noon)
	step("same time", noon)
	step("later", noon.Add(time.Second))
	step("an hour back", noon.Add(-time.Hour))
	s = reopen(t, s)
	step("a day back after a restart", noon.Add(-24*time.Hour))
	step("before 1970", time.UnixMilli(-1e6))
	last = hlcAt(4*time.Minute, 7, "dev-b")
	pull(t, s, id, upsert(last, "y", "{}"))
	step("after an event of another device that is ahead", noon)
	// One that is too far ahead moves nobody's clock (case 3).
	e := upsert(hlcAt(time.Hour, 0, "dev-b"), "z", "{}")
	e.Defer, e.Plain = Future, []byte("{}")
	clock := must(s.state())(t).lastHLC
	pull(t, s, id, e)
	if got := must(s.state())(t).lastHLC; got != clock {
		t.Errorf("the clock moved from %s to %s", clock, got)
	}
	verify(t, s)
}

func ids(rows []Row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%s/%s ", r.Table, r.ID)
	}
	return strings.TrimSpace(b.String())
}

// Lists go in order of keys, changes in their own; both are bounded.
func TestLists(t *testing.T) {
	s := fresh(t)
	for _, k := range []Key{{"b", "1"}, {"a", "2"}, {"a", "1"}, {"c", "9"}, {"a", "3"}} {
		must(s.Write(noon, Edit{k, []byte(`"` + k.ID + `"`)}))(t)
	}
	must(s.Write(noon, Edit{Key{"a", "2"}, nil}))(t)
	for _, w := range []struct {
		table      string
		after      Key
		limit      int
		tombstones bool
		want       string
	}{
		{"", Key{}, 0, true, "a/1 a/2 a/3 b/1 c/9"},
		{"", Key{}, 0, false, "a/1 a/3 b/1 c/9"},
		{"", Key{"a", "1"}, 2, true, "a/2 a/3"},
		{"", Key{"a", "9"}, -1, true, "b/1 c/9"},
		{"", Key{"c", "9"}, 5, true, ""},
		{"a", Key{}, 0, true, "a/1 a/2 a/3"},
		{"a", Key{"a", "1"}, 0, false, "a/3"},
		{"a", Key{"b", "1"}, 0, true, ""},
		{"b", Key{"a", "3"}, 0, true, "b/1"},
		{"none", Key{}, 0, true, ""},
	} {
		if got := ids(must(s.List(w.table, w.after, w.limit, w.tombstones))(t)); got != w.want {
			t.Errorf("%+v: got %s", w, got)
		}
	}
	all := must(s.Changes(0, 0))(t)
	if got := ids(all); got != "b/1 a/1 c/9 a/3 a/2" || !all[4].Deleted {
		t.Errorf("changes: %s", got)
	}
	if got := ids(must(s.Changes(all[1].Change, 2))(t)); got != "c/9 a/3" {
		t.Errorf("changes: %s", got)
	}
	if n := must(s.LastChange())(t); n != all[4].Change {
		t.Errorf("last change %d", n)
	}
}

// Bounds of lists: bytes end one early, but never before its first row; count
// is never above the maximum.
func TestListBounds(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	const n = MaxListBytes/MaxDataBytes + 3
	for i := range n {
		must(s.Write(noon, Edit{Key{"t", fmt.Sprintf("%03d", i)}, make([]byte, MaxDataBytes)}))(t)
	}
	if got := len(must(s.List("", Key{}, 0, true))(t)); got != n-3 {
		t.Errorf("list of %d", got)
	}
	if got := len(must(s.Changes(0, 0))(t)); got != n-3 {
		t.Errorf("changes: %d", got)
	}
	for max, want := range map[int64]int{1: 1, MaxDataBytes * 4: 2, 1 << 40: n} {
		if got := len(must(s.Owed(id, 0, max))(t)); got != want {
			t.Errorf("owed within %d bytes: %d, want %d", max, got, want)
		}
	}
	if got := len(must(s.Owed(id, 4, 1<<40))(t)); got != 4 {
		t.Errorf("owed: %d", got)
	}
	for _, limit := range []int{-1, 0, MaxListCount + 1} {
		if bounded(limit) != MaxListCount {
			t.Errorf("limit %d", limit)
		}
	}
}
