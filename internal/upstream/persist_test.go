package upstream

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// F63: state is noted each half interval and written half an interval later,
// cursors and repositories as of one moment.
func TestWritingTrails(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, nil)
	p := o.next()
	want := func(what string, wantSeq int64, wantRev string) {
		t.Helper()
		if got, repo := store.host(o.name), store.repo(did('a')); got.LastSeq != wantSeq || repo.Rev != wantRev || r.of(o.name).StoredSeq != wantSeq {
			t.Errorf("%s: cursor %d, rev %q", what, got.LastSeq, repo.Rev)
		}
	}
	p.send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	want("at first", state.NoSeq, "")
	r.clock.end(t, time.Hour) // the ticker itself
	await(t, "the first tick", func() bool { return r.clock.waiting(time.Hour) == 1 })
	want("noted", state.NoSeq, "")
	p.send(commit(t, 2, did('a'), 2), commit(t, 3, did('b'), 1))
	r.at(o.name, 3)
	r.clock.end(t, time.Hour)
	await(t, "the second tick", func() bool { return r.clock.waiting(time.Hour) == 1 })
	want("written", 1, rev(1))
	r.tick()
	want("written", 3, rev(2))
	if got := store.host(o.name); got.AccountCount != 2 {
		t.Errorf("accounts: %d", got.AccountCount)
	}
	writes := r.Stats().Writes
	r.tick()
	if got := r.Stats(); got.Writes != writes || got.NotStored != 0 {
		t.Errorf("nothing has changed, and it was written: %+v", got)
	}
}

// F63: a clean stop writes everything, in any state of the two steps.
func TestStopWrites(t *testing.T) {
	for ticks := range 3 {
		o := newOrigin(t, nil)
		store := newMemory(t)
		r := newRig(t, store, []string{o.url()}, nil)
		p := o.next()
		for n := 1; n <= 3; n++ {
			p.send(commit(t, int64(n), did('a'), n))
			r.at(o.name, int64(n))
			if n <= ticks {
				r.tick()
			}
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.dropped("stop")
		if got, repo := store.host(o.name), store.repo(did('a')); got.LastSeq != 3 || repo.Rev != rev(3) || got.Status != state.Active {
			t.Errorf("after %d ticks: %+v, %+v", ticks, got, repo)
		}
		if err := errors.Join(r.Stop(t.Context()), r.Host(o.name, "ban"), r.Takedown(did('a'))); !errors.Is(err, ErrState) {
			t.Errorf("after the stop: %v", err)
		}
	}
}

// A write that fails is tried again, with nothing lost and nothing put before.
func TestWriteFails(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, nil)
	p := o.next()
	p.send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	r.tick()
	p.send(commit(t, 2, did('a'), 2), commit(t, 3, did('b'), 1))
	r.at(o.name, 3)
	store.setFail(errDisk)
	for range 3 {
		r.tick()
	}
	if got := r.Stats(); got.WriteFailures != 3 || got.Writes != 0 || got.NotStored != 3 {
		t.Errorf("%+v", got)
	}
	store.setFail(nil)
	r.tick()
	if got := store.host(o.name); got.LastSeq != 1 || store.repo(did('a')).Rev != rev(1) {
		t.Errorf("the older batch comes first: %+v", got)
	}
	r.tick()
	if got := store.host(o.name); got.LastSeq != 3 || store.repo(did('a')).Rev != rev(2) || store.repo(did('b')).Rev != rev(1) {
		t.Errorf("%+v", got)
	}
	for i, batch := range store.batches {
		names := map[string]bool{}
		for _, repo := range batch.Repos {
			if names[repo.DID] {
				t.Errorf("batch %d has %s twice", i, repo.DID)
			}
			names[repo.DID] = true
		}
	}
	store.setFail(errDisk)
	p.send(commit(t, 4, did('c'), 1))
	await(t, "a try to read the repository", func() bool { return r.Stats().PublishFailures > 0 })
	store.setFail(nil)
	r.clock.end(t, firstRetry)
	r.at(o.name, 4)
	store.setFail(errDisk)
	if err := r.Stop(t.Context()); !errors.Is(err, errDisk) {
		t.Errorf("stop: %v", err)
	}
}

