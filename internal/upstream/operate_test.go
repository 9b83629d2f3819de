package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// F55: pauses double from 1 s to 60 s, and 15 failures without progress end
// the attempts for a host that the operator does not list.
func TestPauses(t *testing.T) {
	f := func(listed bool) {
		o := newOrigin(t, func(o *origin) { o.refuse = http.StatusBadGateway })
		store := newMemory(t)
		var listedHosts []string
		if listed {
			listedHosts = []string{o.url()}
		}
		r := newRig(t, store, listedHosts, nil)
		attempts := 30
		if !listed {
			attempts = 15
			if err := r.Connect(o.url()); err != nil {
				t.Fatal(err)
			}
		}
		for n := 1; n < attempts; n++ {
			r.clock.end(t, r.pauseAfter(n))
		}
		r.until("failures", o.name, func(h HostStats) bool { return h.Failures[failRefused] == int64(attempts) })
		if !listed {
			r.until("offline", o.name, func(h HostStats) bool { return h.Status == state.Offline })
		} else if h := r.of(o.name); h.Status != state.Active || h.FailuresInRow != attempts {
			t.Errorf("%+v", h)
		}
	}
	f(false)
	f(true)
}

// F70: a host that was connected with the wrong scheme is connected with the
// right one, without a disconnect between.
func TestConnectOtherScheme(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, nil, nil)
	if err := r.Connect(o.name); err != nil { // with TLS
		t.Fatal(err)
	}
	r.until("a failure", o.name, func(h HostStats) bool { return h.Failures[failDial] == 1 })
	if err := r.Connect(o.url()); err != nil {
		t.Fatal(err)
	}
	o.next().send(identity(t, 1, did('a')))
	r.want("F70", "identity 1")
	if err := r.Connect(o.name); err != nil { // no scheme changes none
		t.Fatal(err)
	}
	if !store.host(o.name).NoSSL {
		t.Error("the scheme is not stored")
	}
}

// F55: up to half of a pause is added by chance.
func TestJitter(t *testing.T) {
	chance := 0.0
	m, err := New(Config{Store: newMemory(t), Publish: (&stream{}).publish, Rand: func() float64 { return chance }})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(m, state.Host{})
	f := func(failures int, c float64, want time.Duration) {
		t.Helper()
		if chance = c; h.pause(failures) != want {
			t.Errorf("%d failures, %v: %v", failures, c, h.pause(failures))
		}
	}
	f(1, 0, time.Second)
	f(1, 0.5, 1250*time.Millisecond)
	f(3, 0, 4*time.Second)
	f(7, 0, time.Minute)
	f(1000000, 1, 90*time.Second)
}

// F55: progress, or the operator's word, begins the count anew.
func TestProgressResets(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), nil, nil)
	if err := r.Connect(o.url()); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		o.next().close()
		r.until("a failure", o.name, func(h HostStats) bool { return h.Failures[failLost] == int64(n) })
		r.clock.end(t, r.pauseAfter(n))
	}
	p := o.next()
	p.send(identity(t, 1, did('a')))
	r.at(o.name, 1)
	if h := r.of(o.name); h.FailuresInRow != 0 {
		t.Errorf("%+v", h)
	}
	p.close()
	r.clock.end(t, time.Second)
	o.next().close()
	await(t, "a pause of 2 s", func() bool { return r.clock.waiting(2*time.Second) == 1 })
	if err := r.Connect(o.name); err != nil {
		t.Fatal(err)
	}
	o.next().close()
	await(t, "a pause of 1 s", func() bool { return r.clock.waiting(time.Second) == 1 })
}

// A host that is not there counts as an attempt.
func TestNobodyListens(t *testing.T) {
	o := newOrigin(t, nil)
	o.server.Close()
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	r.until("a failure", o.name, func(h HostStats) bool { return h.Failures[failDial] == 1 })
}

// Redirects are not followed.
func TestRedirect(t *testing.T) {
	target := newOrigin(t, nil)
	o := newOrigin(t, func(o *origin) { o.refuse = http.StatusFound; o.location = target.server.URL })
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	r.until("a failure", o.name, func(h HostStats) bool { return h.Failures[failRefused] == 1 })
	if len(target.peers) > 0 {
		t.Error("the redirect was followed")
	}
}

