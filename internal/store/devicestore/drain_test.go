package devicestore

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// drain is a pull from the relay that brings nothing.
func drain(t testing.TB, s *Store, id int64) (again, withheld int) {
	t.Helper()
	mark := must(s.BeginDrain(id))(t)
	again, withheld, err := s.EndDrain(id, relay(t, s, id).Generation, mark)
	wantErr(t, "drain", err, nil)
	verify(t, s)
	return again, withheld
}

// V5, case 8: what was acknowledged and does not come back is pushed again,
// three times; then the relay is said to withhold it.
func TestEndDrain(t *testing.T) {
	s := fresh(t)
	a, b := addRelay(t, s, "http://a"), addRelay(t, s, "http://b")
	x, y := put(t, s, "x", "1").HLC, put(t, s, "y", "1").HLC
	must(s.Seal("owner-1", 9, sealed))(t)
	if again, withheld := drain(t, s, a); again != 0 || withheld != 0 {
		t.Fatal("what was not acknowledged is missing")
	}
	for try := range MaxTries {
		ack(t, s, a, x, y)
		if try == 0 {
			back(t, s, a, y)
		}
		if again, withheld := drain(t, s, a); again != 1 || withheld != 0 {
			t.Fatalf("try %d: %d again, %d withheld", try, again, withheld)
		}
		if got := must(s.Owed(a, 0, 1<<20))(t); len(got) != 1 || got[0].ID != x || string(got[0].Envelope) != "sealed "+x+" 1" {
			t.Fatalf("try %d: %+v", try, got)
		}
		s = reopen(t, s)
	}
	ack(t, s, a, x)
	if again, withheld := drain(t, s, a); again != 0 || withheld != 1 {
		t.Fatalf("%d again, %d withheld", again, withheld)
	}
	want := Count{a, "withheld", 1, x, noon}
	if c := must(s.Refusals())(t); len(c) != 1 || c[0] != want {
		t.Errorf("%+v", c)
	}
	if ra, rb := relay(t, s, a), relay(t, s, b); ra.Owed != 0 || ra.Unseen != 0 || rb.Owed != 2 {
		t.Errorf("%+v, %+v", ra, rb)
	}
	if got := owedIDs(t, s, b); !slices.Equal(got, []string{x, y}) {
		t.Errorf("the other relay is owed %v", got)
	}
}

// Only what was acknowledged before the pull began is missing, and only in the
// generation that it began in.
func TestEndDrainMark(t *testing.T) {
	s := fresh(t)
	a := addRelay(t, s, "http://a")
	x, y := put(t, s, "x", "1").HLC, put(t, s, "y", "1").HLC
	ack(t, s, a, x)
	mark := must(s.BeginDrain(a))(t)
	ack(t, s, a, y)
	again, withheld, err := s.EndDrain(a, 1, mark)
	if again != 1 || withheld != 0 || err != nil {
		t.Fatal(again, withheld, err)
	}
	if got := owedIDs(t, s, a); !slices.Equal(got, []string{x}) {
		t.Errorf("%v", got)
	}
	ack(t, s, a, x) // a later number than the mark: of another process
	if again, _, err = s.EndDrain(a, 1, mark); again != 0 || err != nil {
		t.Error("what was pushed again meanwhile is missing", err)
	}
	mark = must(s.BeginDrain(a))(t)
	if ok, err := s.Forget(a, 1, noon); !ok || err != nil {
		t.Fatal(ok, err)
	}
	before := relay(t, s, a)
	if again, withheld, err = s.EndDrain(a, 1, mark); again != 0 || withheld != 0 || err != nil || relay(t, s, a) != before {
		t.Error(again, withheld, err)
	}
	if mark := must(s.BeginDrain(a))(t); mark != 3 {
		t.Errorf("numbers of acknowledgements begin anew: %d", mark)
	}
	_, err = s.BeginDrain(99)
	wantErr(t, "no relay", err, ErrNoRelay)
	_, _, err = s.EndDrain(99, 1, 0)
	wantErr(t, "no relay", err, ErrNoRelay)
}