// U4: entries that are not stored stay, and at their bound readers wait; the
// others go, the oldest first.
func TestCacheBounds(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, func(c *Config) { c.RepoCount, c.DirtyCount = 6, 4 })
	p := o.next()
	for i := range 10 {
		p.send(commit(t, int64(i+1), did(byte('a'+i)), 1))
	}
	full := func(seq int64) {
		t.Helper()
		r.at(o.name, seq)
		await(t, "a reader that waits", func() bool {
			s := r.Stats()
			return s.NotStored == 4 && s.Waits == seq/4 && s.Hosts[0].Frames == seq+1
		})
	}
	full(4)
	r.tick() // notes
	full(4)
	r.tick() // writes
	full(8)
	if s := r.Stats(); s.Repos > 6 {
		t.Errorf("%d in memory", s.Repos)
	}
	r.tick()
	r.tick()
	r.at(o.name, 10)
	if s := r.Stats(); s.Repos != 6 || s.NotStored != 2 {
		t.Errorf("%+v", s)
	}
	p.send(commit(t, 11, did('a'), 1), commit(t, 12, did('a'), 2)) // it was let go, and is known
	r.at(o.name, 12)
	if h := r.of(o.name); h.Dropped[dropOldRev] != 1 || h.AccountCount != 10 {
		t.Errorf("%+v", h)
	}
	if err := r.Stop(t.Context()); err != nil || len(store.repos) != 10 || store.repo(did('a')).Rev != rev(2) {
		t.Errorf("%v: %d stored", err, len(store.repos))
	}
}

// The least recently used go first, and what is used again stays.
func TestCacheOrder(t *testing.T) {
	c := newCache(3, 3)
	held := func(want string) {
		t.Helper()
		var got []byte
		for name := range c.entries {
			got = append(got, name[8])
		}
		slices.Sort(got)
		if string(got) != want {
			t.Errorf("held %s, want %s", got, want)
		}
	}
	for _, name := range "abc" {
		c.load(state.Repo{DID: did(byte(name))})
	}
	c.find([]byte(did('a')))
	c.load(state.Repo{DID: did('d')})
	held("acd")
	c.put(state.Repo{DID: did('c')})
	c.load(state.Repo{DID: did('e')})
	held("cde")
	c.load(state.Repo{DID: did('f')})
	held("cef")
	c.note(nil)
	c.put(state.Repo{DID: did('c')}) // dirty and pending
	c.written()
	c.load(state.Repo{DID: did('g')})
	c.load(state.Repo{DID: did('h')})
	held("cgh")
	c.note(nil)
	c.written()
	c.load(state.Repo{DID: did('i')})
	c.load(state.Repo{DID: did('j')})
	c.load(state.Repo{DID: did('k')})
	held("ijk")
}

// U5 (F28): a frame that cannot be published is tried again, never passed over.
func TestPublishFails(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	p.send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	r.stream.setFail(errDisk)
	p.send(commit(t, 2, did('a'), 2), account(t, 3, did('a'), false, "deactivated"), identity(t, 4, did('b')))
	for n := range 8 { // 100 ms doubled, to 5 s
		r.clock.end(t, min(firstRetry<<n, longestRetry))
	}
	await(t, "tries", func() bool { return r.Stats().PublishFailures == 9 })
	if h := r.of(o.name); h.LastSeq != 1 || h.Frames != 2 {
		t.Errorf("%+v", h)
	}
	if err := r.Takedown(did('b')); !errors.Is(err, errDisk) { // F67: it stands, and is told later
		t.Errorf("takedown: %v", err)
	}
	if status, _, err := r.RepoStatus(did('b')); status.Active || err != nil {
		t.Errorf("%+v, %v", status, err)
	}
	r.stream.setFail(nil)
	r.clock.end(t, longestRetry)
	r.want("order", "commit 1", "commit 2", "account 3 false deactivated", "identity 4")
	if h := r.of(o.name); !h.Connected || total(h.Failures)+total(h.Dropped) != 0 {
		t.Errorf("%+v", h)
	}
}

