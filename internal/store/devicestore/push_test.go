package devicestore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func sealed(r Row) ([]byte, error) { return []byte("sealed " + r.HLC + " " + string(r.Data)), nil }

// D30: sealing takes the oldest first, stores what is not stored yet, and is
// repeated after an error with the same ids.
func TestSeal(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	var hlcs []string
	for i := range 5 {
		hlcs = append(hlcs, put(t, s, fmt.Sprint(i), "{}").HLC)
	}
	errOwn := errors.New("own")
	var got []string
	n, err := s.Seal("owner-1", 100, func(r Row) ([]byte, error) {
		if got = append(got, r.HLC); len(got) == 3 {
			return nil, errOwn
		}
		return sealed(r)
	})
	wantErr(t, "seal", err, errOwn)
	if n != 2 || !slices.Equal(got, hlcs[:3]) {
		t.Fatalf("%d, %v", n, got)
	}
	verify(t, s)
	if n, err := s.Seal("owner-1", 1, sealed); n != 1 || err != nil {
		t.Fatalf("limit: %d, %v", n, err)
	}
	other := reopen(t, s)
	n, err = s.Seal("owner-1", 100, func(r Row) ([]byte, error) {
		if r.HLC == hlcs[3] { // another process is faster
			if n, err := other.Seal("owner-1", 1, sealed); n != 1 || err != nil {
				t.Errorf("other: %d, %v", n, err)
			}
		}
		return []byte("late " + r.HLC), nil
	})
	if n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	verify(t, s)
	for i, p := range must(s.Owed(id, 0, 1<<20))(t) {
		want := "sealed " + hlcs[i] + " {}"
		if i == 4 {
			want = "late " + hlcs[i]
		}
		if p.ID != hlcs[i] || string(p.Envelope) != want || p.Data != nil || p.Key != (Key{"t", fmt.Sprint(i)}) {
			t.Errorf("%d: %+v, envelope %s", i, p, p.Envelope)
		}
	}
	_, err = s.Seal("owner-1", 1, func(Row) ([]byte, error) { t.Error("nothing is left"); return nil, nil })
	wantErr(t, "seal nothing", err, nil)
	put(t, s, "x", "{}")
	_, err = s.Seal("owner-1", 1, func(Row) ([]byte, error) { return nil, nil })
	wantErr(t, "empty envelope", err, ErrInvalid)
}

// What was sealed for an owner who was replaced is not stored: it would be
// pushed to the new one. Who knows the new one may seal, whenever it was opened.
func TestSealForOldOwner(t *testing.T) {
	s := fresh(t)
	addRelay(t, s, "http://a")
	old := reopen(t, s)
	wantErr(t, "rekey", s.Rekey("owner-1", "owner-2"), nil)
	put(t, s, "x", "{}")
	_, err := old.Seal("owner-1", 1, sealed)
	wantErr(t, "old", err, ErrOwnerChanged)
	if n, err := old.Seal("owner-2", 1, sealed); n != 1 || err != nil {
		t.Errorf("new: %d, %v", n, err)
	}
}

// D31, V5: an event is kept until each relay has given it back; a relay that
// acknowledged it does not get it again.
func TestDelivery(t *testing.T) {
	s := fresh(t)
	a, b := addRelay(t, s, "http://a"), addRelay(t, s, "http://b")
	x, y := put(t, s, "x", "1").HLC, put(t, s, "y", "2").HLC
	must(s.Seal("owner-1", 9, sealed))(t)
	steps := []struct {
		name   string
		do     func()
		a, b   string // owed
		unseen string
		outbox int64
	}{
		{"written", func() {}, x + y, x + y, "0 0", 2},
		{"a acknowledges one", func() { ack(t, s, a, x) }, y, x + y, "1 0", 2},
		{"again, and what it is not owed", func() { ack(t, s, a, x, hlcAt(0, 9, "dev-x")) }, y, x + y, "1 0", 2},
		{"a acknowledges the other", func() { ack(t, s, a, y) }, "", x + y, "2 0", 2},
		{"a gives both back", func() { back(t, s, a, x, y) }, "", x + y, "0 0", 2},
		{"b acknowledges", func() { ack(t, s, b, x, y) }, "", "", "0 2", 2},
		{"b gives one back, which was seen", func() { back(t, s, b, x) }, "", "", "0 1", 1},
		{"b gives the other back", func() { back(t, s, b, y) }, "", "", "0 0", 0},
	}
	for _, w := range steps {
		w.do()
		verify(t, s)
		join := func(id int64) (all string) {
			for _, hlc := range owedIDs(t, s, id) {
				all += hlc
			}
			return all
		}
		ra, rb := relay(t, s, a), relay(t, s, b)
		if join(a) != w.a || join(b) != w.b || fmt.Sprint(ra.Unseen, rb.Unseen) != w.unseen ||
			must(s.Stats())(t).Outbox != w.outbox {
			t.Fatalf("%s: %+v %+v %+v", w.name, ra, rb, must(s.Stats())(t))
		}
	}
	if r := relay(t, s, a); !r.Acked {
		t.Errorf("%+v", r)
	}
}