// A missing event whose row is newer now is needed no more.
func TestEndDrainSuperseded(t *testing.T) {
	s := fresh(t)
	seeded := put(t, s, "seed", "1").HLC
	a := addRelay(t, s, "http://a")
	x := put(t, s, "x", "1").HLC
	ack(t, s, a, seeded, x)
	x2 := put(t, s, "x", "2").HLC
	pull(t, s, a, upsert(hlcAt(time.Second, 0, "dev-b"), "seed", "2"))
	if again, withheld := drain(t, s, a); again != 0 || withheld != 0 {
		t.Errorf("%d again, %d withheld", again, withheld)
	}
	if got := owedIDs(t, s, a); !slices.Equal(got, []string{x2}) || must(s.Stats())(t).Outbox != 1 {
		t.Errorf("%v", got)
	}
}

// More than one slice, of seeds and of events.
func TestEndDrainMany(t *testing.T) {
	s := fresh(t)
	const n = drainCount + 500
	edits := make([]Edit, n)
	for i := range edits {
		edits[i] = Edit{Key{"t", fmt.Sprint(i)}, []byte("{}")}
	}
	must(s.Write(noon, edits[:n/2]...))(t)
	a := addRelay(t, s, "http://a")
	must(s.Write(noon, edits[n/2:]...))(t)
	ack(t, s, a, owedIDs(t, s, a)...)
	if r := relay(t, s, a); r.Owed != 0 || r.Unseen != n {
		t.Fatalf("%+v", r)
	}
	if again, withheld := drain(t, s, a); again != n || withheld != 0 {
		t.Errorf("%d again, %d withheld", again, withheld)
	}
	if got := len(owedIDs(t, s, a)); got != n {
		t.Errorf("owed %d", got)
	}
}

// D35, case 7: a relay that is forgotten is owed each current row once,
// tombstones too, and what the outbox owes it; late acknowledgements of before
// count for nothing.
func TestForget(t *testing.T) {
	s := fresh(t)
	a, b := addRelay(t, s, "http://a"), addRelay(t, s, "http://b")
	x, gone := put(t, s, "x", "1").HLC, put(t, s, "gone", "1").HLC
	goneToo := put(t, s, "gone", "").HLC
	must(s.Seal("owner-1", 9, sealed))(t)
	pulled := hlcAt(time.Second, 0, "dev-b")
	pull(t, s, a, upsert(pulled, "y", "2"))
	ack(t, s, a, x, gone)
	back(t, s, a, x)
	wantErr(t, "account", s.SetAccount(a, must(s.Owner())(t), "2026-01-01T00:00:00Z", 1, 2), nil)
	if ok, err := s.Forget(a, 7, noon); ok || err != nil {
		t.Fatalf("another generation: %t, %v", ok, err)
	}
	at := noon.Add(time.Minute)
	if ok, err := s.Forget(a, 1, at); !ok || err != nil {
		t.Fatal(ok, err)
	}
	verify(t, s)
	if ok, err := s.Forget(a, 1, noon); ok || err != nil {
		t.Fatalf("by another process: %t, %v", ok, err)
	}
	r := relay(t, s, a)
	if r.Generation != 2 || r.Cursor != "" || r.Account != "" || r.Acked || r.Reseeds != 1 || !r.Reseeding ||
		!r.ReseededAt.Equal(at) || r.Owed != 4 || r.Unseen != 0 {
		t.Errorf("%+v", r)
	}
	// x is in the outbox for b's sake; gone is not current, and was written.
	want := []string{x, gone, goneToo, pulled}
	got := must(s.Owed(a, 0, 1<<20))(t)
	for i, p := range got {
		if len(got) != len(want) || p.ID != want[i] || (p.Envelope != nil) != (i < 3) {
			t.Fatalf("%+v, want %v", got, want)
		}
	}
	wantErr(t, "late", s.Acknowledge(a, 1, want), nil)
	if r := relay(t, s, a); r.Owed != 4 || r.Acked {
		t.Errorf("late acknowledgements count: %+v", r)
	}
	ack(t, s, a, want...)
	if r := relay(t, s, a); r.Owed != 0 || r.Unseen != 4 || r.Reseeding || !r.Acked {
		t.Errorf("%+v", r)
	}
	back(t, s, a, want...)
	if ra, rb := relay(t, s, a), relay(t, s, b); ra.Unseen != 0 || rb.Owed != 3 {
		t.Errorf("%+v, %+v", ra, rb)
	}
	_, err := s.Forget(99, 1, noon)
	wantErr(t, "no relay", err, ErrNoRelay)
	// Without rows there is nothing to seed.
	empty := fresh(t)
	id := addRelay(t, empty, "http://a")
	if ok, err := empty.Forget(id, 1, noon); !ok || err != nil || relay(t, empty, id).Reseeding {
		t.Errorf("%t, %v", ok, err)
	}
}