// F54: who is connected at a start.
func TestStart(t *testing.T) {
	store := newMemory(t)
	origins := map[string]*origin{}
	for i, status := range []string{state.Active, state.Offline, state.Idle, state.Banned, state.Throttled, "listed"} {
		o := newOrigin(t, nil)
		origins[status] = o
		row := state.Host{ID: int64(i + 1), Hostname: o.name, NoSSL: true, Status: status, LastSeq: 40 + int64(i), AccountCount: 7}
		if status == "listed" {
			row.Status, row.NoSSL = state.Idle, false
		}
		store.hosts[row.ID] = row
	}
	fresh := newOrigin(t, nil)
	r := newRig(t, store, []string{origins["listed"].url(), fresh.url()}, nil)
	for status, cursor := range map[string]string{state.Active: "40", state.Offline: "41", "listed": "45"} {
		if p := origins[status].next(); p.cursor != cursor {
			t.Errorf("%s: cursor %q", status, p.cursor)
		}
	}
	if p := fresh.next(); p.cursor != "-" {
		t.Errorf("new: cursor %q", p.cursor)
	}
	for _, status := range []string{state.Idle, state.Banned, state.Throttled} {
		if o := origins[status]; len(o.peers) > 0 || r.of(o.name).Status != status {
			t.Errorf("%s is connected: %+v", status, r.of(o.name))
		}
	}
	r.tick()
	if got := store.host(origins[state.Offline].name); got.Status != state.Active || got.LastSeq != 41 || got.AccountCount != 7 {
		t.Errorf("%+v", got)
	}
	if got := store.host(origins["listed"].name); got.Status != state.Active || !got.NoSSL {
		t.Errorf("%+v", got)
	}
	if got := store.host(fresh.name); got.Status != state.Active || got.LastSeq != state.NoSeq || !got.CreatedAt.Equal(r.clock.now()) {
		t.Errorf("%+v", got)
	}
	if err := r.Start(); !errors.Is(err, ErrState) {
		t.Errorf("a second start: %v", err)
	}
}

// A start that cannot read or write its rows runs nothing, and can be repeated.
func TestStartFails(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	store.setFail(errDisk)
	m, err := New(Config{Upstreams: []string{o.url()}, Store: store, Publish: (&stream{}).publish})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
	store.setFail(nil)
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	o.next()
	if err := m.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	idle, err := New(Config{Store: store, Publish: (&stream{}).publish})
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Stop(t.Context()); !errors.Is(err, ErrState) {
		t.Errorf("stop without a start: %v", err)
	}
}

// F70: connect, disconnect, ban and unban.
func TestOperate(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, nil, nil)
	f := func(host, action string, want error, wantStatus string) {
		t.Helper()
		if err := r.Host(host, action); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", action, err, want)
		}
		if got, now := store.host(o.name).Status, r.of(o.name).Status; got != wantStatus || now != wantStatus {
			t.Errorf("%s: status %q, stored %q, want %q", action, now, got, wantStatus)
		}
	}
	f(o.url(), "disconnect", ErrUnknownHost, "")
	f(o.url(), "unban", ErrUnknownHost, "")
	f("10.0.0.1", "connect", ErrBadHostname, "")
	f(o.url(), "restart", ErrBadAction, "")
	f(o.url(), "connect", nil, state.Active)
	p := o.next()
	f(o.name, "connect", nil, state.Active) // nothing to do
	p.send(identity(t, 5, did('a')))
	r.at(o.name, 5)
	f(o.name, "disconnect", nil, state.Offline)
	p.dropped("F70")
	f(o.name, "disconnect", nil, state.Offline)
	f(o.name, "unban", nil, state.Offline)
	f(o.name, "connect", nil, state.Active)
	if p = o.next(); p.cursor != "5" {
		t.Errorf("cursor %q", p.cursor)
	}
	f(o.name, "ban", nil, state.Banned)
	p.dropped("F70")
	f(o.name, "connect", ErrBanned, state.Banned)
	f(o.name, "disconnect", nil, state.Banned)
	store.setFail(errDisk)
	f(o.name, "unban", errDisk, state.Banned)
	store.setFail(nil)
	f(o.name, "unban", nil, state.Offline)
	store.setFail(errDisk)
	f(o.name, "connect", errDisk, state.Offline)
	store.setFail(nil)
	f(o.name, "connect", nil, state.Active)
	if p = o.next(); p.cursor != "5" {
		t.Errorf("cursor %q", p.cursor)
	}
	store.setFail(errDisk)
	f(o.name, "ban", errDisk, state.Active)
	store.setFail(nil)
	p.send(identity(t, 6, did('a')))
	r.at(o.name, 6)
	if len(o.peers) > 0 || total(r.of(o.name).Failures) != 0 {
		t.Errorf("%+v", r.of(o.name))
	}

	plain := newOrigin(t, nil)
	for _, step := range [][2]string{{plain.name, "ban"}, {plain.name, "unban"}, {plain.url(), "connect"}} {
		if err := r.Host(step[0], step[1]); err != nil {
			t.Error(err)
		}
	}
	plain.next() // without TLS, as connect has named it

	if err := r.Ban("never.example.com"); err != nil { // before it was ever seen
		t.Error(err)
	}
	if got := store.host("never.example.com"); got.Status != state.Banned || got.LastSeq != state.NoSeq {
		t.Errorf("%+v", got)
	}
}

