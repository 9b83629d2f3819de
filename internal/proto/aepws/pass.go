package aepws

import (
	"slices"
	"time"
)

const (
	// passEvents bounds how many events one pass looks at.
	passEvents = 4096
	// lookTries is how many groups are touched, about, between two looks at the
	// clock, and lookWrites how many writes of a pass go out.
	lookTries  = 256
	lookWrites = 32
)

// pass is the serving of the events [feed.next, to).
type pass struct {
	to     int64    // 0: none is under way
	groups []*group // with events
	gi     int      // that is served
	built  bool
	writes int
	batch  batch // of the group that is served
	first  int64 // number of its first event
	page   []*entry
	asked  bool // a page is being read, or could not be
	failed bool
}

// edge returns the number from which on groups have served nobody.
func (f *feed) edge() int64 {
	if f.pass.to != 0 {
		return f.pass.to
	}
	return f.next
}

// runPasses serves what there is until deadline, and tells whether something is
// left.
func (f *feed) runPasses(deadline time.Time) (more bool) {
	for {
		if f.pass.to == 0 {
			if len(f.groups) == 0 {
				f.next, f.pass.page = f.h.tail.next(), nil
			}
			if f.next >= f.h.tail.next() || !f.startPass(deadline) {
				return false
			}
		}
		for f.pass.gi < len(f.pass.groups) {
			if !f.serveGroup(f.pass.groups[f.pass.gi], deadline) {
				return true
			}
			f.pass.gi++
		}
		clear(f.pass.groups)
		f.next, f.pass.to = f.pass.to, 0
		f.pass.groups, f.pass.gi, f.pass.writes = f.pass.groups[:0], 0, 0
		if !f.w.Loop().Now().Before(deadline) {
			return f.next < f.h.tail.next()
		}
	}
}

// startPass matches events from next on, until one group has a batch or matching
// alone has taken up the turn. It returns false when the next event has to be
// read from the log first.
func (f *feed) startPass(deadline time.Time) bool {
	to := min(f.h.tail.next(), f.next+passEvents)
	n, tried := f.next, 0
	for full := false; n < to && !full; n++ {
		e := f.passing(n)
		if e == nil {
			if n == f.next {
				f.readPass()
				return false
			}
			break // what was matched is served first
		}
		full = f.match(e)
		if tried += 1 + len(f.index.scan) + len(f.index.hits); tried >= f.bounds.tries {
			tried = 0
			full = full || !f.w.Loop().Now().Before(deadline)
		}
	}
	f.pass.to = n
	return true
}

// passing returns an event for the pass, nil if it is not in memory.
func (f *feed) passing(n int64) *entry {
	if page := f.pass.page; len(page) > 0 {
		if i := n - page[0].number; i >= 0 && i < int64(len(page)) {
			return page[i]
		}
		f.pass.page = nil
	}
	return f.h.tail.at(n)
}

// match adds an event to the batches of its groups, and tells whether one of them
// is full.
func (f *feed) match(e *entry) (full bool) {
	if e.stale {
		return false
	}
	for _, g := range f.index.match(e) {
		if len(g.members) > 0 {
			if len(g.events) == 0 {
				g.matchedAt, g.firmAt = g.matched, g.firm
				f.pass.groups = append(f.pass.groups, g)
			}
			g.events = append(g.events, e)
			g.bytes += len(e.text) + frameBytes
			full = full || len(g.events) == f.bounds.frames || g.bytes >= batchBytes
		}
		g.matched++
		if g.isFirm(e) {
			g.firm++
		}
	}
	return full
}

// serveGroup gives the members the group's batch, and tells whether all have it.
func (f *feed) serveGroup(g *group, deadline time.Time) (over bool) {
	p := &f.pass
	if !p.built {
		f.buildPass(g)
	}
	count := 0
	for g.served < len(g.members) && len(p.batch.frames) > 0 {
		if p.writes++; p.writes%f.bounds.writes == 0 && !f.w.Loop().Now().Before(deadline) {
			f.h.counts.delivered.Add(int64(count))
			return false
		}
		count += f.deliver(g, &g.members[g.served])
	}
	f.h.counts.delivered.Add(int64(count))
	if last := len(p.batch.marks) - 1; last >= 0 {
		e := p.batch.marks[last].e
		g.lastID, g.lastNumber = e.id, e.number
	}
	p.batch.reset()
	p.built = false
	clear(g.events)
	g.events, g.bytes, g.served = g.events[:0], 0, 0
	return true
}

// buildPass makes the frames of a group's events.
func (f *feed) buildPass(g *group) {
	b, now := &f.pass.batch, f.w.Loop().Now()
	firm := int32(0)
	for ord, e := range g.events {
		if !e.expired(now) { // B61
			b.add(e, g.key.wish, int32(ord), firm)
		}
		if g.isFirm(e) {
			firm++
		}
	}
	b.build(g.key.id, 0)
	if f.pass.built, g.served = true, 0; len(b.marks) > 0 {
		f.pass.first = b.marks[0].e.number
	}
}

// deliver gives one member the batch. Who does not get all of it falls behind and
// reads the rest by itself.
func (f *feed) deliver(g *group, m *member) (delivered int) {
	b := &f.pass.batch
	first, end := 0, 0
	if m.start > f.pass.first {
		for first < len(b.marks) && b.marks[first].e.number < m.start {
			first++
		}
		end = first
	}
	switch {
	case m.alone || first == len(b.frames):
	case b.firm == 0 && first == 0: // most often
		end = m.peer.SendFrames(b.joined, b.frames)
		if end > 0 && m.peer.Owes() {
			b.lent = true
		}
	default:
		end = b.send(f, m.peer, m.s, first)
	}
	if end == len(b.frames) {
		g.served++
	} else {
		f.fallBehind(g, m.s, first, end)
	}
	return end - first
}

// lost tells the loop's subscriptions that events have left the log before a
// pass came to them: all that were waiting for one of these end.
func (f *feed) lost(evicted int64) {
	for _, g := range f.groups {
		for i := len(g.members) - 1; i >= 0; i-- {
			s := g.members[i].s
			if s.next = max(f.next, g.members[i].start); s.next > evicted {
				continue
			}
			f.tooSlow(s)
		}
	}
	for _, s := range slices.Clone(f.behind) {
		if !s.ended && s.replay == nil && s.next <= evicted {
			f.tooSlow(s)
		}
	}
	f.next = max(f.next, evicted+1)
}
