package devicestore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// V6, D32, cases 1 and 2: only a strictly greater HLC changes a row, whoever
// wrote it; a tombstone stays against an older edit that comes later.
func TestNewestWins(t *testing.T) {
	h := func(n int, device string) string { return hlcAt(time.Duration(n)*time.Second, 0, device) }
	for _, w := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"newer", []Event{upsert(h(1, "b"), "x", "1"), upsert(h(2, "b"), "x", "2")}, "2"},
		{"older", []Event{upsert(h(2, "b"), "x", "2"), upsert(h(1, "b"), "x", "1")}, "2"},
		{"same time, greater device", []Event{upsert(h(1, "c"), "x", "c"), upsert(h(1, "b"), "x", "b")}, "c"},
		{"same id", []Event{upsert(h(1, "b"), "x", "1"), upsert(h(1, "b"), "x", "other")}, "1"},
		{"delete", []Event{upsert(h(1, "b"), "x", "1"), remove(h(2, "b"), "x")}, ""},
		{"older edit after a delete", []Event{remove(h(2, "b"), "x"), upsert(h(1, "b"), "x", "1")}, ""},
		{"newer edit after a delete", []Event{remove(h(1, "b"), "x"), upsert(h(2, "b"), "x", "2")}, "2"},
		{"delete of an unknown row", []Event{remove(h(1, "b"), "x")}, ""},
	} {
		together, apart := fresh(t), fresh(t)
		a, b := addRelay(t, together, "http://a"), addRelay(t, apart, "http://a")
		pull(t, together, a, w.events...)
		for _, e := range w.events {
			pull(t, apart, b, e)
		}
		t.Log(w.name)
		wantRow(t, together, "x", w.want)
		wantRow(t, apart, "x", w.want)
	}
}

// Case 1 with the local edit: the greater one wins on this device too.
func TestPulledAgainstLocal(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	local := put(t, s, "x", "local").HLC
	pull(t, s, id, upsert(hlcAt(-time.Second, 0, "dev-b"), "x", "older"))
	wantRow(t, s, "x", "local")
	newer := hlcAt(time.Second, 0, "dev-b")
	pull(t, s, id, upsert(newer, "x", "newer"))
	wantRow(t, s, "x", "newer")
	if got := owedIDs(t, s, id); len(got) != 1 || got[0] != local {
		t.Errorf("%v: an event that was written is kept until the relay has it", got)
	}
	if r := put(t, s, "x", "again"); r.HLC <= newer {
		t.Errorf("%s is not above %s", r.HLC, newer)
	}
}

// D38, case 6: any order, repeats, any cut into pages: the same rows.
func TestAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	var events []Event
	for i := range 200 {
		e := upsert(hlcAt(time.Duration(r.IntN(1000))*time.Millisecond, uint16(i), "dev-b"), fmt.Sprint(r.IntN(20)), fmt.Sprint(i))
		if r.IntN(4) == 0 {
			e = remove(e.ID, e.Key.ID)
		}
		events = append(events, e)
	}
	want := ""
	for round := range 4 {
		s := fresh(t)
		id := addRelay(t, s, "http://a")
		list := events
		for len(list) > 0 {
			n := min(len(list), 1+r.IntN(60))
			pull(t, s, id, list[:n]...)
			list = list[n:]
		}
		got := ""
		for _, row := range must(s.List("", Key{}, 0, true))(t) {
			got += fmt.Sprintln(row.Key, row.HLC, row.Deleted, string(row.Data))
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("round %d: got\n%swant\n%s", round, got, want)
		}
		events = append(events, events[:50]...)
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	}
}

