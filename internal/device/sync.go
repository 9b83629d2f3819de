package device

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// syncRelays is how many relays a Sync talks to at once.
	syncRelays = 8
	// syncRounds bounds the rounds of pushing and pulling with one relay: it may
	// lose the owner once, and each event may come to nothing three times.
	syncRounds = 6
)

// Progress is one step of a transfer. Phase is "blobs", "push", "pull",
// "compact" or "fetch"; Done and Total count what the phase is about, and Total
// is what is known so far.
type Progress struct {
	Relay, Phase string
	Done, Total  int64
}

// SyncOptions are what a Sync can be told.
type SyncOptions struct {
	// Progress is called from several goroutines, one at a time. It must not
	// block for long.
	Progress func(Progress)
	// Blobs fetches the chunks of all blobs too.
	Blobs bool
}

// RelayReport is what a Sync did with one relay. Counts are of events, Rows of
// rows that changed here, Refused of envelopes that were skipped (D11).
type RelayReport struct {
	Relay                                   string
	Pushed, Pulled, Rows, Refused, Deferred int64
	// Reseeded tells that the relay had lost the owner (D35).
	Reseeded bool
	Err      error
}

// Report is what a Sync did, in the order of the relays.
type Report struct{ Relays []RelayReport }

// Sync brings every relay and this device up to date, whatever back-off a relay
// is in (D34). One relay's failure does not stop the others; the error joins
// theirs. It is ErrNoRelays when there is none, and matches ErrOwnerClosed when
// one has closed the owner. Any goroutine and any process may sync at any time.
func (d *Device) Sync(ctx context.Context, o SyncOptions) (Report, error) {
	relays, err := d.store.Relays()
	if err != nil {
		return Report{}, err
	}
	if len(relays) == 0 {
		return Report{}, ErrNoRelays
	}
	_, dueErr := d.applyDue() // what becomes a row may be owed
	progress := oneAtATime(o.Progress)
	report := Report{Relays: make([]RelayReport, len(relays))}
	var group sync.WaitGroup
	slots := make(chan struct{}, syncRelays)
	for i, rel := range relays {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			l := d.newLink(rel, true, progress)
			err := l.sync(ctx)
			l.report.Err = err
			report.Relays[i] = l.report
		})
	}
	group.Wait()
	errs := []error{dueErr}
	for _, r := range report.Relays {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Relay, r.Err))
		}
	}
	_, err = d.applyDue()
	errs = append(errs, err)
	if o.Blobs && ctx.Err() == nil {
		errs = append(errs, d.fetchMissing(ctx, progress))
	}
	return report, errors.Join(errs...)
}

// oneAtATime makes a callback safe for several goroutines.
func oneAtATime(f func(Progress)) func(Progress) {
	if f == nil {
		return func(Progress) {}
	}
	var mu sync.Mutex
	return func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		f(p)
	}
}

// sync brings one relay up to date.
func (l *link) sync(ctx context.Context) error {
	s, err := l.check(ctx)
	if err != nil {
		// Both lanes would only find the same.
		err = l.settle(ctx, false, err)
		if _, isLocal := errors.AsType[*localError](err); isLocal {
			return err
		}
		return l.settle(ctx, true, err)
	}
	if s.doubt {
		// A push would register the owner anew, and hide that it was lost. The
		// pull decides (D35).
		if err := l.pullOnce(ctx); err != nil && !answered(err) {
			return err
		}
	}
	for range syncRounds {
		more, err := l.round(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if err := l.acquaint(ctx); err != nil {
		return err
	}
	return l.synced()
}

// acquaint takes down since when a relay knows the owner as soon as it does.
// Without that a relay with small numbers could be wiped before the next check,
// be filled by another device, and look like itself (S35). A relay that does not
// tell is asked again by the next check.
func (l *link) acquaint(ctx context.Context) error {
	rel, r, err := l.open()
	if err != nil || rel.Account != "" || rel.Cursor == "" {
		return err
	}
	a, err := r.status(ctx)
	if err != nil || a.CreatedAt == "" {
		return ctx.Err()
	}
	return l.keep(a, rel, r)
}

// round pushes, pulls and tidies. A failure of one does not keep the next from
// being tried, but for tidying. more tells that the relay is owed something
// again: it lost the owner, or a re-key goes on.
func (l *link) round(ctx context.Context) (more bool, err error) {
	blobErr := l.blobs(ctx, true)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	pushErr := l.settle(ctx, true, l.push(ctx))
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	pullErr := l.pullOnce(ctx)
	if err := errors.Join(blobErr, pushErr, pullErr); err != nil {
		return false, err
	}
	if err := l.settle(ctx, true, l.tidy(ctx, true)); err != nil {
		return false, err
	}
	rel, err := l.d.store.Relay(l.relay)
	return rel.Owed > 0, local(err)
}

// pullOnce drains and stores how it went.
func (l *link) pullOnce(ctx context.Context) error {
	_, err := l.drain(ctx)
	return l.settle(ctx, false, err)
}

// synced notes that both sides were equal a moment ago.
func (l *link) synced() error {
	rel, err := l.d.store.Relay(l.relay)
	if err != nil {
		return local(err)
	}
	now := l.d.o.Now()
	if rel.Owed > 0 || !stale(rel, now) {
		return nil
	}
	return local(l.d.store.SetSynced(l.relay, now))
}

// stale tells whether the time of the last sync is worth storing anew: it wakes
// whoever looks at the database.
func stale(rel devicestore.Relay, now time.Time) bool {
	age := now.Sub(rel.SyncedAt)
	return age < 0 || age >= time.Second
}
