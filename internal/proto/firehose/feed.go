package firehose

import (
	"math"
	"time"

	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

const (
	// batchFrames and batchBytes bound what goes to a socket in one write, and so
	// what a pass copies once for all who are live.
	batchFrames = 64
	batchBytes  = 128 << 10

	// sweepInterval is how often the consumers that are behind are looked at, if
	// they are more than sweepAlways.
	sweepInterval = 20 * time.Millisecond
	sweepAlways   = 64
)

// feed is the delivery side of one loop: it moves frames from the ring to the
// loop's consumers. Those that are live are in groups; one that fell behind, or
// replays, reads the ring by itself when its socket has taken what it was given.
// It implements loop.Drainer. Owned by the loop.
type feed struct {
	w    *serve.Worker
	ring *stream.Ring
	pin  *stream.Pin

	// groups are the live consumers, by what they exclude: there are 16 at most.
	groups map[stream.Kinds]*group
	// behind are the consumers that are not live; c.at is the place of c. Lowest
	// is not above the lowest position that one of them needs; it is exact after
	// a sweep.
	behind []*consumer
	lowest stream.Pos
	swept  time.Time
	// ready are those of them whose sockets have room; spare is memory for it.
	ready, spare []*consumer

	batch batch // of the consumer that is being served
}

// newFeed returns the feed of a worker's loop.
func newFeed(w *serve.Worker, ring *stream.Ring) *feed {
	f := &feed{w: w, ring: ring, pin: ring.Pin(), groups: map[stream.Kinds]*group{}}
	w.Loop().AddDrainer(f)
	return f
}

// Drain implements loop.Drainer.
func (f *feed) Drain(deadline time.Time) (more bool) {
	for exclude, g := range f.groups {
		more = g.run(deadline) || more
		if len(g.members) == 0 && !g.passing {
			delete(f.groups, exclude)
		}
	}
	more = f.serveReady(deadline) || more
	f.sweep()
	f.setPin()
	return more
}

// add begins with a consumer that goes on from pos.
func (f *feed) add(c *consumer, pos stream.Pos) {
	c.pos, c.at = pos, len(f.behind)
	if len(f.behind) == 0 || pos < f.lowest {
		f.lowest = pos
	}
	f.behind = append(f.behind, c)
	c.peer.NotifyDrained()
}

// take takes a consumer out of those that are behind.
func (f *feed) take(c *consumer) {
	last := len(f.behind) - 1
	f.behind[c.at] = f.behind[last]
	f.behind[c.at].at = c.at
	f.behind[last] = nil
	f.behind = f.behind[:last]
	c.at = notBehind
}

// remove forgets a consumer that ends or is gone. A turn follows, so that the
// ring hears at once what is not needed any more (F33).
func (f *feed) remove(c *consumer) {
	switch {
	case c.group != nil:
		c.group.take(c)
	case c.at != notBehind:
		f.take(c)
	default:
		return
	}
	f.w.Loop().Ring()
}

// isBehind tells whether a consumer reads the ring by itself.
func (c *consumer) isBehind() bool { return c.group == nil && c.at != notBehind }

// wake puts a consumer that has room among those that are served next.
func (f *feed) wake(c *consumer) {
	if !c.isBehind() || c.ready {
		return
	}
	c.ready = true
	f.ready = append(f.ready, c)
	f.w.Loop().Ring()
}

// serveReady gives each consumer that has room its next batch, once, and tells
// whether some have room for more.
func (f *feed) serveReady(deadline time.Time) (more bool) {
	now := f.ready
	f.ready = f.spare[:0]
	for i, c := range now {
		if i > 0 && !f.w.Loop().Now().Before(deadline) {
			f.ready = append(f.ready, now[i:]...)
			break
		}
		c.ready = false
		if c.isBehind() {
			f.catchUp(c)
		}
	}
	clear(now)
	f.spare = now
	return len(f.ready) > 0
}

// catchUp sends a consumer what comes next for it, or makes it live when it is
// where its group is. One that leaves is never made live: it would get no end
// (F48).
func (f *feed) catchUp(c *consumer) {
	switch {
	case c.leaving && c.pos == f.ring.Next():
		c.peer.EndStream()
		return
	case !c.leaving && f.goLive(c):
		return
	}
	next, err := f.batch.fetch(f.ring, c.pos, c.exclude)
	if err != nil {
		c.tooSlow()
		return
	}
	c.pos = f.batch.after(c.peer.SendFrames(f.batch.joined, f.batch.bytes), next)
	f.batch.release()
	c.peer.NotifyDrained() // at once, if the socket has taken all
}

// goLive makes a consumer a member of its group if it is where that is.
func (f *feed) goLive(c *consumer) bool {
	g := f.groups[c.exclude]
	if g == nil {
		if c.pos < f.ring.Next() {
			return false
		}
		g = &group{f: f, exclude: c.exclude}
		f.groups[c.exclude] = g
	}
	if !g.accepts(c.pos) {
		return false
	}
	f.take(c)
	g.join(c)
	return true
}

// leave ends a consumer, without a close frame, once it was sent what there is
// (F48).
func (f *feed) leave(c *consumer) {
	c.leaving = true
	if g := c.group; g != nil {
		g.fallBehind(c, g.posOf(c))
	}
}

// drop cuts every consumer.
func (f *feed) drop() {
	for _, g := range f.groups {
		for i := len(g.members) - 1; i >= 0; i-- {
			g.members[i].peer.Cut()
		}
	}
	for i := len(f.behind) - 1; i >= 0; i-- {
		f.behind[i].peer.Cut()
	}
}

// sweep looks at those that are behind: one whose next frame is gone is told so
// (F32), and one that excludes what comes next passes over it (F38). What it
// finds out late only keeps frames longer (F31).
func (f *feed) sweep() {
	if len(f.behind) == 0 {
		return
	}
	if now := f.w.Loop().Now(); len(f.behind) <= sweepAlways || now.Sub(f.swept) >= sweepInterval {
		f.swept = now
	} else {
		return
	}
	oldest := f.ring.Oldest()
	lowest := f.ring.Next()
	for i := len(f.behind) - 1; i >= 0; i-- {
		c := f.behind[i]
		if c.exclude != 0 || c.pos < oldest {
			pos, err := f.ring.Seek(c.pos, c.exclude)
			if err != nil {
				c.tooSlow()
				continue
			}
			c.pos = max(c.pos, pos)
		}
		lowest = min(lowest, c.pos)
	}
	f.lowest = lowest
}

// setPin tells the ring the lowest position that the loop's consumers need.
func (f *feed) setPin() {
	lowest := stream.Pos(math.MaxUint64)
	if len(f.behind) > 0 {
		lowest = f.lowest
	}
	for _, g := range f.groups {
		if len(g.members) > 0 {
			lowest = min(lowest, g.pos)
		}
	}
	f.pin.SetMin(lowest)
}