// D32, case 4: cursor and generation are compared, and the cursor is stored
// with the rows; a page that comes again changes nothing.
func TestCompareAndSet(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	e := upsert(hlcAt(0, 0, "dev-b"), "x", "1")
	page := Page{Next: "c1", Generation: 1, Events: []Event{e}, Refused: []Refusal{{"bad_tag", "e"}}}
	f := func(what string, p Page, want Applied) {
		t.Helper()
		before := must(s.state())(t)
		a, err := s.ApplyPage(id, p, noon)
		if err != nil || a != want {
			t.Fatalf("%s: %+v, %v, want %+v", what, a, err, want)
		}
		if after := must(s.state())(t); want.Stale && after != before {
			t.Fatalf("%s: %+v became %+v", what, before, after)
		}
		verify(t, s)
	}
	f("first", page, Applied{New: 1, Rows: 1})
	f("the same by another process", page, Applied{Stale: true})
	page.After, page.Next = "c1", "c2"
	f("the same again", page, Applied{Seen: 1})
	page.Generation = 2
	page.After = "c2"
	f("another generation", page, Applied{Stale: true})
	if ok, err := s.Forget(id, 1, noon); !ok || err != nil {
		t.Fatal(ok, err)
	}
	page.Generation = 1
	f("of before it was forgotten", page, Applied{Stale: true})
	page.Generation, page.After = 2, ""
	f("after it", page, Applied{Seen: 1})
	c := must(s.Refusals())(t)
	if len(c) != 1 || c[0] != (Count{id, "bad_tag", 3, "e", noon}) {
		t.Errorf("%+v", c)
	}
}

// D33: the greatest ids stay; what is below them is applied again, harmlessly.
func TestSeenBound(t *testing.T) {
	s := fresh(t, func(o *Options) { o.SeenMax = 10 })
	id := addRelay(t, s, "http://a")
	event := func(n int) Event {
		return upsert(hlcAt(time.Duration(n)*time.Second, 0, "dev-b"), fmt.Sprint(n), fmt.Sprint(n))
	}
	var page []Event
	for n := range 25 {
		page = append(page, event(n))
	}
	if a := pull(t, s, id, page...); a.New != 25 || a.Rows != 25 {
		t.Errorf("%+v", a)
	}
	if st := must(s.Stats())(t); st.Seen != 10 {
		t.Errorf("%+v", st)
	}
	if a := pull(t, s, id, page...); a.New != 15 || a.Rows != 0 || a.Seen != 10 {
		t.Errorf("again: %+v", a)
	}
	if a := pull(t, s, id, event(25), event(15)); a.New != 1 || a.Seen != 1 {
		t.Errorf("%+v", a)
	}
	if a := pull(t, s, id, event(15)); a.New != 1 || a.Rows != 0 {
		t.Errorf("trimmed: %+v", a)
	}
}

// Bad pages change nothing.
func TestPageRefused(t *testing.T) {
	s := fresh(t, func(o *Options) { o.DeferredMax, o.DeferredMaxBytes = 3, 20 })
	id := addRelay(t, s, "http://a")
	good := upsert(hlcAt(0, 0, "dev-b"), "x", "1")
	later := func(n int, plain string) Event {
		return Event{ID: hlcAt(time.Hour, uint16(n), "dev-b"), Defer: Future, Plain: []byte(plain)}
	}
	with := func(change func(*Event)) []Event {
		e := good
		change(&e)
		return []Event{good, e}
	}
	for _, w := range []struct {
		name string
		page Page
		want error
	}{
		{"id is no HLC", Page{Events: with(func(e *Event) { e.ID = "1" })}, ErrInvalid},
		{"ahead", Page{Events: with(func(e *Event) { e.ID = hlcAt(MaxAhead+time.Millisecond, 0, "b") })}, ErrInvalid},
		{"table", Page{Events: with(func(e *Event) { e.Table = "" })}, ErrInvalid},
		{"row id", Page{Events: with(func(e *Event) { e.Key.ID = "" })}, ErrInvalid},
		{"no data", Page{Events: with(func(e *Event) { e.Data = nil })}, ErrInvalid},
		{"deleted with data", Page{Events: with(func(e *Event) { e.Deleted = true })}, ErrInvalid},
		{"deferred without text", Page{Events: with(func(e *Event) { e.Defer = Unknown })}, ErrInvalid},
		{"deferred oddly", Page{Events: with(func(e *Event) { e.Defer = Unknown + 1 })}, ErrInvalid},
		{"negative schema", Page{Events: with(func(e *Event) { e.Defer, e.Plain, e.Schema = Unknown, []byte("x"), -1 })}, ErrInvalid},
		{"reason", Page{Events: []Event{good}, Refused: []Refusal{{"odd", ""}}}, ErrInvalid},
		{"cursor", Page{Events: []Event{good}, Next: strings.Repeat("c", MaxCursorBytes+1)}, ErrInvalid},
		{"events", Page{Events: make([]Event, MaxPageEvents+1)}, ErrInvalid},
		{"refusals", Page{Refused: make([]Refusal, MaxPageEvents+1)}, ErrInvalid},
		{"deferred count", Page{Events: []Event{good, later(1, "a"), later(2, "b"), later(3, "c"), later(4, "d")}}, ErrDeferredFull},
		{"deferred bytes", Page{Events: []Event{good, later(1, "0123456789"), later(2, "0123456789x")}}, ErrDeferredFull},
	} {
		before := must(s.state())(t)
		w.page.Generation = 1
		_, err := s.ApplyPage(id, w.page, noon)
		wantErr(t, w.name, err, w.want)
		if after := must(s.state())(t); after != before || relay(t, s, id).Cursor != "" {
			t.Errorf("%s: %+v became %+v", w.name, before, after)
		}
	}
	pull(t, s, id, good, later(1, "0123456789"), later(2, "0123456789"), upsert(hlcAt(MaxAhead, 0, "b"), "y", "1"))
	pull(t, s, id, later(1, "0123456789")) // was seen, and needs no room
}