// D39: the rows, what is deferred and the clock stay; all else is of the old
// owner.
func TestRekey(t *testing.T) {
	s := fresh(t)
	wantErr(t, "no owner", s.Rekey("owner-1", ""), ErrInvalid)
	wantErr(t, "the same", s.Rekey("owner-1", "owner-1"), ErrInvalid)
	wantErr(t, "another", s.Rekey("owner-0", "owner-2"), ErrOwnerChanged)
	put(t, s, "old", "1")
	put(t, s, "old", "")
	a, b := addRelay(t, s, "http://a"), addRelay(t, s, "http://b")
	for _, id := range []int64{a, b} {
		back(t, s, id, owedIDs(t, s, id)...)
	}
	must(s.Purge(noon.Add(time.Hour), 0, func(k Key) string { return k.ID }))(t)
	x, y := put(t, s, "x", "1").HLC, put(t, s, "y", "1").HLC
	ack(t, s, a, x)
	pull(t, s, a, deferredAt(0, 2, "z", Unknown), upsert(hlcAt(time.Second, 0, "dev-b"), "p", "2"))
	wantErr(t, "closed", s.SetClosed(a, "owner-1", true), nil)
	wantErr(t, "lane", s.SetLane(a, true, Lane{noon, "410", 1}), nil)
	clock, before := must(s.state())(t).lastHLC, must(s.Stats())(t)
	wantErr(t, "rekey", s.Rekey("owner-1", "owner-2"), nil)
	verify(t, s)
	wantErr(t, "twice", s.Rekey("owner-1", "owner-3"), ErrOwnerChanged)
	wantErr(t, "closed late", s.SetClosed(a, "owner-1", true), ErrOwnerChanged)
	if relay(t, s, a).Closed {
		t.Error("the new owner is closed by what is said of the old one")
	}
	wantErr(t, "account late", s.SetAccount(a, "owner-1", "2026-01-01T00:00:00Z", 1, 2), ErrOwnerChanged)
	if account := relay(t, s, a).Account; account != "" {
		t.Errorf("the new owner has the account %q of the old one", account)
	}
	if owner := must(s.Owner())(t); owner != "owner-2" {
		t.Error(owner)
	}
	if st := must(s.Stats())(t); st != (Stats{Rows: 3, Deferred: before.Deferred, DeferredBytes: before.DeferredBytes}) || st.Deferred == 0 || must(s.state())(t).lastHLC != clock {
		t.Errorf("%+v", st)
	}
	for _, id := range []int64{a, b} {
		r := relay(t, s, id)
		if r.Generation != 2 || r.Cursor != "" || r.Closed || r.Push != (Lane{}) || r.Owed != 3 || r.Unseen != 0 {
			t.Errorf("%+v", r)
		}
		if got := owedIDs(t, s, id); !slices.Contains(got, x) || !slices.Contains(got, y) {
			t.Errorf("%v", got)
		}
		if got := must(s.OldOwners(id))(t); !slices.Equal(got, []string{"owner-1"}) {
			t.Errorf("%v", got)
		}
	}
	// The new owner's relays have nothing of what is deferred, whoever gave it.
	if n, err := s.ApplyDue(noon, 2, decoder(2)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, id := range []int64{a, b} {
		if got := owedIDs(t, s, id); len(got) != 4 || !slices.Contains(got, hlcAt(0, 0, "dev-b")) {
			t.Errorf("of the deferred: %v", got)
		}
	}
	verify(t, s)
	wantErr(t, "closed", s.OldClosed(a, "owner-1"), nil)
	if len(must(s.OldOwners(a))(t)) != 0 || len(must(s.OldOwners(b))(t)) != 1 {
		t.Error("the wrong one is closed")
	}
	for i := 2; i <= MaxOldOwners; i++ {
		wantErr(t, "rekey", s.Rekey(fmt.Sprint("owner-", i), fmt.Sprint("owner-", i+1)), nil)
	}
	wantErr(t, "too many", s.Rekey(fmt.Sprint("owner-", MaxOldOwners+1), "owner"), ErrTooMany)
	if owner := must(s.Owner())(t); owner != fmt.Sprint("owner-", MaxOldOwners+1) {
		t.Error(owner)
	}
}

// D36: a tombstone goes when it is old and every relay has it; its stream waits
// for each relay until that has compacted it.
func TestPurge(t *testing.T) {
	s := fresh(t)
	a, b := addRelay(t, s, "http://a"), addRelay(t, s, "http://b")
	stream := func(k Key) string { return "stream-" + k.ID }
	purge := func(what string, earlier time.Time, limit, want int) {
		t.Helper()
		if n, err := s.Purge(earlier, limit, stream); n != want || err != nil {
			t.Fatalf("%s: %d, %v, want %d", what, n, err, want)
		}
		verify(t, s)
	}
	all := noon.Add(time.Hour)
	live := put(t, s, "live", "1").HLC
	var hlcs []string
	for _, id := range []string{"1", "2", "3"} {
		hlcs = append(hlcs, put(t, s, id, "1").HLC)
		hlcs = append(hlcs, put(t, s, id, "").HLC)
	}
	purge("to push", all, 0, 0)
	ack(t, s, a, append(hlcs, live)...)
	ack(t, s, b, append(hlcs, live)...)
	purge("acknowledged", all, 0, 0)
	back(t, s, a, append(hlcs, live)...)
	purge("one relay has it", all, 0, 0)
	back(t, s, b, hlcs[1:]...)
	purge("too young", noon, 0, 0)
	purge("one of whose row an older event is owed", all, 1, 1)
	wantRow(t, s, "1", "")
	wantRow(t, s, "2", "none")
	back(t, s, b, hlcs[0])
	purge("all", all, 0, 2)
	wantRow(t, s, "live", "1")
	f := func(what string, id int64, want ...string) {
		t.Helper()
		verify(t, s)
		if got := must(s.Purges(id, 0))(t); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	f("queued", a, "stream-1", "stream-2", "stream-3")
	wantErr(t, "purged", s.Purged(a, []string{"stream-1", "stream-3", "stream-9"}), nil)
	f("one has answered", a, "stream-2")
	f("the other has not", b, "stream-1", "stream-2", "stream-3")
	put(t, s, "2", "again") // compacting its stream would take it away
	f("written again", a)
	f("written again", b, "stream-1", "stream-3")
	pull(t, s, b, upsert(hlcAt(time.Minute, 0, "dev-b"), "3", "again"))
	f("pulled again", b, "stream-1")
	wantErr(t, "many", s.Purged(a, make([]string, MaxListCount+1)), ErrInvalid)
	put(t, s, "2", "")
	_, err := fresh(t).Purge(all, 0, stream)
	wantErr(t, "nothing", err, nil)
}

// A full queue of streams stops purging, not the device.
func TestPurgeBound(t *testing.T) {
	s := fresh(t)
	a := addRelay(t, s, "http://a")
	hlc := put(t, s, "x", "1").HLC
	back(t, s, a, hlc, put(t, s, "x", "").HLC)
	wantErr(t, "fill", s.write(func(tx *tx) error { // as if so many were there
		tx.due = MaxPurges
		return nil
	}), nil)
	if n, err := s.Purge(noon.Add(time.Hour), 0, func(k Key) string { return k.ID }); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	wantErr(t, "room", s.write(func(tx *tx) error {
		tx.due = MaxPurges - 1
		return nil
	}), nil)
	if n, err := s.Purge(noon.Add(time.Hour), 0, func(k Key) string { return k.ID }); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	_, err := s.Purge(noon, 0, func(Key) string { return "" })
	wantErr(t, "nothing to purge", err, nil)
}
