package device

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// followed is one Follow in a goroutine of its own.
type followed struct {
	stop func() error // ends it and returns its error

	mu   sync.Mutex
	rows []devicestore.Row
}

// follow starts a Follow, which ends with the test.
func follow(t *testing.T, d *Device, after int64) *followed {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &followed{}
	done := make(chan error, 1)
	go func() {
		done <- d.Follow(ctx, FollowOptions{After: after, Change: func(row devicestore.Row) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.rows = append(f.rows, row)
		}})
	}()
	f.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return errors.New("Follow does not return")
		}
	})
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// told returns the last text that was told of a row.
func (f *followed) told(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := ""
	for _, row := range f.rows {
		if row.ID == id {
			text = string(row.Data)
		}
	}
	return text
}

// D37: two devices that follow see each other's writes by the relay's long
// poll, those of another process of the same directory too, and a deferred
// event when it is due.
func TestFollow(t *testing.T) {
	a, b, clockA, clockB, s := pairOn(t)
	put(t, a, "before", "1")
	first, other := follow(t, a, 0), follow(t, b, -1)
	put(t, b, "x", "of b")
	eventually(t, "a row of b at a", func() bool { return first.told("x") == `{"text":"of b"}` })
	put(t, a, "x", "of a")
	eventually(t, "a row of a at b", func() bool { return other.told("x") == `{"text":"of a"}` })
	eventually(t, "a row of before", func() bool { return other.told("before") != "" && first.told("before") != "" })

	process, err := Open(a.dir, a.o)
	if err != nil {
		t.Fatal(err)
	}
	put(t, process, "y", "of another process")
	eventually(t, "a row of another process", func() bool { return other.told("y") != "" && first.told("y") != "" })
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}

	clockA.advance(time.Hour)
	put(t, a, "later", "1")
	eventually(t, "a deferred event", func() bool { st, err := b.Status(); return err == nil && st.Deferred == 1 })
	clockB.advance(time.Hour)
	eventually(t, "an event that is due", func() bool { return other.told("later") != "" })
	eventually(t, "both in sync", func() bool { return relayOf(t, a).Unseen == 0 && relayOf(t, b).Unseen == 0 })
	for _, f := range []*followed{first, other} {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		for i := 1; i < len(f.rows); i++ {
			if f.rows[i].Change <= f.rows[i-1].Change {
				t.Errorf("change %d comes after %d", f.rows[i].Change, f.rows[i-1].Change)
			}
		}
	}
	_ = s
}