// A connection that is begun anew waits for the frame that the one before is
// still publishing, and what a host does on its own account comes too late for
// an operator who was faster.
func TestOneLifeAfterTheOther(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	gate := make(chan struct{})
	r.stream.mu.Lock()
	r.stream.gate = gate
	r.stream.mu.Unlock()
	o.next().send(identity(t, 1, did('a')))
	await(t, "a publish", func() bool { _, blocked := r.stream.state(); return blocked == 1 })
	h := r.hosts[o.name]
	first := h.life
	for _, action := range []string{"disconnect", "connect", "disconnect", "connect"} {
		if err := r.Host(o.name, action); err != nil {
			t.Fatal(err)
		}
	}
	h.giveUp(first, state.Banned, errDisk)
	if got := r.of(o.name); got.Status != state.Active {
		t.Errorf("%+v", got)
	}
	select {
	case <-o.peers:
		t.Error("connected while the frame is still being published")
	case <-time.After(50 * time.Millisecond): // nothing may come, however long
	}
	close(gate)
	if p := o.next(); p.cursor != "1" {
		t.Errorf("cursor %q", p.cursor)
	}
	if err := r.Host(o.name, "disconnect"); err != nil {
		t.Fatal(err)
	}
	h.giveUp(h.life, state.Banned, errDisk)
	if got := r.of(o.name); got.Status != state.Offline || len(o.peers) > 0 {
		t.Errorf("%+v", got)
	}
}

// The number of hosts is bounded.
func TestHostBound(t *testing.T) {
	store := newMemory(t)
	for id := int64(1); id <= maxHostCount; id++ {
		store.hosts[id] = state.Host{ID: id, Hostname: fmt.Sprintf("h%d.example.com", id), Status: state.Banned}
	}
	r := newRig(t, store, nil, nil)
	if err := r.Connect("one.more.example.com"); !errors.Is(err, ErrTooManyHosts) {
		t.Errorf("%v", err)
	}
	if err := r.Unban("h7.example.com"); err != nil {
		t.Error(err)
	}
}

// F67, F70: takedowns and their answers, without a host.
func TestAccount(t *testing.T) {
	store := newMemory(t)
	r := newRig(t, store, nil, nil)
	f := func(did, action string, want error) {
		t.Helper()
		if err := r.Account(did, action); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", action, err, want)
		}
	}
	status := func(did string, want RepoStatus, wantFound bool) {
		t.Helper()
		if got, found, err := r.RepoStatus(did); got != want || found != wantFound || err != nil {
			t.Errorf("%+v, %v, %v", got, found, err)
		}
	}
	f("plc:x", "takedown", ErrBadDID)
	f(did('a'), "delete", ErrBadAction)
	f(did('a'), "restore", ErrUnknownAccount)
	status(did('a'), RepoStatus{}, false)
	f(did('a'), "takedown", nil) // a row is made
	status(did('a'), RepoStatus{DID: did('a'), Status: "takendown"}, true)
	if got := store.repo(did('a')); got.Status != "takendown" {
		t.Errorf("%+v", got)
	}
	f(did('a'), "restore", nil)
	status(did('a'), RepoStatus{DID: did('a'), Active: true}, true)
	store.repos[did('b')] = state.Repo{DID: did('b'), Rev: rev(3), UpstreamStatus: state.Inactive}
	store.repos[did('c')] = state.Repo{DID: did('c'), Rev: rev(3)}
	status(did('b'), RepoStatus{DID: did('b')}, true)
	status(did('c'), RepoStatus{DID: did('c'), Active: true, Rev: rev(3)}, true)
	f(did('b'), "restore", nil)
	store.setFail(errDisk)
	f(did('c'), "takedown", errDisk)
	if _, _, err := r.RepoStatus(did('d')); !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
	if _, _, err := r.RepoStatus("x"); !errors.Is(err, ErrBadDID) {
		t.Errorf("%v", err)
	}
	store.setFail(nil)
	status(did('c'), RepoStatus{DID: did('c'), Active: true, Rev: rev(3)}, true)
	want := []string{"account 1 false takendown", "account 1 true", "account 1 false"}
	if got := r.stream.lines(t); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// F63, F67: a takedown is stored at once, alone; what else has changed still
// waits, and a batch that is under way does not undo it.
func TestTakedownBesideBatch(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, nil)
	p := o.next()
	p.send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	r.tick() // noted: rev 1
	p.send(commit(t, 2, did('a'), 2))
	r.at(o.name, 2)
	if err := r.Takedown(did('a')); err != nil {
		t.Fatal(err)
	}
	want := func(rev string) {
		t.Helper()
		if got := store.repo(did('a')); got.Rev != rev || got.Status != "takendown" {
			t.Errorf("%+v, want %s", got, rev)
		}
	}
	want("")
	r.tick()
	want(rev(1))
	r.tick()
	want(rev(2))
	p.send(commit(t, 3, did('a'), 3))
	r.at(o.name, 3)
	if h := r.of(o.name); h.Dropped[dropInactive] != 1 {
		t.Errorf("%+v", h)
	}
}
