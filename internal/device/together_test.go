package device

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// D39: another process re-keys the device; this one goes on under the new
// owner.
func TestRekeyedByAnother(t *testing.T) {
	a, b, _, _, s := pairOn(t)
	put(t, a, "x", "1")
	synced(t, a)
	process, err := Open(a.dir, a.o)
	if err != nil {
		t.Fatal(err)
	}
	next := owner(t)
	if err := process.Rekey(t.Context(), next, RekeyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, a, "y", "2")
	synced(t, a)
	if rel := relayOf(t, a); rel.Owed+rel.Unseen != 0 || a.OwnerID() == b.OwnerID() {
		t.Errorf("%+v of %s", rel, a.OwnerID())
	}
	c := makeDevice(t, next, "c", Options{Transport: s.sites.http, Now: a.o.Now})
	join(t, c, s.url)
	synced(t, c)
	same(t, a, c)
	if _, err := b.Sync(t.Context(), SyncOptions{}); !errors.Is(err, ErrOwnerClosed) {
		t.Errorf("the old owner: %v", err)
	}
}

// A Follow brings blobs: those that are attached here there, and those of
// others here when it is told to.
func TestFollowBlobs(t *testing.T) {
	a, b, _, _, _ := pairOn(t)
	// The manifest may come before the chunks, and then they are tried again.
	b.o.TerminalPause = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- a.Follow(ctx, FollowOptions{}) }()
	go func() { done <- b.Follow(ctx, FollowOptions{Blobs: true}) }()
	m, err := a.Attach(t.Context(), strings.NewReader(strings.Repeat("content ", 100_000)), "text/plain", "x.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "every chunk at the other device", func() bool { return b.chunks().holdsAll(&m) })
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A Sync that is cut stores no back-off: nothing is known of the relay.
func TestCutSync(t *testing.T) {
	for _, route := range []string{"health", "status", "push", "pull"} {
		d, s, _ := scripted(t, Options{})
		put(t, d, "x", "1")
		ctx, cancel := context.WithCancel(t.Context())
		s.on(route, func(_ http.ResponseWriter, r *http.Request, _ []byte) {
			cancel()
			<-r.Context().Done() // no answer comes before the cut is seen
		})
		r, err := d.Sync(ctx, SyncOptions{})
		if rel := relayOf(t, d); !errors.Is(err, context.Canceled) || r.Relays[0].Err == nil ||
			rel.Push != (devicestore.Lane{}) || rel.Pull != (devicestore.Lane{}) {
			t.Errorf("%s: %v, %+v", route, err, rel)
		}
		cancel()
	}
}

// A relay that gives more for later than there is room for waits, in its pull
// lane alone; when there is room again the rest comes.
func TestDeferredFull(t *testing.T) {
	d, s, c := scripted(t, Options{DeferredMax: 3})
	by := d.author(t)
	by.n = int(time.Hour / time.Millisecond)
	pages := []string{
		pageOf("1", by.event(), by.event()),
		pageOf("2", by.event(), by.event()),
		pageOf("2"),
	}
	s.on("pull", func(w http.ResponseWriter, r *http.Request, b []byte) {
		n := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("after"), &n)
		say(200, pages[n])(w, r, b)
	})
	put(t, d, "x", "1")
	_, err := d.Sync(t.Context(), SyncOptions{})
	if lane := laneOf(t, d, false); !errors.Is(err, devicestore.ErrDeferredFull) || lane.Reason != "deferred_full" ||
		!lane.Until.Equal(c.now().Add(5*time.Minute)) || relayOf(t, d).Cursor != "1" || laneOf(t, d, true).Fails != 0 {
		t.Errorf("%v, %+v", err, relayOf(t, d))
	}
	c.advance(2 * time.Hour)
	if r := synced(t, d); r.Rows != 2 {
		t.Errorf("%+v", r)
	}
	st, err := d.Status()
	if err != nil || st.Deferred != 0 || st.Rows != 5 || st.Relays[0].Pull.Fails != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// An authentic payload of a later form is kept (D32); one that claims another
// row's stream, or another clock than its event id, is refused. Neither stops a
// page.
func TestPayloadsThatDoNotFit(t *testing.T) {
	d, _, c := scripted(t, Options{SchemaVersion: 2})
	id := d.id.Load()
	seal := func(p synccrypt.Payload) []byte {
		t.Helper()
		e, err := id.Seal(nil, &p, "other", start, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	hlc := fmt.Sprintf("%013d-0000-other", start.UnixMilli())
	row := []byte(`{"n":9007199254740993}`)
	known := seal(synccrypt.Payload{SchemaVersion: 2, Table: "notes", ID: "x", HLC: hlc, Row: row})
	later := seal(synccrypt.Payload{SchemaVersion: 3, Table: "notes", ID: "x", HLC: hlc, Row: row})
	gone := seal(synccrypt.Payload{SchemaVersion: 2, Table: "notes", ID: "x", HLC: hlc, Deleted: true})
	if o := d.open(id, known, c.now()); o.reason != "" || o.event.Defer != devicestore.Apply || string(o.event.Data) != string(row) {
		t.Errorf("%+v", o)
	}
	if o := d.open(id, gone, c.now()); o.reason != "" || o.event.Defer != devicestore.Apply || !o.event.Deleted || o.event.Data != nil {
		t.Errorf("%+v", o)
	}
	o := d.open(id, later, c.now())
	if o.reason != "" || o.event.Defer != devicestore.Unknown || o.event.Schema != 3 || o.event.ID != hlc || len(o.event.Plain) == 0 {
		t.Errorf("%+v", o)
	}
	if e, err := d.reopen(o.event.Plain); err != nil || e.Defer != devicestore.Unknown || e.Schema != 3 || e.ID != hlc {
		t.Errorf("%+v, %v", e, err)
	}
	// What is exactly five minutes ahead is applied, a millisecond more is not
	// (D20).
	for ahead, want := range map[time.Duration]devicestore.Defer{
		devicestore.MaxAhead: devicestore.Apply, devicestore.MaxAhead + time.Millisecond: devicestore.Future,
	} {
		hlc := fmt.Sprintf("%013d-0000-other", start.Add(ahead).UnixMilli())
		e := seal(synccrypt.Payload{SchemaVersion: 1, Table: "notes", ID: "x", HLC: hlc, Row: row})
		if o := d.open(id, e, start); o.event.Defer != want {
			t.Errorf("%v ahead: %+v", ahead, o)
		}
	}
}

// D32: an authentic event of a form that this version does not have stays
// deferred when its schema is known, restart after restart: it may be the only
// copy.
func TestUnknownFormIsKept(t *testing.T) {
	for schema, plain := range map[int]string{
		1: `{"hlc":"%s","id":"x","op":"merge","row":{},"schemaVersion":1,"table":"notes"}`,
		2: `{"hlc":"%s","id":"x","later":1,"op":"upsert","row":{},"schemaVersion":2,"table":"notes"}`,
		// Not even its clock is where this version looks for it.
		3: `{"clock":"%s","schemaVersion":1}`,
	} {
		d, _, _ := scripted(t, Options{SchemaVersion: 2})
		hlc := fmt.Sprintf("%013d-0000-other", start.UnixMilli())
		text := []byte(strings.Replace(plain, "%s", hlc, 1))
		_, err := d.store.ApplyPage(relayOf(t, d).ID, devicestore.Page{Next: "1", Generation: 1, Events: []devicestore.Event{
			{ID: hlc, Defer: devicestore.Unknown, Schema: min(schema, 2), Plain: text},
		}}, start)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n, err := d.applyDue(); n != 0 || err != nil {
				t.Errorf("schema %d: %d rows, %v", schema, n, err)
			}
		}
		list, err := d.store.Refusals()
		if st, statErr := d.Status(); statErr != nil || st.Deferred != 1 || err != nil || len(list) != 0 {
			t.Errorf("schema %d: %+v, %v, %+v, %v", schema, st, statErr, list, err)
		}
	}
}

// Another process pulls too, and stores a cursor in the middle of a page that
// this one holds: the relay that then leads to the page's end leads nowhere that
// this one has been.
func TestPullsTogether(t *testing.T) {
	d, s, c := scripted(t, Options{})
	other, err := Open(d.dir, c.is(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	by, rel := d.author(t), relayOf(t, d)
	one, two := by.event(), by.event()
	first := true
	s.on("pull", func(w http.ResponseWriter, r *http.Request, body []byte) {
		after, answer := r.URL.Query().Get("after"), pageOf("2", one, two)
		switch {
		case first:
			first = false
			events, _ := other.openPage(other.id.Load(), page{events: [][]byte{[]byte(one)}}, start)
			if _, err := other.store.ApplyPage(rel.ID, devicestore.Page{Next: "1", Generation: 1, Events: events}, start); err != nil {
				t.Error(err)
			}
		case after == "1":
			answer = pageOf("2", two)
		default:
			answer = pageOf(after)
		}
		say(200, answer)(w, r, body)
	})
	synced(t, d)
	if rel := relayOf(t, d); rel.Cursor != "2" || refusals(t, d, reasonBadCursor) != 0 {
		t.Errorf("%+v, %d cursors refused", rel, refusals(t, d, reasonBadCursor))
	}
	has(t, d, "n2", "1")
}

// Another process has forgotten the relay, which counts from its start again:
// that is no cursor of before.
func TestForgottenByAnother(t *testing.T) {
	d, _, _ := scripted(t, Options{})
	_, puller := loner(t, d)
	for range 2 {
		rel := relayOf(t, d)
		if a, err := puller.link.apply(rel, fetched{next: "5", count: 1}); err != nil || a.Stale {
			t.Errorf("%+v, %v", a, err)
		}
		if _, err := d.store.Forget(rel.ID, rel.Generation, start); err != nil {
			t.Fatal(err)
		}
	}
}

// The package that sends everything through one client leaves nothing open.
func TestCloseEndsConnections(t *testing.T) {
	s := newScript(t)
	d, err := Create(t.TempDir()+"/device", owner(t), "a", Options{})
	if err != nil {
		t.Fatal(err)
	}
	join(t, d, s.URL)
	synced(t, d)
	if err := d.RemoveRelay(s.URL); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil || len(d.peers) != 0 {
		t.Errorf("%v, %d relays are kept", err, len(d.peers))
	}
	if _, err := os.Stat(d.dir); err != nil {
		t.Error(err)
	}
}

// Chunks that a relay refuses keep no row from it, and are tried again after a
// pause of their own, or with the next write.
func TestBlobsRefusedRowsPushed(t *testing.T) {
	d, s, c := scripted(t, Options{})
	if _, err := d.Attach(t.Context(), strings.NewReader("content"), "text/plain", "x.txt", nil); err != nil {
		t.Fatal(err)
	}
	pusher, _ := loner(t, d)
	once := func(urgent bool) time.Duration {
		t.Helper()
		pause, err := waited(t, pusher, urgent)
		if (err == nil) != (s.count("") == 0) {
			t.Errorf("%v", err)
		}
		return pause
	}
	if pause := once(false); pause != d.o.TerminalPause || s.count("push") != 1 || relayOf(t, d).Owed != 0 {
		t.Errorf("rests %v, %+v", pause, relayOf(t, d))
	}
	c.advance(d.o.TerminalPause - time.Second)
	if pause := once(false); pause != d.o.Pace {
		t.Errorf("in the pause it rests %v", pause)
	}
	c.advance(time.Second)
	if pause := once(false); pause != d.o.TerminalPause {
		t.Errorf("after the pause it rests %v", pause)
	}
	put(t, d, "x", "1")
	if pause := once(true); pause != d.o.TerminalPause || s.count("push") != 1 {
		t.Errorf("a write: it rests %v", pause)
	}
	if rel := relayOf(t, d); rel.Push.Fails != 0 || rel.Blobs != 1 {
		t.Errorf("%+v", rel)
	}
}

// A relay that is removed during a Sync is nobody's fault, and a credential
// that cannot be read is no relay's.
func TestErrorsOfThisMachine(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	l := d.newLink(relayOf(t, d), true, nil)
	d.load = func(string) (*synccrypt.Identity, error) { return nil, os.ErrPermission }
	id := d.id.Swap(nil)
	_, err := d.Sync(t.Context(), SyncOptions{})
	if rel := relayOf(t, d); !errors.Is(err, os.ErrPermission) || rel.Push.Fails+rel.Pull.Fails != 0 || s.count("health") != 0 {
		t.Errorf("%v, %+v", err, rel)
	}
	if err := d.Follow(t.Context(), FollowOptions{}); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
	d.id.Store(id)
	if err := d.RemoveRelay(s.URL); err != nil {
		t.Fatal(err)
	}
	if err := l.sync(t.Context()); !errors.Is(err, devicestore.ErrNoRelay) || err.Error() == "" {
		t.Error(err)
	}
	pusher := &pusher{f: d.newFollower(FollowOptions{}), pair: &pair{}, link: l}
	if pause, err := pusher.once(t.Context(), true); err != nil || pause != untilPoked {
		t.Errorf("%v, %v", pause, err)
	}
}
