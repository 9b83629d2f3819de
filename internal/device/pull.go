package device

import (
	"context"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// idlePages is how many pages in a row may bring nothing new. A relay with
	// default limits needs some 180 to repeat all that a quota holds, of which
	// the seen set has 50,000 events.
	idlePages = 256
	// maxCursors bounds the cursors that a guard remembers.
	maxCursors = 1 << 16
	// staleFirst and staleLongest are the pauses while another process pulls
	// from the same relay and is faster.
	staleFirst, staleLongest = 20 * time.Millisecond, time.Second
)

var cursorSeed = maphash.MakeSeed()

// guard ends the drain of a relay that does not get anywhere (L4). The zero
// value is ready.
type guard struct {
	had        map[uint64]struct{} // hashes of cursors
	generation int64               // of the relay that they were had in
	idle       int                 // pages without anything new
}

func (g *guard) reset() { *g = guard{} }

// step admits a page with events that leads from one cursor to the next.
func (g *guard) step(after, next string) error {
	if g.had == nil || len(g.had) > maxCursors {
		g.had = map[uint64]struct{}{} // a longer round is caught by idle
	}
	g.had[maphash.String(cursorSeed, after)] = struct{}{}
	hash := maphash.String(cursorSeed, next)
	if _, again := g.had[hash]; again {
		return &fault{reasonBadCursor, "it leads to where the pull has been"}
	}
	g.had[hash] = struct{}{}
	return nil
}

// count takes what a page came to.
func (g *guard) count(a devicestore.Applied) error {
	if a.New > 0 || a.Rows > 0 || a.Deferred > 0 {
		g.idle = 0
		return nil
	}
	if g.idle++; g.idle < idlePages {
		return nil
	}
	g.idle = 0
	return &fault{reasonNoProgress, "many pages bring nothing new"}
}

// fetched is a page with its envelopes opened, or why there is none.
type fetched struct {
	after, next string
	count       int
	now         time.Time // when it was opened
	events      []devicestore.Event
	refused     []devicestore.Refusal
	err         error
}

// open opens a page that was asked for after a cursor.
func (l *link) openPage(r *remote, after string, p page) fetched {
	f := fetched{after: after, next: p.next, count: len(p.events), now: l.d.o.Now()}
	f.events, f.refused = l.d.openPage(r.id, p, f.now)
	return f
}

// fetch pulls page after page and hands each over, opened, while the one before
// is applied. It ends after a page without events, an error, or with ctx.
func (l *link) fetch(ctx context.Context, r *remote, after string, out chan<- fetched) {
	defer close(out)
	for {
		p, err := r.pull(ctx, after, l.d.o.PullEvents)
		f := fetched{after: after, err: err}
		if err == nil {
			f = l.openPage(r, after, p)
		}
		select {
		case out <- f:
		case <-ctx.Done():
			return
		}
		if err != nil || f.count == 0 {
			return
		}
		after = f.next
	}
}

// apply applies one page (L2). Stale tells that another process was faster. The
// walk goes on from where that one is, which may be in the middle of this page:
// nothing is held against the relay that this one has not applied. A relay that
// another process has forgotten counts from its start again.
func (l *link) apply(rel devicestore.Relay, f fetched) (devicestore.Applied, error) {
	if l.guard.generation != rel.Generation {
		l.guard = guard{generation: rel.Generation}
	}
	if err := l.guard.step(f.after, f.next); err != nil {
		return devicestore.Applied{}, err
	}
	a, err := l.d.store.ApplyPage(l.relay, devicestore.Page{
		After: f.after, Next: f.next, Generation: rel.Generation, Events: f.events, Refused: f.refused,
	}, f.now) // what is of the future was decided then
	if a.Stale {
		l.guard.had = nil
	}
	if err != nil || a.Stale {
		return a, local(err)
	}
	l.report.Pulled += int64(f.count)
	l.report.Rows += int64(a.Rows)
	l.report.Deferred += int64(a.Deferred)
	l.report.Refused += int64(len(f.refused))
	l.tell("pull", l.report.Pulled, l.expected)
	return a, l.guard.count(a)
}

// pages pulls from a relay's cursor to the end and applies what comes. end is
// false when another process has moved the cursor. Its fetching goroutine has
// ended when it returns.
func (l *link) pages(ctx context.Context, rel devicestore.Relay, r *remote) (end bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan fetched)
	go l.fetch(ctx, r, rel.Cursor, out)
	defer func() {
		cancel()
		for range out { //nolint:revive // until the goroutine has ended
		}
	}()
	for f := range out {
		if f.err != nil || f.count == 0 {
			return f.err == nil, f.err
		}
		if a, err := l.apply(rel, f); err != nil || a.Stale {
			return false, err
		}
	}
	return false, ctx.Err()
}

// drain pulls until the relay has nothing more (D32), and then looks whether
// what it had acknowledged came back: again is how many events it is owed once
// more because they did not. A relay that has lost the owner is owed
// everything, and the drain goes on from its start (D35).
func (l *link) drain(ctx context.Context) (again int, err error) {
	l.guard.had, l.unknown = nil, false
	mark, err := l.d.store.BeginDrain(l.relay)
	if err != nil {
		return 0, local(err)
	}
	pause := staleFirst
	for {
		rel, r, err := l.open()
		if err != nil {
			return 0, err
		}
		if err := l.learn(ctx, rel, r); err != nil {
			return 0, err
		}
		end, err := l.pages(ctx, rel, r)
		if f, ok := refused(err, http.StatusNotFound); ok {
			forgot, err := l.lost(ctx, rel, r, f)
			if err != nil || !forgot {
				l.unknown = err == nil
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		if end {
			return l.endDrain(rel, mark)
		}
		// Each time, another one has stored a cursor, and its drain ends (L4).
		if err := client.Pause(ctx, pause); err != nil {
			return 0, err
		}
		pause = min(2*pause, staleLongest)
	}
}

// endDrain ends a drain that began at a mark and came to the end.
func (l *link) endDrain(rel devicestore.Relay, mark int64) (again int, err error) {
	again, withheld, err := l.d.store.EndDrain(l.relay, rel.Generation, mark)
	if err != nil {
		return 0, local(err)
	}
	if again > 0 || withheld > 0 {
		l.d.o.Log.Warn("the relay does not give back what it took", "relay", l.url, "again", again, "withheld", withheld)
	}
	return again, nil
}
