package device

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// chunksFirst is how long events wait for the chunks of blobs, so that whoever
// gets a manifest finds what it names. A larger delivery goes on beside them.
const chunksFirst = 2 * time.Second

// pusher is the goroutine that pushes to a relay. Another one, of which there is
// one at a time, brings chunks.
type pusher struct {
	f *follower
	*pair
	link       *link
	delivering chan error // of the delivery under way, nil for none
	blobs      time.Time  // chunks are not tried before
	failed     devicestore.Lane
}

func (p *pusher) run(ctx context.Context) {
	failure := complaint{what: "cannot push", relay: p.link.url}
	for {
		d, err := p.once(ctx, p.urgent.Swap(false))
		if err != nil && ctx.Err() == nil {
			failure.say(p.f.d.o.Log, time.Now(), err)
		}
		if !rest(ctx, p.push, d) {
			return
		}
	}
}

// once pushes if there is something to push and no back-off, or an urgent
// reason to do so. It returns how long to rest.
func (p *pusher) once(ctx context.Context, urgent bool) (time.Duration, error) {
	l, d := p.link, p.f.d
	rel, err := d.store.Relay(l.relay)
	if errors.Is(err, devicestore.ErrNoRelay) || err == nil && rel.Closed {
		return untilPoked, nil
	}
	if err != nil {
		return d.o.Pace, err
	}
	if rel.Owed == 0 && rel.Blobs == 0 {
		if some, err := l.untidy(); err != nil || !some {
			return untilPoked, err
		}
	}
	if left := d.remaining(rel.Push.Until); left > 0 && !urgent {
		return left, nil
	}
	blobErr := p.deliver(ctx, urgent)
	before := l.report.Pushed
	err = l.settle(ctx, true, l.push(ctx))
	if l.report.Pushed > before {
		p.soon.Store(true) // the relay knows the owner now
		poke(p.pull)
	}
	if err == nil && blobErr == nil && p.delivering == nil {
		err = l.settle(ctx, true, l.tidy(ctx, rel.Cursor != ""))
	}
	return p.pause(err, blobErr), errors.Join(err, blobErr)
}

// deliver brings blobs, with a pause of its own after a failure. It waits for a
// delivery that it has begun, for chunksFirst at most; one that takes longer
// pokes the pusher when it ends.
func (p *pusher) deliver(ctx context.Context, urgent bool) error {
	d := p.f.d
	select {
	case err := <-p.delivering: // nil blocks
		if err := p.delivered(err); err != nil {
			return err
		}
	default:
	}
	rel, err := d.store.Relay(p.link.relay)
	if err != nil || rel.Blobs == 0 || p.delivering != nil || !urgent && d.remaining(p.blobs) > 0 {
		return local(err)
	}
	ended, late, carrier := make(chan error, 1), make(chan struct{}), d.newLink(rel, false, nil)
	p.delivering = ended
	p.f.group.Go(func() {
		ended <- carrier.blobs(ctx, urgent)
		select {
		case <-late:
			poke(p.push)
		default: // who waits for it needs no poke, which would begin the next one
		}
	})
	patience := time.NewTimer(chunksFirst)
	defer patience.Stop()
	select {
	case err := <-ended:
		return p.delivered(err)
	case <-patience.C:
	case <-ctx.Done():
	}
	close(late)
	select {
	case err := <-ended: // before it knew that it was late
		return p.delivered(err)
	default:
		return nil
	}
}

// delivered takes down how a delivery went.
func (p *pusher) delivered(err error) error {
	d := p.f.d
	p.delivering = nil
	if err == nil {
		p.failed, p.blobs = devicestore.Lane{}, time.Time{}
		return nil
	}
	p.failed = d.laneAfter(err, p.failed)
	p.blobs = p.failed.Until
	return err
}

// pause returns how long the pusher rests after an attempt.
func (p *pusher) pause(err, blobErr error) time.Duration {
	d := p.f.d
	rel, loadErr := d.store.Relay(p.link.relay)
	switch {
	case loadErr != nil:
		return d.o.Pace
	case err != nil:
		return max(d.o.Pace, d.remaining(rel.Push.Until))
	case p.delivering != nil:
		return untilPoked
	case blobErr != nil || rel.Blobs > 0:
		return max(d.o.Pace, d.remaining(p.blobs), d.remaining(d.blobLane(rel.ID).Until))
	}
	return untilPoked // what came meanwhile has left a poke
}

// untidy tells whether tidy has something to do.
func (l *link) untidy() (bool, error) {
	streams, err := l.d.store.Purges(l.relay, 1)
	if err != nil || len(streams) > 0 {
		return err == nil, err
	}
	owners, err := l.d.store.OldOwners(l.relay)
	return len(owners) > 0, err
}