// payloads decode as id, schema and row id apart with blanks.
func decoder(known int) func([]byte) (Event, error) {
	return func(plain []byte) (Event, error) {
		var e Event
		var row string
		if _, err := fmt.Sscan(string(plain), &e.ID, &e.Schema, &row); err != nil {
			return e, err
		}
		if e.Schema > known {
			e.Defer = Unknown
			return e, nil
		}
		e.Key, e.Data = Key{"t", row}, []byte(row)
		return e, nil
	}
}

func deferredAt(after time.Duration, schema int, row string, why Defer) Event {
	id := hlcAt(after, 0, "dev-b")
	return Event{ID: id, Defer: why, Schema: schema, Plain: fmt.Appendf(nil, "%s %d %s", id, schema, row)}
}

// D20, cases 3 and 11: an event from the future is applied when its time has
// come, one of a later schema after the upgrade; each once, after restarts too,
// and only then does the clock know of it.
func TestDeferred(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	if _, found, err := s.NextDue(); found || err != nil {
		t.Errorf("%t, %v", found, err)
	}
	pull(t, s, id,
		deferredAt(2*time.Hour, 1, "late", Future), deferredAt(time.Hour, 1, "soon", Future),
		deferredAt(0, 2, "upgrade", Unknown), deferredAt(3*time.Hour, 2, "both", Future),
		deferredAt(time.Second, 1, "oddity", Unknown), Event{ID: hlcAt(90*time.Minute, 0, "dev-b"), Defer: Future, Plain: []byte("broken")},
		deferredAt(4*time.Hour, 2, "ahead", Unknown))
	if at, found, err := s.NextDue(); !found || err != nil || !at.Equal(noon.Add(time.Hour)) {
		t.Errorf("%v, %t, %v", at, found, err)
	}
	steps := []struct {
		after  time.Duration
		known  int
		rows   int
		left   int64
		exists string
	}{
		{0, 1, 1, 6, "oddity"}, // its form is known to this program
		{time.Hour - time.Millisecond, 1, 0, 6, "oddity"},
		{time.Hour, 1, 1, 5, "oddity soon"},
		{time.Hour, 1, 0, 5, "oddity soon"},
		{100 * time.Minute, 1, 0, 4, "oddity soon"}, // the broken one is dropped
		{2 * time.Hour, 2, 2, 2, "late oddity soon upgrade"},
		{3 * time.Hour, 1, 0, 2, "late oddity soon upgrade"}, // of the future, and then unknown
		{3 * time.Hour, 2, 1, 1, "both late oddity soon upgrade"},
		{5 * time.Hour, 1, 0, 1, "both late oddity soon upgrade"}, // was ahead when its schema was known
		{5 * time.Hour, 2, 1, 0, "ahead both late oddity soon upgrade"},
	}
	for i, w := range steps {
		if i%2 == 1 {
			s = reopen(t, s)
		}
		clock := must(s.state())(t).lastHLC
		n, err := s.ApplyDue(noon.Add(w.after), w.known, decoder(w.known))
		verify(t, s)
		var names []string
		for _, r := range must(s.List("t", Key{}, 0, true))(t) {
			names = append(names, r.ID)
		}
		st := must(s.state())(t)
		if err != nil || n != w.rows || st.deferred != w.left || strings.Join(names, " ") != w.exists {
			t.Fatalf("step %d: %d, %v, %+v, rows %v", i, n, err, st, names)
		}
		if st.lastHLC < clock || st.lastHLC > max(clock, before(noon.Add(w.after+MaxAhead).UnixMilli()+1)) {
			t.Fatalf("step %d: clock %s", i, st.lastHLC)
		}
	}
	if c := must(s.Refusals())(t); len(c) != 1 || c[0].Relay != 0 || c[0].Reason != "bad_payload" || c[0].Count != 1 {
		t.Errorf("%+v", c)
	}
}