// A relay gives an event back that it never acknowledged: it has it.
func TestGivenBackUnacknowledged(t *testing.T) {
	s := fresh(t)
	a := addRelay(t, s, "http://a")
	x := put(t, s, "x", "1").HLC
	back(t, s, a, x)
	if r, st := relay(t, s, a), must(s.Stats())(t); r.Owed != 0 || st.Outbox != 0 || st.Unsealed != 0 {
		t.Errorf("%+v, %+v", r, st)
	}
}

// D31: a new relay is owed each current row once, tombstones too, from the
// outbox what is there, and nothing that was replaced since.
func TestAddRelay(t *testing.T) {
	s := fresh(t)
	x := put(t, s, "x", "1").HLC
	y := put(t, s, "y", "1").HLC
	put(t, s, "gone", "1")
	gone := put(t, s, "gone", "").HLC
	a := addRelay(t, s, "http://a")
	out := put(t, s, "out", "o").HLC
	must(s.Seal("owner-1", 9, sealed))(t)
	b := addRelay(t, s, "http://b")
	verify(t, s)
	for _, id := range []int64{a, b} {
		got := must(s.Owed(id, 0, 1<<20))(t)
		if len(got) != 4 || got[0].ID != x || string(got[0].Data) != "1" || got[0].Envelope != nil ||
			got[2].ID != gone || !got[2].Deleted || got[3].ID != out || string(got[3].Envelope) != "sealed "+out+" o" {
			t.Errorf("relay %d: %+v", id, got)
		}
	}
	y2 := put(t, s, "y", "2").HLC
	for _, id := range []int64{a, b} {
		if got := owedIDs(t, s, id); slices.Contains(got, y) || !slices.Contains(got, y2) || len(got) != 4 {
			t.Errorf("relay %d is owed %v", id, got)
		}
	}
	verify(t, s)
}

// What a new or wiped relay is owed of a row that another relay then has a
// newer event of: that event, since nobody else may bring it there.
func TestSeedFollowsItsRow(t *testing.T) {
	s := fresh(t)
	put(t, s, "x", "1")
	a, b, c := addRelay(t, s, "http://a"), addRelay(t, s, "http://b"), addRelay(t, s, "http://c")
	ack(t, s, c, owedIDs(t, s, c)...)
	newer := hlcAt(time.Second, 0, "dev-b")
	pull(t, s, a, upsert(newer, "x", "2"))
	for id, want := range map[int64]string{a: "", b: newer, c: newer} {
		got := must(s.Owed(id, 0, 1<<20))(t)
		if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || got[0].ID != want || string(got[0].Data) != "2") {
			t.Errorf("relay %d is owed %+v, want %s", id, got, want)
		}
	}
	pull(t, s, b, upsert(newer, "x", "2"))
	if r := relay(t, s, b); r.Owed != 0 {
		t.Errorf("%+v", r)
	}
}