// An #account whose status the first try has changed is looked at anew.
func TestPublishFailsAroundRestore(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	if err := r.Takedown(did('a')); err != nil {
		t.Fatal(err)
	}
	r.stream.setFail(errDisk)
	o.next().send(account(t, 2, did('a'), false, "suspended"))
	await(t, "a try", func() bool { return r.Stats().PublishFailures == 1 })
	if err := r.Restore(did('a')); !errors.Is(err, errDisk) {
		t.Errorf("restore: %v", err)
	}
	r.stream.setFail(nil)
	r.clock.end(t, firstRetry)
	r.want("F67", "account 1 false takendown", "account 2 false suspended")
}

// Stop while a frame cannot be published gives it up; while it is being
// published, Stop waits as long as it may and writes the rest.
func TestStopWhilePublishing(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, nil)
	p := o.next()
	p.send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	r.stream.setFail(errDisk)
	p.send(commit(t, 2, did('a'), 2))
	await(t, "a try", func() bool { return r.Stats().PublishFailures == 1 })
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := store.host(o.name); got.LastSeq != 1 || store.repo(did('a')).Rev != rev(1) {
		t.Errorf("%+v", got)
	}

	gate := make(chan struct{})
	r2 := newRig(t, store, []string{o.url()}, nil)
	r2.stream.gate = gate
	p = o.next()
	p.send(commit(t, 2, did('a'), 2))
	await(t, "a publish under way", func() bool { _, blocked := r2.stream.state(); return blocked == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r2.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	if got := store.host(o.name); got.LastSeq != 1 {
		t.Errorf("%+v", got)
	}
	close(gate) // the reader ends; TestMain looks for it
}

// A Stop that finds a write hanging returns when its time is over.
func TestStopWhileWriting(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, nil)
	o.next().send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	r.tick()
	gate := make(chan struct{})
	store.mu.Lock()
	store.gate = gate
	store.mu.Unlock()
	r.clock.end(t, time.Hour)
	await(t, "a write", func() bool { store.mu.Lock(); defer store.mu.Unlock(); return store.writing })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	close(gate)
	await(t, "the write", func() bool { return store.host(o.name).LastSeq == 1 })
}

// Back-pressure: while publishing blocks, nothing more is read, and the pings
// that cannot be answered meanwhile do not count.
func TestBackPressure(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	gate := make(chan struct{})
	r.stream.mu.Lock()
	r.stream.gate = gate
	r.stream.mu.Unlock()
	frames, lines := identities(t, 1, 200)
	p := o.next()
	p.send(frames...)
	await(t, "a publish", func() bool { _, blocked := r.stream.state(); return blocked == 1 })
	for range 4 {
		r.clock.end(t, pingInterval)
	}
	await(t, "the fifth interval", func() bool { return r.clock.waiting(pingInterval) == 1 })
	if h := r.of(o.name); h.Frames != 1 || !h.Connected {
		t.Errorf("%+v", h)
	}
	close(gate)
	r.want("order", lines...)
	r.clock.end(t, pingInterval) // now a ping is sent, and answered
	await(t, "the next interval", func() bool { return r.clock.waiting(pingInterval) >= 1 })
	if h := r.of(o.name); !h.Connected {
		t.Errorf("%+v", h)
	}
}

// A connection on which nothing comes is dead after two pings.
func TestSilentConnection(t *testing.T) {
	o := newOrigin(t, func(o *origin) { o.deaf = true })
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	p := o.next()
	p.send(identity(t, 1, did('a'))) // it can send, and hears nothing
	r.at(o.name, 1)
	r.pinged()
	for range maxUnanswered {
		r.clock.end(t, answerWait)
	}
	r.until("silent", o.name, func(h HostStats) bool { return h.Failures[failSilent] == 1 && !h.Connected })
	p.close()
	r.clock.end(t, time.Second)
	if again := o.next(); again.cursor != "1" {
		t.Errorf("cursor %q", again.cursor)
	}
}

