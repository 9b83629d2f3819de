package fanout

import (
	"slices"
	"time"

	"github.com/sluice-relay/sluice/engine/stream"
)

// pass is the serving of the entries [cursor, to).
type pass struct {
	to     stream.Pos // 0: none is under way
	bytes  int64
	groups []*Group
	gi     int // group being served
	mi     int // next member of it
	writes int // so far
	began  time.Time
}

// runPass serves one pass, or what is left of one, and tells whether it is
// finished.
func (s *Set) runPass(deadline time.Time) (finished bool) {
	if s.pass.to == 0 {
		if !s.active.Load() || s.log.Next() == s.cursor {
			return true
		}
		if !s.startPass(deadline) {
			return true
		}
	}
	for s.pass.gi < len(s.pass.groups) {
		if !s.serveGroup(s.pass.groups[s.pass.gi], deadline) {
			return false
		}
		s.pass.gi++
		s.pass.mi = 0
	}
	s.endPass()
	return true
}

// startPass reads the log from the cursor on and collects a batch for each
// group that is touched. It stops when a batch has its size, and when matching
// alone has taken up the turn. It returns false when the log no longer holds
// what is at the cursor.
func (s *Set) startPass(deadline time.Time) bool {
	s.pass.began = s.lp.Now()
	p := s.cursor
	next := min(s.log.Next(), p+passEntries)
	tried := 0
	for full := false; p < next && !full; p++ {
		e, err := s.log.At(p)
		if err != nil && p == s.cursor {
			s.overrun()
			return false
		}
		if err != nil {
			break // what was read is served first
		}
		s.pass.bytes += int64(e.SizeBytes)
		full = s.matchEntry(e)
		if tried += 1 + len(s.index.scan) + len(s.index.hits); tried >= triesPerLook {
			tried = 0
			full = full || !s.lp.Now().Before(deadline)
		}
	}
	s.stats.Passes++
	s.pass.to = p
	for _, g := range s.pass.groups {
		g.stamp = p
	}
	return true
}

// matchEntry adds e to the batches of the groups that it touches and tells
// whether one of them is full.
func (s *Set) matchEntry(e *stream.Entry) (full bool) {
	s.index.hits = s.index.hits[:0]
	for !s.tryMatch(e) {
	}
	// Events of one group go in the order of its subscriptions.
	if !slices.IsSortedFunc(s.index.hits, bySub) {
		slices.SortStableFunc(s.index.hits, bySub)
	}
	for _, f := range s.index.hits {
		full = s.addHit(e, f) || full
	}
	return full
}

// addHit adds e to the batch of a group and tells whether that is full. When
// the frame cannot be built the group is ended.
func (s *Set) addHit(e *stream.Entry, f *filed) (full bool) {
	g := f.g
	defer func() {
		if r := recover(); r != nil {
			s.lp.CountPanic(r)
			s.endGroup(g, CutPanic)
		}
	}()
	if g.batch == nil {
		g.batch = s.newBatch()
		g.size, g.done = 0, false
		s.pass.groups = append(s.pass.groups, g)
	}
	g.add(e, f.sub)
	return g.size >= s.limits.BatchBytes
}

func bySub(a, b *filed) int { return int(a.sub) - int(b.sub) }

// tryMatch looks e up in the index. When a selector panics its group is ended,
// and the look-up has to be done again for the others; stamps keep those that
// were asked from being asked twice.
func (s *Set) tryMatch(e *stream.Entry) (done bool) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		s.lp.CountPanic(r)
		if f := s.index.trying; f != nil {
			s.index.trying = nil
			s.endGroup(f.g, CutPanic)
			return
		}
		done = true // the event itself is broken
	}()
	s.index.match(e)
	return true
}

// endGroup cuts all members of g.
func (s *Set) endGroup(g *Group, c Cut) {
	for _, m := range append([]*Member(nil), g.members...) {
		if m != nil {
			s.cut(m, c)
		}
	}
}

