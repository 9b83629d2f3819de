package device

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// checkEvery is how often a relay's account and features are looked at
	// while nothing goes wrong.
	checkEvery = 5 * time.Minute
	// endEvery is how long what a relay took may stay unseen until a drain is
	// made that finds out.
	endEvery = time.Minute
	// manyEvents in the page of a wait mean that a drain, which overlaps
	// fetching and applying, is faster.
	manyEvents = 100
	// quickAnswer is what no wait that brings nothing takes less than, unless
	// the relay does not wait.
	quickAnswer = time.Second
)

// puller is the goroutine that pulls from a relay.
type puller struct {
	f *follower
	*pair
	link *link

	// Times are of the monotonic clock: what elapses here is not stored.
	waits   bool      // the relay holds pulls (S52)
	noWait  bool      // a wait was not found; the drain that follows decides
	plain   bool      // the next pull is a plain drain
	checkAt time.Time // of the next check
	pollAt  time.Time // no pull before, unless soon
	endedAt time.Time // of the last drain that came to the end
}

func (p *puller) run(ctx context.Context) {
	failure := complaint{what: "cannot pull", relay: p.link.url}
	for {
		d, err := p.once(ctx)
		if err != nil && ctx.Err() == nil {
			failure.say(p.f.d.o.Log, time.Now(), err)
		}
		if d != 0 && !rest(ctx, p.pull, d) || ctx.Err() != nil {
			return
		}
	}
}

// once makes one pull, or waits for an event, unless there is a back-off. It
// returns how long to rest.
func (p *puller) once(ctx context.Context) (time.Duration, error) {
	l, d := p.link, p.f.d
	rel, err := d.store.Relay(l.relay)
	if errors.Is(err, devicestore.ErrNoRelay) || err == nil && rel.Closed {
		return untilPoked, nil
	}
	if err != nil {
		return d.o.Pace, err
	}
	if left := d.remaining(rel.Pull.Until); left > 0 {
		p.checkAt = time.Time{} // much may have happened until then
		return left, nil
	}
	now := time.Now()
	if left := p.pollAt.Sub(now); left > 0 && !p.soon.Swap(false) {
		return min(left, d.o.Pace), nil
	}
	if !now.Before(p.checkAt) {
		s, err := l.check(ctx)
		if err = l.settleIf(ctx, err); err != nil {
			return p.after(err)
		}
		p.waits, p.noWait, p.plain, p.checkAt = s.waits, false, true, now.Add(checkEvery)
	}
	if rel.Unseen > 0 && now.Sub(p.endedAt) > endEvery {
		p.plain = true
	}
	if err := l.acquaint(ctx); err != nil {
		return p.after(err)
	}
	if p.plain || !p.waits {
		return p.drain(ctx)
	}
	return p.wait(ctx)
}

// settleIf is settle of the pull lane for failures alone.
func (l *link) settleIf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return l.settle(ctx, false, err)
}

// after returns the rest after a failure, which settle has stored, or which is
// of this machine.
func (p *puller) after(err error) (time.Duration, error) {
	p.checkAt = time.Time{}
	if rel, loadErr := p.f.d.store.Relay(p.link.relay); loadErr == nil {
		if left := p.f.d.remaining(rel.Pull.Until); left > 0 {
			return left, err
		}
	}
	return p.f.d.o.Pace, err
}

// drain pulls to the end, and decides how to go on.
func (p *puller) drain(ctx context.Context) (time.Duration, error) {
	l, d := p.link, p.f.d
	before := l.report.Rows
	again, err := l.drain(ctx)
	p.tell(l.report.Rows > before)
	if again > 0 || l.forgot {
		l.forgot = false
		poke(p.push)
	}
	if err = l.settle(ctx, false, err); err != nil {
		return p.after(err)
	}
	p.plain, p.endedAt = false, time.Now()
	if p.noWait && !l.unknown {
		p.waits = false // the relay has the owner, so it is the route that it has not
	}
	p.noWait = false
	if err := l.synced(); err != nil {
		return d.o.Pace, err
	}
	if p.waits && !l.unknown {
		return 0, nil
	}
	p.plain = true
	p.pollAt = time.Now().Add(d.o.Pace)
	return d.o.Pace, nil
}

// wait holds a pull at the relay until an event comes (S52).
func (p *puller) wait(ctx context.Context) (time.Duration, error) {
	l, d := p.link, p.f.d
	mark, err := d.store.BeginDrain(l.relay)
	if err != nil {
		return d.o.Pace, err
	}
	rel, r, err := l.open()
	if err != nil {
		return d.o.Pace, err
	}
	began := time.Now()
	page, came, err := r.wait(ctx, rel.Cursor, d.o.PullEvents, waitTime)
	if _, missing := refused(err, http.StatusNotFound); missing {
		p.plain, p.noWait = true, true
		return 0, nil
	}
	if err != nil {
		return p.after(l.settle(ctx, false, err))
	}
	if !came || len(page.events) == 0 {
		return p.nothing(ctx, rel, mark, time.Since(began))
	}
	got := l.openPage(r, rel.Cursor, page)
	a, err := l.apply(rel, got)
	p.tell(a.Rows > 0)
	switch {
	case err != nil:
		return p.after(l.settle(ctx, false, err))
	case a.Stale:
		return staleFirst, nil // another process pulls too
	case got.count >= manyEvents:
		p.plain = true
		return 0, nil
	case a.New == 0:
		return 0, nil // a lane that gets nowhere keeps its count of failures
	}
	if err := l.settle(ctx, false, nil); err != nil {
		return d.o.Pace, err
	}
	return 0, l.synced()
}

// nothing takes a wait that brought no event: the drain that the mark began has
// come to its end.
func (p *puller) nothing(ctx context.Context, rel devicestore.Relay, mark int64, took time.Duration) (time.Duration, error) {
	l, d := p.link, p.f.d
	again, err := l.endDrain(rel, mark)
	if err == nil {
		err = l.settle(ctx, false, nil)
	}
	if err == nil {
		err = l.synced()
	}
	if err != nil {
		return d.o.Pace, err
	}
	p.endedAt = time.Now()
	l.guard.reset()
	if again > 0 {
		poke(p.push)
	}
	if took < quickAnswer {
		p.pollAt = time.Now().Add(d.o.Pace)
		return d.o.Pace, nil
	}
	return 0, nil
}

// tell lets those know who wait for rows.
func (p *puller) tell(rows bool) {
	if rows {
		poke(p.f.rows)
		poke(p.f.came)
	}
}