// One answer in time makes two more possible.
func TestAnsweredPing(t *testing.T) {
	o := newOrigin(t, nil)
	r := newRig(t, newMemory(t), []string{o.url()}, nil)
	o.next()
	for range 6 {
		r.clock.end(t, pingInterval)
		await(t, "an answer", func() bool { return r.clock.waiting(pingInterval) >= 1 })
	}
	if h := r.of(o.name); !h.Connected {
		t.Errorf("%+v", h)
	}
}

// U2 and U3 under load: hosts that carry the same repositories, writes in
// between, and at the end everything is stored.
func TestManyHosts(t *testing.T) {
	const hosts, repos, revs = 4, 8, 20
	store := newMemory(t)
	var origins []*origin
	var urls []string
	for range hosts {
		o := newOrigin(t, nil)
		origins, urls = append(origins, o), append(urls, o.url())
	}
	r := newRig(t, store, urls, func(c *Config) { c.RepoCount, c.DirtyCount = 8, 6 })
	stop := make(chan struct{})
	ticked := make(chan struct{})
	go func() {
		defer close(ticked)
		for {
			select {
			case <-stop:
				return
			default:
				r.tick()
			}
		}
	}()
	sent := make(chan error, hosts)
	for _, o := range origins {
		p := o.next()
		go func() {
			seq := int64(0)
			for n := 1; n <= revs; n++ {
				for i := range repos {
					seq++
					p.send(commit(t, seq, did(byte('a'+i)), n))
				}
			}
			sent <- nil
		}()
	}
	for range hosts {
		<-sent
	}
	for _, o := range origins {
		r.at(o.name, repos*revs)
	}
	close(stop)
	<-ticked
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var published, accounts int64
	for _, o := range origins {
		h := r.of(o.name)
		published, accounts = published+h.Published, accounts+h.AccountCount
		if store.host(o.name).LastSeq != repos*revs || h.Published+h.Dropped[dropOldRev] != repos*revs {
			t.Errorf("%+v", h)
		}
	}
	seen := map[string]bool{}
	for _, line := range r.stream.all() {
		if seen[string(line[16:])] {
			t.Error("a frame was published twice")
		}
		seen[string(line[16:])] = true
	}
	for i := range repos {
		if got := store.repo(did(byte('a' + i))); got.Rev != rev(revs) {
			t.Errorf("%s is at %s", got.DID, got.Rev)
		}
	}
	if published > repos*revs || accounts != repos {
		t.Errorf("%d published, %d accounts", published, accounts)
	}
}

// F63: for a grace time after the start nothing is stored, unless readers would
// wait; a clean stop stores everything in any case.
func TestGrace(t *testing.T) {
	o := newOrigin(t, nil)
	store := newMemory(t)
	r := newRig(t, store, []string{o.url()}, func(c *Config) {
		c.RepoCount, c.DirtyCount, c.Grace = 10, 6, time.Minute
	})
	p := o.next()
	p.send(commit(t, 1, did('a'), 1))
	r.at(o.name, 1)
	for range 4 {
		r.tick()
	}
	if got := store.host(o.name).LastSeq; got != state.NoSeq {
		t.Errorf("cursor %d was stored in the grace time", got)
	}
	p.send(commit(t, 2, did('b'), 1), commit(t, 3, did('c'), 1))
	r.at(o.name, 3)
	r.tick() // half of the bound
	r.tick()
	if got := store.host(o.name).LastSeq; got != 3 {
		t.Errorf("cursor %d at half of the bound, want 3", got)
	}
	p.send(commit(t, 4, did('a'), 2))
	r.at(o.name, 4)
	r.tick()
	r.tick()
	if got := store.host(o.name).LastSeq; got != 3 {
		t.Errorf("cursor %d was stored in the grace time, below the bound", got)
	}
	r.clock.add(time.Minute)
	r.tick()
	r.tick()
	if got := store.host(o.name).LastSeq; got != 4 {
		t.Errorf("cursor %d after the grace time, want 4", got)
	}
}