// overrun ends all live members: the log has moved past the loop's cursor,
// which the caller of Append is bound to prevent.
func (s *Set) overrun() {
	// The cursor goes first: when the last member ends with its group the loop
	// follows nothing any more, and must not say that it is behind.
	s.passed.Store(s.log.TotalBytes())
	s.setCursor(s.log.Next())
	for _, g := range s.groups {
		s.endGroup(g, CutOverrun)
	}
	s.unpark()
}

// serveGroup writes the group's batch to its members from pass.mi on and tells
// whether all were served.
func (s *Set) serveGroup(g *Group, deadline time.Time) (served bool) {
	defer s.contain(g, &served)
	b := g.batch
	if b.refs == 0 {
		g.build()
		b.refs++ // the pass's own hold
	}
	for s.pass.mi < len(g.members) {
		m := g.members[s.pass.mi]
		s.pass.mi++
		if m == nil || m.start >= s.pass.to {
			continue
		}
		s.deliver(g, m, b)
		if s.pass.writes++; s.pass.writes%s.limits.LookWrites == 0 && !s.lp.Now().Before(deadline) {
			return false
		}
	}
	s.finishGroup(g)
	return true
}

func (s *Set) finishGroup(g *Group) {
	b := g.batch
	g.batch, g.done = nil, true
	if b.refs--; b.refs == 0 {
		s.recycle(b)
	}
}

// contain ends the members of a group whose serving panicked: one broken
// selector or frame must not stop the loop.
func (s *Set) contain(g *Group, served *bool) {
	r := recover()
	if r == nil {
		return
	}
	s.lp.CountPanic(r)
	s.endGroup(g, CutPanic)
	g.batch, g.done = nil, true
	*served = true
}

// deliver hands the pass's batch to one member: to its socket when it owes
// nothing, else to its private queue.
func (s *Set) deliver(g *Group, m *Member, b *Batch) {
	if m.behind() {
		m.enqueue(b)
		return
	}
	s.count(b)
	if !m.out.writeBatch(b) {
		s.stats.ShortWrite++
		b.recsHeld = true
		m.setLagging(true)
	}
}

// count counts the writing of one batch.
func (s *Set) count(b *Batch) {
	s.stats.Writes++
	s.stats.Deliveries += int64(len(b.recs))
	s.stats.Bytes += int64(len(b.bytes))
}

// endPass moves the cursor, closes tombstones and lets those go on that waited
// for it.
func (s *Set) endPass() {
	to := s.pass.to
	for i, g := range s.pass.groups {
		g.compact()
		if g.lagging == 0 {
			g.recent = [len(g.recent)]*Batch{}
		}
		if g.empty() {
			s.dropGroup(g)
		}
		s.pass.groups[i] = nil
	}
	s.durations.observe(s.lp.Now().Sub(s.pass.began))
	s.passed.Add(s.pass.bytes)
	s.pass = pass{groups: s.pass.groups[:0]}
	s.setCursor(to)
	s.unpark()
	s.skimPlan()
	s.deactivate()
	if s.OnProgress != nil {
		s.OnProgress()
	}
}

// servedUpTo returns the position up to which a live member was served.
func (s *Set) servedUpTo(m *Member) stream.Pos {
	p := &s.pass
	if p.to == 0 || m.start >= p.to {
		return max(s.cursor, m.start)
	}
	g := m.group
	if g.stamp != p.to || g.done || (p.groups[p.gi] == g && int(m.place) < p.mi) {
		return p.to
	}
	return s.cursor
}

// edge returns where groups stand for those who join now.
func (s *Set) edge() stream.Pos {
	if s.pass.to != 0 {
		return s.pass.to
	}
	return s.cursor
}

// inPass tells whether the pass under way serves g.
func (s *Set) inPass(g *Group) bool { return s.pass.to != 0 && g.stamp == s.pass.to }
