package device

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// putMany writes rows n0, n1, ... in one transaction.
func putMany(t *testing.T, d *Device, count int) {
	t.Helper()
	edits := make([]devicestore.Edit, count)
	for i := range edits {
		edits[i] = devicestore.Edit{Key: note(fmt.Sprint("n", i)), Data: []byte(`{}`)}
	}
	if _, err := d.Put(edits...); err != nil {
		t.Fatal(err)
	}
}

// D31: batches are as large as is asked for, each event goes once.
func TestBatches(t *testing.T) {
	d, s, _ := scripted(t, Options{PushEvents: 40})
	var sizes []int
	ids := map[string]int{}
	s.on("push", func(w http.ResponseWriter, r *http.Request, body []byte) {
		envelopes := pushed(body)
		sizes = append(sizes, len(envelopes))
		for _, e := range envelopes {
			ids[named(e)]++
		}
		take(w, r, body)
	})
	putMany(t, d, 100)
	_, puller := loner(t, d)
	if err := puller.link.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(sizes) != "[40 40 20]" || len(ids) != 100 {
		t.Errorf("batches %v of %d events", sizes, len(ids))
	}
	if rel := relayOf(t, d); rel.Owed != 0 || rel.Unseen != 100 || !rel.Acked {
		t.Errorf("%+v", rel)
	}
}

// A batch has 4 MiB of envelopes at most.
func TestBatchBytes(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	var largest, count int
	s.on("push", func(w http.ResponseWriter, r *http.Request, body []byte) {
		largest, count = max(largest, len(body)), count+1
		take(w, r, body)
	})
	for i := range 60 {
		put(t, d, fmt.Sprint("n", i), strings.Repeat("x", 150_000))
	}
	_, puller := loner(t, d)
	if err := puller.link.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	if largest > maxPushBytes+1000 || count != 3 {
		t.Errorf("%d batches of up to %d bytes", count, largest)
	}
}

// A relay that takes fewer events, or bytes, gets smaller batches at once, down
// to one event.
func TestSmallerBatches(t *testing.T) {
	for code, limit := range map[string]int{"too_many_events": 10, "body_too_large": 1} {
		d, s, _ := scripted(t, Options{PushEvents: 64})
		refused := 0
		s.on("push", func(w http.ResponseWriter, r *http.Request, body []byte) {
			if len(pushed(body)) > limit {
				refused++
				say(413, `{"error":"`+code+`"}`)(w, r, body)
				return
			}
			take(w, r, body)
		})
		putMany(t, d, 64)
		if _, err := d.Sync(t.Context(), SyncOptions{}); err != nil {
			t.Errorf("%s: %v", code, err)
		}
		if refused < 3 || refused > 6 || relayOf(t, d).Push.Fails != 0 {
			t.Errorf("%s: %d refused", code, refused)
		}
	}
	d, s, _ := scripted(t, Options{})
	s.on("push", say(413, `{"error":"body_too_large"}`))
	putMany(t, d, 8)
	if _, err := d.Sync(t.Context(), SyncOptions{}); err == nil || s.count("push") != 4 || laneOf(t, d, true).Reason != "413 body_too_large" {
		t.Errorf("%v, %+v", err, laneOf(t, d, true))
	}
}

// An event that a relay refuses by itself keeps no other from it, and is told
// of; many of them end the push.
func TestStuckEvents(t *testing.T) {
	for _, answer := range []struct {
		status int
		code   string
	}{{413, "event_too_large"}, {400, "bad_envelope"}} {
		d, s, _ := scripted(t, Options{})
		bad := map[string]bool{}
		got := map[string]bool{}
		s.on("push", func(w http.ResponseWriter, r *http.Request, body []byte) {
			for _, e := range pushed(body) {
				if bad[named(e)] {
					say(answer.status, `{"error":"`+answer.code+`"}`)(w, r, body)
					return
				}
			}
			for _, e := range pushed(body) {
				got[named(e)] = true
			}
			take(w, r, body)
		})
		for i := range 50 {
			row := put(t, d, fmt.Sprint("n", i), "1")
			bad[row.HLC] = i == 3 || i == 30
		}
		pusher, _ := loner(t, d)
		_, err := pusher.once(t.Context(), false)
		if r, ok := refused(err, answer.status); !ok || r.Code != answer.code || len(got) != 48 || relayOf(t, d).Owed != 2 {
			t.Errorf("%s: %v, %d got through, %+v", answer.code, err, len(got), relayOf(t, d))
		}
		if lane := laneOf(t, d, true); !strings.Contains(lane.Reason, answer.code) {
			t.Errorf("%+v", lane)
		}
		s.on("push", say(answer.status, `{"error":"`+answer.code+`"}`))
		s.count("push")
		putMany(t, d, 50)
		if _, err := pusher.once(t.Context(), true); err == nil {
			t.Error("no error")
		}
		if n := s.count("push"); n > 12*(maxStuck+1) {
			t.Errorf("%s: %d requests to a relay that refuses every event", answer.code, n)
		}
	}
}

