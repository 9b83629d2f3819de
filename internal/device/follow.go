package device

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// lookEvery is how often the database is asked whether another process has
	// written: one read of a shared page.
	lookEvery = 200 * time.Millisecond
	// maxLooks is how many looks in a row may fail until Follow gives up.
	maxLooks = 150
	// watchRows is how many changes are read at a time.
	watchRows = 500
)

// FollowOptions are what a Follow can be told.
type FollowOptions struct {
	// Change is called for each row that changes, here or elsewhere, in the
	// order of Row.Change and from one goroutine. A row that changes again
	// before its turn is told once, as it is then. Nil tells nobody.
	Change func(devicestore.Row)
	// After is the Row.Change after which Change begins; below 0 it begins with
	// what comes after the call.
	After int64
	// Blobs fetches the chunks of all blobs as they come.
	Blobs bool
}

// follower is one Follow.
type follower struct {
	// Immutable after construction.
	d      *Device
	o      FollowOptions
	rows   chan struct{} // pokes watch
	came   chan struct{} // pokes fetch
	sealed chan struct{} // a pusher has sealed what is for all

	// Owned by run.
	pairs   map[int64]*pair
	version int64
	due     time.Time // of the next deferred event, zero for none
	failed  int       // looks in a row, without those that are waited for
	group   sync.WaitGroup
}

// pair is what the two goroutines of a relay are told.
type pair struct {
	cancel     context.CancelFunc
	push, pull chan struct{} // pokes, of one place
	urgent     atomic.Bool   // a local write: push in spite of a back-off (D34)
	soon       atomic.Bool   // the relay has something new of ours: poll now
}

// Follow keeps every relay and this device up to date until ctx ends, and
// returns nil then. It pushes what this and other processes write at once,
// holds the relays' long polls where they have them (D37), takes up relays that
// are added meanwhile, and applies deferred events when they are due. What goes
// wrong with a relay is tried again after its back-off; the error is of a
// database that cannot be read any more. One process at a time should follow;
// more do no harm but double the requests.
func (d *Device) Follow(ctx context.Context, o FollowOptions) error {
	if _, err := d.identity(); err != nil {
		return err
	}
	f := d.newFollower(o)
	if o.After < 0 {
		last, err := d.store.LastChange()
		if err != nil {
			return err
		}
		f.o.After = last
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer cancel()
	if o.Change != nil {
		f.group.Go(func() { f.watch(ctx) })
	}
	if o.Blobs {
		f.group.Go(func() { f.fetch(ctx) })
	}
	return f.run(ctx)
}

func (d *Device) newFollower(o FollowOptions) *follower {
	return &follower{
		d: d, o: o, rows: make(chan struct{}, 1), came: make(chan struct{}, 1), sealed: make(chan struct{}, 1),
		pairs: map[int64]*pair{}, version: -1,
	}
}

// run looks at the database and tells the others what they have to do.
func (f *follower) run(ctx context.Context) error {
	wrote, stop := f.d.listen()
	defer stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	if _, err := f.d.applyDue(); err != nil { // the program may be a newer one
		return err
	}
	for urgent := false; ; {
		err := f.look(ctx, urgent)
		if err == nil {
			urgent = false
		}
		if f.hopeless(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.sealed:
			urgent = true
		case <-wrote.wrote:
		case <-tick.C:
		}
	}
}

// hopeless tells whether to give up after a look. A full disk and a lock of
// another process are waited for, however long that takes.
func (f *follower) hopeless(err error) bool {
	switch {
	case err == nil:
		if f.failed > 0 {
			f.d.o.Log.Info("the database can be used again")
		}
		f.failed = 0
		return false
	case errors.Is(err, devicestore.ErrClosed):
		return true
	case f.failed == 0:
		f.d.o.Log.Error("the database cannot be used", "err", err)
	case errors.Is(err, devicestore.ErrDiskFull), errors.Is(err, devicestore.ErrBusy):
		return false
	}
	f.failed++
	return f.failed >= maxLooks
}

// look does what a change of the database asks for. A write, of this process or
// of another, shows as an intent that is not sealed, and is urgent once: when
// that is done, here or by a pusher that was faster.
func (f *follower) look(ctx context.Context, urgent bool) error {
	version, err := f.d.store.DataVersion()
	if err != nil {
		return err
	}
	if version != f.version || urgent {
		sealed, err := f.d.sealAll()
		if err != nil {
			return err
		}
		if err := f.reconcile(ctx); err != nil {
			return err
		}
		if err := f.schedule(); err != nil {
			return err
		}
		for _, p := range f.pairs {
			if urgent || sealed > 0 {
				p.urgent.Store(true)
			}
			poke(p.push)
			poke(p.pull)
		}
		f.version = version
		poke(f.rows)
	}
	if f.due.IsZero() || f.due.After(f.d.o.Now()) {
		return nil
	}
	if _, err := f.d.applyDue(); err != nil {
		return err
	}
	return f.schedule()
}

// schedule reads when the next deferred event is due.
func (f *follower) schedule() error {
	due, some, err := f.d.store.NextDue()
	if f.due = due; !some {
		f.due = time.Time{}
	}
	return err
}

// reconcile starts the goroutines of relays that are new, and ends those of
// relays that are gone.
func (f *follower) reconcile(ctx context.Context) error {
	relays, err := f.d.store.Relays()
	if err != nil {
		return err
	}
	there, urls := map[int64]bool{}, map[string]bool{}
	for _, rel := range relays {
		there[rel.ID], urls[rel.URL] = true, true
		if f.pairs[rel.ID] != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		p := &pair{cancel: cancel, push: make(chan struct{}, 1), pull: make(chan struct{}, 1)}
		f.pairs[rel.ID] = p
		pusher := &pusher{f: f, pair: p, link: f.d.newLink(rel, false, nil)}
		pusher.link.sealed = func() { poke(f.sealed) }
		puller := &puller{f: f, pair: p, link: f.d.newLink(rel, false, nil)}
		f.group.Go(func() { pusher.run(own) })
		f.group.Go(func() { puller.run(own) })
	}
	gone := false
	for id, p := range f.pairs {
		if !there[id] {
			p.cancel()
			delete(f.pairs, id)
			gone = true
		}
	}
	if gone {
		f.d.forgetPeers(func(url string) bool { return urls[url] })
	}
	return nil
}

// watch tells of rows that change.
func (f *follower) watch(ctx context.Context) {
	after := f.o.After
	for {
		rows, err := f.d.store.Changes(after, watchRows)
		if err != nil {
			f.d.o.Log.Error("reading what has changed", "err", err)
		}
		for _, row := range rows {
			if ctx.Err() != nil {
				return
			}
			f.o.Change(row)
			after = row.Change
		}
		if len(rows) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-f.rows:
		}
	}
}

// fetch brings the chunks of blobs that have come.
func (f *follower) fetch(ctx context.Context) {
	for {
		pause := time.Duration(-1)
		if err := f.d.fetchMissing(ctx, func(Progress) {}); err != nil && ctx.Err() == nil {
			f.d.o.Log.Warn("fetching blobs", "err", err)
			pause = f.d.o.TerminalPause
		}
		if !rest(ctx, f.came, pause) {
			return
		}
	}
}

// rest waits for a poke, or for d if that is not below 0. It tells whether ctx
// goes on.
func rest(ctx context.Context, poked <-chan struct{}, d time.Duration) bool {
	var over <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-poked:
	case <-over:
	}
	return ctx.Err() == nil
}

// untilPoked is a rest without an end of its own.
const untilPoked = time.Duration(-1)