// What a decoder still does not know is not tried again before a greater schema
// comes, and ids must agree.
func TestDeferredTriedOnce(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	pull(t, s, id, deferredAt(0, 1, "x", Unknown), deferredAt(time.Second, 1, "y", Unknown))
	tried := 0
	decode := func(plain []byte) (Event, error) {
		tried++
		e, err := decoder(1)(plain)
		e.Defer = Unknown
		return e, err
	}
	for range 3 {
		if n, err := s.ApplyDue(noon, 1, decode); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if tried != 2 {
		t.Errorf("tried %d times", tried)
	}
	n, err := s.ApplyDue(noon, 2, func(plain []byte) (Event, error) {
		e, err := decoder(1)(plain)
		if e.Key.ID == "y" {
			e.ID = hlcAt(0, 1, "dev-c")
		}
		return e, err
	})
	if st := must(s.Stats())(t); n != 1 || err != nil || st.Deferred != 0 {
		t.Errorf("%d, %v, %+v", n, err, st)
	}
	wantRow(t, s, "y", "none")
}

// Many due ones are applied in slices, in the order of their ids.
func TestDeferredSlices(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	const n = 2*dueCount + 10
	var events []Event
	for i := range n {
		events = append(events, deferredAt(time.Hour-time.Duration(i)*time.Second, 1, fmt.Sprintf("%04d", i), Future))
	}
	pull(t, s, id, events...)
	_, err := s.ApplyDue(noon.Add(time.Hour), 1, func([]byte) (Event, error) { return Event{}, nil })
	wantErr(t, "decode of nothing", err, nil)
	if c := must(s.Refusals())(t); len(c) != 1 || c[0].Count != n {
		t.Errorf("%+v", c)
	}
	s = fresh(t)
	id = addRelay(t, s, "http://a")
	pull(t, s, id, events...)
	if rows, err := s.ApplyDue(noon.Add(time.Hour), 1, decoder(1)); rows != n || err != nil {
		t.Fatalf("%d, %v", rows, err)
	}
	rows := must(s.Changes(0, 0))(t)
	for i := range rows {
		if i > 0 && rows[i].HLC <= rows[i-1].HLC {
			t.Fatalf("%s after %s", rows[i].HLC, rows[i-1].HLC)
		}
	}
	verify(t, s)
}

// Refusals are a row a reason; what a relay says in them is cut and printable.
func TestRefusals(t *testing.T) {
	s := fresh(t)
	a, b := addRelay(t, s, "http://a"), addRelay(t, s, "http://b")
	wantErr(t, "refuse", s.Refuse(a, Refusal{"bad_tag", "one"}, Refusal{"bad_tag", "two\n\x1b[2J\xff"}, Refusal{"no_progress", ""}), nil)
	wantErr(t, "refuse", s.Refuse(b, Refusal{"bad_tag", strings.Repeat("e", 1000)}), nil)
	wantErr(t, "odd", s.Refuse(b, Refusal{"bad_page", ""}, Refusal{"odd", ""}), ErrInvalid)
	want := []Count{
		{a, "bad_tag", 2, "two??[2J?", noon},
		{a, "no_progress", 1, "", noon},
		{b, "bad_tag", 1, strings.Repeat("e", maxEventBytes), noon},
	}
	if got := must(s.Refusals())(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
}