// A row of another program that is too large to be sealed here holds up no other.
func TestRowThatCannotBeSealed(t *testing.T) {
	d, s, c := scripted(t, Options{})
	got := 0
	s.on("push", func(w http.ResponseWriter, r *http.Request, body []byte) {
		got += len(pushed(body))
		take(w, r, body)
	})
	rel := relayOf(t, d)
	hlc := synccrypt.HLC{Millis: c.now().UnixMilli(), Device: "other"}.String()
	large := devicestore.Event{
		ID: hlc, Key: note("large"), Schema: 1,
		Data: []byte(`{"a":"` + strings.Repeat("x", synccrypt.MaxRowBytes+4000) + `"}`),
	}
	page := devicestore.Page{Next: "1", Generation: rel.Generation, Events: []devicestore.Event{large}}
	if a, err := d.store.ApplyPage(rel.ID, page, c.now()); err != nil || a.Rows != 1 {
		t.Fatal(a, err)
	}
	if ok, err := d.store.Forget(rel.ID, rel.Generation, c.now()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	putMany(t, d, 20)
	pusher, _ := loner(t, d)
	_, err := pusher.once(t.Context(), false)
	if !errors.Is(err, synccrypt.ErrTooLarge) || got != 20 || relayOf(t, d).Owed != 1 {
		t.Errorf("%v, %d got through, %+v", err, got, relayOf(t, d))
	}
	if lane := laneOf(t, d, true); lane != (devicestore.Lane{}) {
		t.Errorf("the relay is blamed: %+v", lane)
	}
}

// A relay that does not count each event has acknowledged none (D31).
func TestMiscounted(t *testing.T) {
	for _, answer := range []string{
		`{"accepted":0,"duplicate":0}`, `{"accepted":1,"duplicate":0}`, `{"accepted":3,"duplicate":-1}`,
		`{"accepted":2,"duplicate":1}`, `{}`, `null`,
	} {
		d, s, _ := scripted(t, Options{})
		s.on("push", say(200, answer))
		putMany(t, d, 2)
		_, err := d.Sync(t.Context(), SyncOptions{})
		if rel := relayOf(t, d); err == nil || rel.Owed != 2 || rel.Unseen != 0 || rel.Acked || rel.Push.Reason != reasonBadPage {
			t.Errorf("%s: %v, %+v", answer, err, rel)
		}
	}
}

// What was sealed for the owner of before a re-key is sealed anew when it is
// sent.
func TestSealedForAnother(t *testing.T) {
	d, _, _ := scripted(t, Options{})
	row := put(t, d, "x", "1")
	old := makeDevice(t, owner(t), "a", Options{})
	envelope, err := old.seal(old.id.Load(), row.Key, row.HLC, false, row.Data)
	if err != nil {
		t.Fatal(err)
	}
	_, puller := loner(t, d)
	_, r, err := puller.link.open()
	if err != nil {
		t.Fatal(err)
	}
	s := pushing{count: 10, bytes: maxPushBytes}
	ids, envelopes, err := puller.link.batch(r, []devicestore.Pending{{ID: row.HLC, Key: row.Key, Data: row.Data, Envelope: envelope}}, &s)
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	if p, _, _, err := r.id.OpenPayload(envelopes[0]); err != nil || p.HLC != row.HLC {
		t.Errorf("%+v, %v", p, err)
	}
}

// D36: streams are named in batches that the relay takes; an owner that it does
// not know has none.
func TestCompactBatches(t *testing.T) {
	d, s, c := scripted(t, Options{})
	putMany(t, d, 20)
	edits := make([]devicestore.Edit, 20)
	for i := range edits {
		edits[i].Key = note(fmt.Sprint("n", i))
	}
	if _, err := d.Put(edits...); err != nil {
		t.Fatal(err)
	}
	by := relayOf(t, d)
	deliverAll(t, d)
	c.advance(1 << 40)
	if n, err := d.Purge(c.now()); err != nil || n != 20 {
		t.Fatalf("%d, %v", n, err)
	}
	var sizes []int
	s.on("compact", func(w http.ResponseWriter, r *http.Request, body []byte) {
		n := strings.Count(string(body), `","`) // between ids
		if n > 8 {
			say(413, `{"error":"too_many_streams"}`)(w, r, body)
			return
		}
		sizes = append(sizes, n)
		say(404, `{"error":"unknown_owner"}`)(w, r, body)
	})
	_, puller := loner(t, d)
	if err := puller.link.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := d.store.Purges(by.ID, 100); err != nil || len(left) != 0 || len(sizes) < 3 {
		t.Errorf("%d left, %v, batches %v", len(left), err, sizes)
	}
}

// deliverAll has the relay take and give back everything.
func deliverAll(t *testing.T, d *Device) {
	t.Helper()
	_, puller := loner(t, d)
	rel := relayOf(t, d)
	if err := puller.link.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		mark, err := d.store.BeginDrain(rel.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := puller.link.endDrain(rel, mark); err != nil {
			t.Fatal(err)
		}
		if err := puller.link.push(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rel := relayOf(t, d); rel.Owed+rel.Unseen != 0 {
		t.Fatalf("%+v", rel)
	}
}
