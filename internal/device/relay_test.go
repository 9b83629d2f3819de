package device

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// pairOn returns two devices of one owner on one real relay. Each has a clock.
func pairOn(t *testing.T, settings ...string) (a, b *Device, clockA, clockB *clock, s *site) {
	t.Helper()
	all := newSites(t, "relay.test")
	s = all.site("relay.test", settings...)
	key := owner(t)
	clockA, clockB = newClock(), newClock()
	a = makeDevice(t, key, "a", clockA.is(Options{Transport: all.http}))
	b = makeDevice(t, key, "b", clockB.is(Options{Transport: all.http}))
	join(t, a, s.url)
	join(t, b, s.url)
	return a, b, clockA, clockB, s
}

// Hard case 1: the greater HLC wins on both devices, the whole row.
func TestBothEditOneRow(t *testing.T) {
	a, b, _, clockB, _ := pairOn(t)
	put(t, a, "x", "of a")
	clockB.advance(time.Second)
	put(t, b, "x", "of b")
	put(t, a, "only a", "1")
	for range 2 {
		synced(t, b)
		synced(t, a)
	}
	for _, d := range []*Device{a, b} {
		has(t, d, "x", "of b")
		has(t, d, "only a", "1")
		if rel := relayOf(t, d); rel.Owed != 0 || rel.Unseen != 0 || rel.SyncedAt.IsZero() || rel.Account == "" || rel.UsedBytes == 0 {
			t.Errorf("D31: %s: %+v", d.DeviceID(), rel)
		}
		if st, err := d.Status(); err != nil || st.Relays[0].State != StateSynced || st.Rows != 2 || st.Pending != 0 {
			t.Errorf("%+v, %v", st, err)
		}
	}
}

// Hard case 2: a delete stays against an older edit that arrives later.
func TestDeleteAgainstOlderEdit(t *testing.T) {
	a, b, clockA, _, _ := pairOn(t)
	put(t, a, "x", "first")
	synced(t, a)
	synced(t, b)
	put(t, b, "x", "edited before, pushed after")
	clockA.advance(time.Minute)
	put(t, a, "x", "")
	synced(t, a)
	synced(t, b)
	synced(t, a)
	has(t, a, "x", "")
	has(t, b, "x", "")
}

// Hard case 3, D20: a device's clock is an hour ahead.
func TestClockAhead(t *testing.T) {
	a, b, clockA, clockB, _ := pairOn(t)
	clockA.advance(time.Hour)
	put(t, a, "x", "of the future")
	synced(t, a)
	if r := synced(t, b); r.Deferred != 1 || r.Rows != 0 {
		t.Errorf("%+v", r)
	}
	hasNot(t, b, "x")
	st, err := b.Status()
	if err != nil || st.Deferred != 1 || !st.NextDue.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v, %v", st, err)
	}
	if row := put(t, b, "y", "now"); row.HLC >= fmt.Sprint(start.Add(time.Minute).UnixMilli()) {
		t.Errorf("D20: b's clock was moved to %s", row.HLC)
	}
	clockB.advance(59 * time.Minute)
	synced(t, b)
	hasNot(t, b, "x")
	clockB.advance(2 * time.Minute)
	synced(t, b)
	has(t, b, "x", "of the future")
}

// Hard case 6, an honest relay: it gives what was compacted, pushed late or
// pushed twice in another order than it was written in.
func TestAnyOrder(t *testing.T) {
	a, b, _, _, s := pairOn(t)
	for i := range 30 {
		put(t, a, fmt.Sprint("r", i%7), fmt.Sprint("a", i))
		if i%5 == 0 {
			put(t, b, fmt.Sprint("r", i%3), fmt.Sprint("b", i))
		}
		if i%4 == 0 {
			synced(t, b)
		}
	}
	synced(t, a)
	// All is owed again, so that the relay gets every event a second time.
	if _, err := a.store.Forget(relayOf(t, a).ID, relayOf(t, a).Generation, start); err != nil {
		t.Fatal(err)
	}
	synced(t, a)
	synced(t, b)
	synced(t, a)
	c := makeDevice(t, credentialOf(t, a), "c", Options{Transport: s.sites.http, Now: a.o.Now, PullEvents: 3})
	join(t, c, s.url)
	synced(t, c)
	same(t, a, b)
	same(t, a, c)
}