// Relays are told by their address and bounded; a removed one leaves nothing.
func TestRelays(t *testing.T) {
	s := fresh(t)
	put(t, s, "x", "1")
	_, err := s.AddRelay("")
	wantErr(t, "no address", err, ErrInvalid)
	for i := range MaxRelays {
		addRelay(t, s, fmt.Sprint("http://", i))
	}
	_, err = s.AddRelay("http://3")
	wantErr(t, "twice", err, ErrRelayExists)
	_, err = s.AddRelay("http://more")
	wantErr(t, "too many", err, ErrTooMany)
	wantErr(t, "remove none", s.RemoveRelay("http://more"), ErrNoRelay)
	own := put(t, s, "y", "1").HLC
	wantErr(t, "blob", s.OweBlob("blob"), nil)
	list := must(s.Relays())(t)
	for i, r := range list {
		if r.URL != fmt.Sprint("http://", i) || r.Owed != 2 || r.Blobs != 1 || r.Generation != 1 {
			t.Errorf("%+v", r)
		}
	}
	wantErr(t, "refuse", s.Refuse(list[0].ID, Refusal{"bad_page", ""}), nil)
	for i, r := range list {
		if st := must(s.Stats())(t); st.Outbox != 1 {
			t.Fatalf("before %d: %+v", i, st)
		}
		wantErr(t, "remove", s.RemoveRelay(r.URL), nil)
		verify(t, s)
		_, err := s.Relay(r.ID)
		wantErr(t, "relay", err, ErrNoRelay)
		_, err = s.Owed(r.ID, 1, 1)
		wantErr(t, "owed", err, ErrNoRelay)
		_, err = s.ApplyPage(r.ID, Page{Generation: 1, Next: "x"}, noon)
		wantErr(t, "page", err, ErrNoRelay)
		wantErr(t, "acknowledge", s.Acknowledge(r.ID, 1, []string{own}), ErrNoRelay)
		wantErr(t, "lane", s.SetLane(r.ID, true, Lane{}), ErrNoRelay)
		wantErr(t, "refuse", s.Refuse(r.ID), ErrNoRelay)
		wantErr(t, "delivered", s.BlobDelivered(r.ID, "blob"), ErrNoRelay)
	}
	if st := must(s.Stats())(t); st != (Stats{Rows: 2}) || len(must(s.Refusals())(t)) != 0 {
		t.Errorf("%+v", st)
	}
	if again := must(s.AddRelay("http://0"))(t); again.ID <= list[MaxRelays-1].ID {
		t.Errorf("id %d is used again", again.ID)
	}
}

// What is stored of a relay is there after a restart.
func TestRelaySettings(t *testing.T) {
	s := fresh(t)
	id := addRelay(t, s, "http://a")
	owner := must(s.Owner())(t)
	push := Lane{noon.Add(5 * time.Minute), "413 quota_exceeded", 3}
	pullLane := Lane{noon.Add(time.Second), "connection refused", 1}
	wantErr(t, "set", errors.Join(s.SetLane(id, true, push), s.SetLane(id, false, pullLane),
		s.SetAccount(id, owner, "2026-01-01T00:00:00Z", 7, 9), s.SetClosed(id, owner, true), s.SetSynced(id, noon)), nil)
	r := relay(t, reopen(t, s), id)
	if r.Push != push || r.Pull != pullLane || r.Account != "2026-01-01T00:00:00Z" || r.UsedBytes != 7 ||
		r.QuotaBytes != 9 || !r.Closed || !r.SyncedAt.Equal(noon) || !r.ReseededAt.IsZero() {
		t.Errorf("%+v", r)
	}
	wantErr(t, "free", s.SetLane(id, true, Lane{}), nil)
	if r := relay(t, s, id); r.Push != (Lane{}) || r.Pull != pullLane {
		t.Errorf("%+v", r)
	}
	long := string(make([]byte, maxReasonBytes+1))
	wantErr(t, "long reason", s.SetLane(id, true, Lane{Reason: long}), ErrInvalid)
	wantErr(t, "long account", s.SetAccount(id, owner, long, 0, 0), ErrInvalid)
	wantErr(t, "negative", s.SetAccount(id, owner, "", -1, 0), ErrInvalid)
	wantErr(t, "many ids", s.Acknowledge(id, 1, make([]string, MaxPageEvents+1)), ErrInvalid)
}

// Blobs are owed to each relay until it has them, and again when it is new or
// forgotten.
func TestBlobs(t *testing.T) {
	s := fresh(t)
	a := addRelay(t, s, "http://a")
	wantErr(t, "no id", s.OweBlob(""), ErrInvalid)
	for _, id := range []string{"one", "two", "gone"} {
		must(s.Write(noon, Edit{Key{BlobTable, id}, []byte("{}")}))(t)
		wantErr(t, "owe", errors.Join(s.OweBlob(id), s.OweBlob(id)), nil)
	}
	must(s.Write(noon, Edit{Key{BlobTable, "gone"}, nil}))(t)
	f := func(what string, id int64, want ...string) {
		t.Helper()
		verify(t, s)
		if got := must(s.BlobsOwed(id, 0))(t); !slices.Equal(got, want) || relay(t, s, id).Blobs != int64(len(want)) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	f("owed", a, "gone", "one", "two")
	wantErr(t, "delivered", errors.Join(s.BlobDelivered(a, "one"), s.BlobDelivered(a, "one"), s.BlobDelivered(a, "gone")), nil)
	f("delivered", a, "two")
	f("new relay", addRelay(t, s, "http://b"), "one", "two")
	if ok, err := s.Forget(a, 1, noon); !ok || err != nil {
		t.Fatal(ok, err)
	}
	f("forgotten", a, "one", "two")
	if got := must(s.BlobsOwed(a, 1))(t); len(got) != 1 {
		t.Errorf("limit: %v", got)
	}
}