// Relays that are added, removed, stopped and wiped while it follows.
func TestFollowRelaysThatChange(t *testing.T) {
	all := newSites(t, "one.test", "two.test")
	one, two := all.site("one.test", "SEQ_FLOOR=clock"), all.site("two.test")
	key := owner(t)
	o := Options{Transport: all.http, Pace: 20 * time.Millisecond, ReseedPause: time.Millisecond}
	a, b := makeDevice(t, key, "a", o), makeDevice(t, key, "b", o)
	join(t, a, one.url)
	join(t, b, one.url)
	follow(t, a, -1)
	other := follow(t, b, -1)
	put(t, a, "x", "1")
	eventually(t, "x by the first relay", func() bool { return other.told("x") != "" })

	process, err := Open(a.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	join(t, process, two.url)
	if err := process.RemoveRelay(one.url); err != nil {
		t.Fatal(err)
	}
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	join(t, b, two.url)
	put(t, a, "y", "1")
	eventually(t, "y by the second relay", func() bool { return other.told("y") != "" })
	join(t, a, one.url)

	one.stop()
	two.stop()
	put(t, a, "z", "written while both are down")
	// The other has to have seen that the first was away: a look at its account
	// that finds it made anew comes after a failure.
	eventually(t, "back-offs", func() bool { return relayOf(t, a).Push.Fails > 0 && relayOf(t, b).Pull.Fails > 0 })
	one.wipe()
	one.start()
	eventually(t, "z by the relay that was wiped", func() bool { return other.told("z") != "" })
	put(t, b, "w", "1")
	eventually(t, "every row at the relay that was wiped", func() bool {
		rel := relayOf(t, b)
		return rel.Owed == 0 && rel.Unseen == 0 && rel.Reseeds > 0
	})
	late := makeDevice(t, key, "late", o)
	join(t, late, one.url)
	synced(t, late)
	for _, id := range []string{"x", "y", "z", "w"} {
		if _, err := late.store.Get(note(id)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// D34: while it follows, a local write is pushed in spite of a back-off, of
// this process and of another, and nothing else is.
func TestFollowPushesWrites(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	s.on("push", say(401, `{"error":"unauthorized"}`))
	put(t, d, "x", "1")
	follow(t, d, -1)
	eventually(t, "a first push", func() bool { return laneOf(t, d, true).Fails >= 1 })
	fails := laneOf(t, d, true).Fails
	put(t, d, "y", "1")
	eventually(t, "a second push", func() bool { return laneOf(t, d, true).Fails > fails })
	fails = laneOf(t, d, true).Fails
	process, err := Open(d.dir, d.o)
	if err != nil {
		t.Fatal(err)
	}
	put(t, process, "z", "1")
	eventually(t, "a push for another process", func() bool { return laneOf(t, d, true).Fails > fails })
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	if n := s.count("push"); n > 6 {
		t.Errorf("%d pushes in a back-off of five minutes", n)
	}
}

// S52: a pull waits only at a relay that lists it; a wait that is not found is
// decided by a plain pull.
func TestWaitOnlyWhenListed(t *testing.T) {
	d, s, _ := scripted(t, Options{Pace: time.Hour}) // longer than the test
	by := d.author(t)
	s.on("pull", func(w http.ResponseWriter, r *http.Request, b []byte) {
		if r.URL.Query().Get("after") == "" {
			say(200, pageOf("1", by.event()))(w, r, b)
			return
		}
		say(200, pageOf(r.URL.Query().Get("after")))(w, r, b)
	})
	step := func(puller *puller) time.Duration {
		t.Helper()
		pause, err := puller.once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return pause
	}
	_, puller := loner(t, d)
	if pause := step(puller); pause != d.o.Pace || s.count("wait") != 0 {
		t.Errorf("without wait it rests %v", pause)
	}
	if pause := step(puller); pause > d.o.Pace || pause <= 0 || s.count("pull") != 2 {
		t.Errorf("a poll before its time: %v", pause)
	}

	s.on("health", say(200, `{"ok":true,"features":["x","wait"]}`))
	puller.checkAt, puller.pollAt = time.Time{}, time.Time{}
	if pause := step(puller); pause != 0 {
		t.Errorf("with wait it rests %v", pause)
	}
	s.count("pull")
	s.on("wait", func(w http.ResponseWriter, r *http.Request, b []byte) {
		if q := r.URL.Query(); q.Get("after") != "1" || q.Get("timeout") != "25000" || q.Get("ownerId") != d.OwnerID() {
			t.Errorf("S52: %v", q)
		}
		say(200, pageOf("2", by.event()))(w, r, b)
	})
	if pause := step(puller); pause != 0 || s.count("pull") != 0 || relayOf(t, d).Cursor != "2" {
		t.Errorf("a wait that brought an event: %v, %+v", pause, relayOf(t, d))
	}
	s.on("wait", say(204, ""))
	for { // until the machine is not too busy to tell that from a wait
		began := time.Now()
		pause := step(puller)
		if pause == 0 && time.Since(began) >= quickAnswer {
			continue
		}
		if pause != d.o.Pace {
			t.Errorf("a relay that does not wait is asked again after %v", pause)
		}
		break
	}
	puller.pollAt = time.Time{}

	s.on("wait", say(404, `{"error":"not_found"}`))
	if pause := step(puller); pause != 0 {
		t.Errorf("a wait that is not found: %v", pause)
	}
	s.count("wait")
	if pause := step(puller); pause != d.o.Pace || s.count("pull") != 1 || relayOf(t, d).Reseeds != 0 {
		t.Errorf("the plain pull: %v, %+v", pause, relayOf(t, d))
	}
	puller.pollAt = time.Time{}
	if pause := step(puller); pause != d.o.Pace || s.count("pull") != 1 || s.count("wait") != 0 {
		t.Errorf("then it polls: %v", pause)
	}

	puller.checkAt, puller.pollAt = time.Time{}, time.Time{}
	step(puller)
	s.on("pull", say(404, `{"error":"unknown_owner"}`))
	step(puller)
	if _, err := puller.once(t.Context()); err != nil || relayOf(t, d).Reseeds != 1 {
		t.Errorf("both are not found: %v, %+v", err, relayOf(t, d))
	}
}

// D34: a local write that the pusher of one relay has sealed is urgent at the
// others too.
func TestSealedIsUrgent(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	s.on("push", say(401, `{}`))
	put(t, d, "x", "1")
	if _, err := d.Sync(t.Context(), SyncOptions{}); err == nil {
		t.Fatal("no error")
	}
	put(t, d, "y", "1")
	if n, err := d.sealAll(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	s.count("push")
	f := d.newFollower(FollowOptions{})
	poke(f.sealed)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	eventually(t, "a push in the back-off", func() bool { return s.count("push") > 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	f.group.Wait()
}

// Where waits bring one event after the other and none ends, a drain finds out in
// time that what the relay took does not come back.
func TestBusyRelayIsDrained(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	by := d.author(t)
	s.on("health", say(200, `{"ok":true,"features":["wait"]}`))
	s.on("wait", func(w http.ResponseWriter, r *http.Request, b []byte) {
		say(200, pageOf(fmt.Sprint(by.n+1), by.event()))(w, r, b)
	})
	pusher, puller := loner(t, d)
	step := func() {
		t.Helper()
		if _, err := puller.once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step() // the first is a drain
	put(t, d, "x", "1")
	if _, err := pusher.once(t.Context(), false); err != nil || relayOf(t, d).Unseen != 1 {
		t.Fatalf("%v, %+v", err, relayOf(t, d))
	}
	s.count("pull")
	step()
	if n := s.count("pull"); n != 0 || relayOf(t, d).Unseen != 1 {
		t.Errorf("%d pulls, %+v", n, relayOf(t, d))
	}
	puller.endedAt = puller.endedAt.Add(-endEvery)
	step()
	if n := s.count("pull"); n == 0 || relayOf(t, d).Owed != 1 {
		t.Errorf("%d pulls, %+v", n, relayOf(t, d))
	}
}

// Waits that bring the same again and again are bounded as drains are.
func TestWaitWithoutProgress(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	e := d.author(t).event()
	s.on("health", say(200, `{"ok":true,"features":["wait"]}`))
	s.on("wait", rising(func(int) string { return e }))
	_, puller := loner(t, d)
	var err error
	for range idlePages + 5 {
		if _, err = puller.once(t.Context()); err != nil {
			break
		}
	}
	if f, ok := errors.AsType[*fault](err); !ok || f.reason != reasonNoProgress || laneOf(t, d, false).Reason != reasonNoProgress {
		t.Errorf("%v", err)
	}
}

// An unknown owner's puller polls, and looks at once when something was pushed.
func TestPullAfterFirstPush(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	s.on("pull", say(404, `{"error":"unknown_owner"}`))
	pusher, puller := loner(t, d)
	puller.pair = pusher.pair
	if pause, err := puller.once(t.Context()); err != nil || pause != d.o.Pace {
		t.Fatal(pause, err)
	}
	put(t, d, "x", "1")
	if pause, err := pusher.once(t.Context(), false); err != nil || pause != untilPoked {
		t.Fatal(pause, err)
	}
	s.on("pull", say(200, pageOf("0")))
	s.count("pull")
	if _, err := puller.once(t.Context()); err != nil || s.count("pull") != 1 {
		t.Error(err)
	}
	if len(pusher.push) != 1 {
		t.Error("what the relay does not give back is not pushed again")
	}
}

// A Follow of a device without relays waits for one; one of a closed store
// ends.
func TestFollowNothing(t *testing.T) {
	d := makeDevice(t, owner(t), "a", Options{})
	f := follow(t, d, 0)
	put(t, d, "x", "1")
	eventually(t, "a change", func() bool { return f.told("x") != "" })
	if _, err := d.Sync(t.Context(), SyncOptions{}); !errors.Is(err, ErrNoRelays) {
		t.Error(err)
	}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	other := makeDevice(t, owner(t), "a", Options{})
	if err := other.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Follow(t.Context(), FollowOptions{}); err == nil {
		t.Error("no error")
	}
}

// A full disk and another process's lock are waited for; other errors of the
// database end a Follow after a while.
func TestHopeless(t *testing.T) {
	d, _, _ := scripted(t, Options{})
	f := d.newFollower(FollowOptions{})
	for range 10 * maxLooks {
		for _, err := range []error{devicestore.ErrDiskFull, devicestore.ErrBusy} {
			if f.hopeless(fmt.Errorf("commit: %w", err)) {
				t.Fatalf("%v is given up", err)
			}
		}
	}
	if f.hopeless(nil) || !f.hopeless(devicestore.ErrClosed) {
		t.Error("a good look is the end, or a closed store is none")
	}
	looks := 1
	for ; looks < 2*maxLooks && !f.hopeless(errors.New("disk I/O error")); looks++ {
	}
	if looks != maxLooks {
		t.Errorf("given up after %d looks, want %d", looks, maxLooks)
	}
}

// Relay URLs are told apart as RelayURL spells them; others are refused.
func TestAddRelay(t *testing.T) {
	d := makeDevice(t, owner(t), "a", Options{})
	for _, bad := range []string{"ftp://x", "http://u:p@x", "http://x/?a=b", "http://"} {
		if err := d.AddRelay(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	join(t, d, "http://x.test/v2/")
	if err := d.AddRelay("x.test/v2"); !errors.Is(err, devicestore.ErrRelayExists) {
		t.Errorf("the same: %v", err)
	}
	join(t, d, "http://x.test/v3")
	if err := d.RemoveRelay("http://x.test/v3/"); err != nil {
		t.Error(err)
	}
	if err := d.RemoveRelay("http://x.test/v3"); !errors.Is(err, devicestore.ErrNoRelay) {
		t.Error(err)
	}
	st, err := d.Status()
	if err != nil || fmt.Sprint(len(st.Relays), st.Relays[0].URL, st.Relays[0].State) != "1http://x.test/v2pending" {
		t.Errorf("%+v, %v", st, err)
	}
}