// credentialOf reads a device's credential.
func credentialOf(t *testing.T, d *Device) string {
	t.Helper()
	_, text, err := d.place().read(credentialFile)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// same wants equal rows, with equal clocks, in both devices.
func same(t *testing.T, a, b *Device) {
	t.Helper()
	dump := func(d *Device) string {
		rows, err := d.store.List("", devicestore.Key{}, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, r := range rows {
			fmt.Fprintf(&text, "%s %s %s %v %s\n", r.Table, r.ID, r.HLC, r.Deleted, r.Data)
		}
		return text.String()
	}
	if of, other := dump(a), dump(b); of != other || of == "" {
		t.Errorf("%s has\n%s%s has\n%s", a.DeviceID(), of, b.DeviceID(), other)
	}
}

// Hard case 7, D35: the relay was wiped and another device syncs first.
func TestRelayWiped(t *testing.T) {
	a, b, clockA, _, s := pairOn(t, "SEQ_FLOOR=clock")
	put(t, a, "x", "1")
	put(t, b, "y", "2")
	put(t, a, "gone", "3")
	put(t, a, "gone", "")
	synced(t, a)
	synced(t, b)
	synced(t, a)
	clockA.advance(time.Minute)
	put(t, a, "z", "only at a, and acknowledged")
	synced(t, a)
	s.stop()
	s.wipe()
	s.start()
	put(t, b, "w", "after the wipe")
	if r := synced(t, b); !r.Reseeded || r.Err != nil {
		t.Errorf("%+v", r)
	}
	if r := synced(t, a); !r.Reseeded || r.Rows == 0 {
		t.Errorf("%+v", r)
	}
	synced(t, b)
	same(t, a, b)
	has(t, b, "z", "only at a, and acknowledged")
	has(t, a, "w", "after the wipe")
	if rel := relayOf(t, a); rel.Reseeds != 1 || rel.Reseeding {
		t.Errorf("%+v", rel)
	}
	if r := synced(t, a); r.Reseeded || r.Pushed != 0 {
		t.Errorf("a second time: %+v", r)
	}
}

// Hard case 8: the relay is restored from a copy of before the last events.
func TestRelayRestored(t *testing.T) {
	a, b, _, _, s := pairOn(t, "SEQ_FLOOR=clock")
	put(t, a, "x", "1")
	synced(t, a)
	synced(t, b)
	s.stop()
	restore := s.save()
	s.start()
	put(t, a, "y", "lost at the relay, never seen by b")
	synced(t, a)
	s.stop()
	restore()
	s.start()
	put(t, b, "z", "of b")
	synced(t, b)
	synced(t, a)
	synced(t, b)
	same(t, a, b)
	has(t, b, "y", "lost at the relay, never seen by b")
	has(t, a, "z", "of b")
}

// Hard case 9: one of two relays is down; nothing waits for it, nothing is
// lost.
func TestTwoRelaysOneDown(t *testing.T) {
	all := newSites(t, "one.test", "two.test")
	one, two := all.site("one.test"), all.site("two.test")
	key, c := owner(t), newClock()
	a := makeDevice(t, key, "a", c.is(Options{Transport: all.http}))
	b := makeDevice(t, key, "b", c.is(Options{Transport: all.http}))
	late := makeDevice(t, key, "late", c.is(Options{Transport: all.http}))
	for _, d := range []*Device{a, b} {
		join(t, d, one.url)
		join(t, d, two.url)
	}
	join(t, late, two.url)
	two.stop()
	for i := range 5 {
		put(t, a, fmt.Sprint("r", i), fmt.Sprint(i))
		r, err := a.Sync(t.Context(), SyncOptions{})
		if err == nil || !errors.Is(err, errDown) || !strings.Contains(err.Error(), two.url) || r.Relays[0].Err != nil || r.Relays[1].Err == nil {
			t.Fatalf("%+v, %v", r, err)
		}
		c.advance(5 * time.Hour)
	}
	if _, err := b.Sync(t.Context(), SyncOptions{}); err == nil {
		t.Fatal("no word of the relay that is down")
	}
	same(t, a, b)
	st, err := a.Status()
	if err != nil || st.Pending != 5 || st.Relays[0].State != StateSynced || st.Relays[1].Owed != 5 ||
		st.Relays[1].Push.Fails != 5 || !strings.HasPrefix(st.Relays[1].Push.Reason, "network: ") {
		t.Errorf("%+v, %v", st, err)
	}
	two.start()
	synced(t, a)
	synced(t, late)
	same(t, a, late)
	if st, err := a.Status(); err != nil || st.Pending != 0 || st.Relays[1].State != StateSynced || st.Relays[1].Push.Fails != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// Hard case 11: a payload of schema version 2 is kept by a device of version 1,
// and applied after its upgrade.
func TestNewerSchema(t *testing.T) {
	all := newSites(t, "relay.test")
	s := all.site("relay.test")
	key, c := owner(t), newClock()
	newer := makeDevice(t, key, "newer", c.is(Options{Transport: all.http, SchemaVersion: 2}))
	b := makeDevice(t, key, "b", c.is(Options{Transport: all.http}))
	join(t, newer, s.url)
	join(t, b, s.url)
	put(t, newer, "x", "of two")
	put(t, newer, "y", "of two")
	put(t, newer, "y", "")
	synced(t, newer)
	if r := synced(t, b); r.Deferred != 3 || r.Refused != 0 {
		t.Errorf("%+v", r)
	}
	hasNot(t, b, "x")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	upgraded, err := Open(b.dir, c.is(Options{Transport: all.http, SchemaVersion: 2}))
	if err != nil {
		t.Fatal(err)
	}
	synced(t, upgraded)
	has(t, upgraded, "x", "of two")
	has(t, upgraded, "y", "")
	third := makeDevice(t, key, "third", c.is(Options{Transport: all.http, SchemaVersion: 3}))
	join(t, third, s.url)
	if r := synced(t, third); r.Deferred != 0 || r.Rows != 3 {
		t.Errorf("an upgraded device pulls %+v", r)
	}
	if err := upgraded.Close(); err != nil {
		t.Fatal(err)
	}
}

// Hard case 14, D34: the owner is closed. That is final, and says to re-key.
func TestOwnerClosed(t *testing.T) {
	a, b, _, _, _ := pairOn(t)
	put(t, a, "x", "1")
	synced(t, a)
	id, err := b.identity()
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.remote(relayOf(t, b).URL, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.closeOwner(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.closeOwner(t.Context()); err != nil {
		t.Errorf("S43: %v", err)
	}
	put(t, a, "y", "2")
	_, err = a.Sync(t.Context(), SyncOptions{})
	if !errors.Is(err, ErrOwnerClosed) || !strings.Contains(fmt.Sprint(a.Status()), StateClosed) {
		t.Errorf("%v, %v", err, relayOf(t, a))
	}
	if rel := relayOf(t, a); !rel.Closed || rel.Owed != 1 {
		t.Errorf("%+v", rel)
	}
}

// D36: the streams of purged rows go from the relay.
func TestPurge(t *testing.T) {
	a, b, clockA, _, _ := pairOn(t)
	for i := range 3 {
		put(t, a, fmt.Sprint("r", i), "1")
	}
	put(t, a, "r0", "")
	put(t, a, "r1", "")
	synced(t, a)
	synced(t, b)
	clockA.advance(time.Hour)
	n, err := a.Purge(start.Add(time.Minute))
	if err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	before, err := a.store.Purges(relayOf(t, a).ID, 10)
	if err != nil || len(before) != 2 {
		t.Fatalf("%d, %v", len(before), err)
	}
	synced(t, a)
	if left, err := a.store.Purges(relayOf(t, a).ID, 10); err != nil || len(left) != 0 {
		t.Errorf("%d, %v", len(left), err)
	}
	id, _ := a.identity()
	r, err := a.remote(relayOf(t, a).URL, id)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := r.status(t.Context()); err != nil || st.Events != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	hasNot(t, a, "r0")
}

// A large history: several pages and pushes, several goroutines, the state of a
// new device the same (D38), and progress told.
func TestManyRows(t *testing.T) {
	a, _, _, _, s := pairOn(t)
	const rows, batch = 1300, 650
	edits := make([]devicestore.Edit, 0, batch)
	for i := range rows {
		edits = append(edits, devicestore.Edit{Key: note(fmt.Sprintf("r%05d", i)), Data: fmt.Appendf(nil, `{"n":%d}`, i)})
		if len(edits) == batch {
			if _, err := a.Put(edits...); err != nil {
				t.Fatal(err)
			}
			edits = edits[:0]
		}
	}
	if r := synced(t, a); r.Pushed != rows {
		t.Errorf("%+v", r)
	}
	fresh := makeDevice(t, credentialOf(t, a), "fresh", Options{Transport: s.sites.http, Now: a.o.Now, PullEvents: 200})
	join(t, fresh, s.url)
	var phases []string
	last := int64(0)
	r, err := fresh.Sync(t.Context(), SyncOptions{Progress: func(p Progress) {
		if p.Phase == "pull" && p.Done > last && p.Relay == s.url {
			last = p.Done
			if p.Total != rows {
				t.Errorf("%d of %d", p.Done, p.Total)
			}
			phases = append(phases, p.Phase)
		}
	}})
	if err != nil || r.Relays[0].Rows != rows || last != rows || len(phases) != 7 {
		t.Errorf("%+v, %v, %d steps to %d", r, err, len(phases), last)
	}
}

// Several handles of one directory, as several processes have them, sync at the
// same time; nothing is lost or applied twice.
func TestSyncTogether(t *testing.T) {
	a, b, _, _, _ := pairOn(t)
	for i := range 300 {
		put(t, a, fmt.Sprint("r", i), fmt.Sprint(i))
	}
	synced(t, a)
	b.o.PullEvents = 20
	again, err := Open(b.dir, b.o)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	rows := make(chan int64, 2)
	for _, d := range []*Device{b, again} {
		put(t, d, "of "+fmt.Sprintf("%p", d), "1")
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := d.Sync(ctx, SyncOptions{})
			errs <- err
			rows <- r.Relays[0].Rows
		}()
	}
	sum := int64(0)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
		sum += <-rows
	}
	if sum != 300 {
		t.Errorf("%d rows were applied", sum)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	synced(t, a)
	same(t, a, b)
}
