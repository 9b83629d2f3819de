package device

import (
	"context"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// link is one relay during one call of Sync, or for one of its two goroutines
// in Follow. One goroutine uses it.
type link struct {
	d     *Device
	relay int64
	url   string
	// explicit is set for Sync: a back-off does not hold it, and it re-seeds
	// at once, once (D34, L5).
	explicit bool
	// progress is told of each request that moved something; never nil.
	progress func(Progress)
	// sealed is told that intents were sealed, which other links may have to
	// push too; never nil.
	sealed func()

	report   RelayReport
	expected int64 // events of a pull from the start, as the relay says; 0 unknown
	forgot   bool  // in this call
	unknown  bool  // the last drain was told that there is no owner yet
	well     bool  // /health said at the last check that this is a relay and well
	guard    guard
	learned  limits
}

// limits are what a relay was found to take in one push, until they are tried
// anew; zero for what nobody has found out.
type limits struct {
	count, bytes int
	until        time.Time
}

// limitsFor is how long a limit is believed.
const limitsFor = time.Hour

// newLink returns a link to a relay of the store.
func (d *Device) newLink(rel devicestore.Relay, explicit bool, progress func(Progress)) *link {
	if progress == nil {
		progress = func(Progress) {}
	}
	return &link{
		d: d, relay: rel.ID, url: rel.URL, explicit: explicit, progress: progress, sealed: func() {},
		report: RelayReport{Relay: rel.URL},
	}
}

// open reads the relay as it is now, and then the owner: see identity. The
// error is of the store.
func (l *link) open() (devicestore.Relay, *remote, error) {
	rel, err := l.d.store.Relay(l.relay)
	if err != nil {
		return rel, nil, local(err)
	}
	id, err := l.d.identity()
	if err != nil {
		return rel, nil, local(err)
	}
	r, err := l.d.remote(rel.URL, id)
	return rel, r, local(err)
}

// tell reports progress of a phase.
func (l *link) tell(phase string, done, total int64) {
	l.progress(Progress{Relay: l.url, Phase: phase, Done: done, Total: max(done, total)})
}

// blobs brings the chunks that the relay lacks. A relay that has no room for
// them still takes events. atOnce is in spite of a pause.
func (l *link) blobs(ctx context.Context, atOnce bool) error {
	rel, r, err := l.open()
	if err != nil || rel.Blobs == 0 {
		return err
	}
	return l.d.deliverBlobs(ctx, r, rel, atOnce, l.progress)
}

// tidy does what can wait until the relay has every event: streams of purged
// rows (D36), and a re-key that is under way (D39), if the relay was pulled
// from.
func (l *link) tidy(ctx context.Context, pulled bool) error {
	if err := l.compact(ctx); err != nil || !pulled {
		return err
	}
	rel, err := l.d.store.Relay(l.relay)
	if err != nil {
		return local(err)
	}
	return l.d.finishRekey(ctx, rel)
}
