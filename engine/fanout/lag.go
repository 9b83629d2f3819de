package fanout

import (
	"cmp"
	"slices"

	"github.com/sluice-relay/sluice/engine/stream"
)

// enqueue takes the matches of a pass for a member that owes something: Q is
// compared before each record is added, strictly greater, so that one item of
// any size is always accepted by an idle consumer (R420, R422).
func (m *Member) enqueue(b *Batch) {
	m.setLagging(true)
	if m.lag == nil {
		m.lag = m.set.newLag()
	}
	lim := &m.set.limits
	if m.QueuedBytes()+int64(len(b.bytes)) <= min(lim.SoftBytes, lim.HardBytes) && len(m.lag.dropped) == 0 {
		b.recsHeld = true
		m.lag.queue.push(b.recs, int64(len(b.bytes)))
		return
	}
	for i := range b.recs {
		r := &b.recs[i]
		switch q := m.QueuedBytes(); {
		case q > lim.HardBytes:
			m.set.cutUndo(m, CutHard, b.recs[i:])
			return
		case q > lim.SoftBytes && r.entry.Droppable:
			m.shedRecord(r)
		default:
			b.recsHeld = true
			m.push(b.recs[i : i+1])
		}
	}
}

// push queues one record. When entries before it were shed, its own idea of
// what came before is wrong for this member, and a corrected copy is queued.
func (m *Member) push(one []Record) {
	r := &one[0]
	if at, ok := m.lag.dropped[r.key()]; ok {
		delete(m.lag.dropped, r.key())
		if r.prev.pos == at.last {
			fixed := *r
			fixed.prev = at.prev
			one = []Record{fixed}
		}
	}
	m.lag.queue.push(one, int64(r.size))
}

// shedRecord leaves one record out.
func (m *Member) shedRecord(r *Record) {
	l := m.lag
	l.shed++
	m.set.stats.Shed++
	if !m.subs[r.sub].Track || !r.entry.Sequenced {
		return
	}
	k := r.key()
	at, ok := l.dropped[k]
	if !ok && len(l.dropped) >= maxPositions {
		return
	}
	if !ok || at.last != r.prev.pos {
		at.prev = r.prev
	}
	at.last = r.entry.Pos()
	if l.dropped == nil {
		l.dropped = make(map[groupKeyPos]shedAt)
	}
	l.dropped[k] = at
}

// Writable goes on after the socket took bytes again: what is owed first, then
// the queue in batches, then whatever the state allows. Loop only.
func (m *Member) Writable() {
	for n := 0; m.out.Flush() && !m.out.dead; n++ {
		if m.records() == 0 {
			m.upToDate()
			return
		}
		if n == writesAtOnce {
			m.out.tr.WantWritable()
			return
		}
		m.sendLagBatch()
	}
}

// sendLagBatch hands the head of the queue to the output. Batches are shared
// only where nothing was shed, so that their records are right for all.
func (m *Member) sendLagBatch() {
	var b *Batch
	if l := m.lag; m.group != nil && l.shed == 0 && len(l.dropped) == 0 {
		b = m.group.lagBatch(&l.queue, m.set.limits.LagBytes)
	} else {
		b = l.queue.build(m.joined(), m.set.limits.LagBytes)
	}
	m.set.count(b)
	m.out.writeBatch(b)
}

// upToDate is reached when output and queue are empty.
func (m *Member) upToDate() {
	if m.lag != nil && m.lag.shed > 0 {
		n := m.lag.shed
		m.lag.shed = 0
		m.out.Send(m.owner.AppendShed(nil, n))
	}
	switch m.state {
	case stateEnded:
		m.sendReplies(never)
	case stateLive:
		if m.lag != nil && len(m.lag.dropped) > 0 {
			m.rebase()
		}
		if m.out.owed == nil {
			m.setLagging(false)
		}
	}
	m.dropLag()
	m.proceed()
}

// dropLag gives the queue back when nothing is in it.
func (m *Member) dropLag() {
	if l := m.lag; l != nil && l.queue.count == 0 && l.shed == 0 && len(l.dropped) == 0 {
		m.lag = nil
		m.set.freeLag(l)
	}
}

// newLag returns an empty queue.
func (s *Set) newLag() *lag {
	n := len(s.lags)
	if n == 0 {
		return new(lag)
	}
	l := s.lags[n-1]
	s.lags[n-1] = nil
	s.lags = s.lags[:n-1]
	return l
}

// freeLag takes back an empty queue that nobody holds. One whose member was
// ended is left to the collector.
func (s *Set) freeLag(l *lag) {
	*l = lag{} // a map does not shrink
	if len(s.lags) < spareLags {
		s.lags = append(s.lags, l)
	}
}

// rebase makes the positions of the group the member's own as of now, as if it
// had just joined: what the records from here on say of those before holds for
// it again, although it did not get what was shed.
func (m *Member) rebase() {
	if m.group.track {
		m.foldPositions(m.unserved())
	}
	m.start = m.set.servedUpTo(m)
}

// Position is where one subscription stands in one session.
type Position struct {
	Sub     *Sub
	Session string
	stream.Sequence
}

// Delivered returns, for each tracked subscription and session, the last entry
// that was handed to the transport whole: at most 1,024, the most recent ones,
// oldest first (R430). It answers after StopLive and from inside Owner.Cut.
func (m *Member) Delivered() []Position {
	all := make(positions[memberKeyPos], len(m.base))
	for k, p := range m.base {
		if m.current(k.sub) {
			all[k] = p
		}
	}
	// What is not sent whole does not count: a session stands where it stood
	// before the first of its records that wait.
	seen := make(map[memberKeyPos]bool)
	first := func(r *Record) { m.undo(r, all, seen) }
	m.out.unsent(first)
	if m.lag != nil {
		m.lag.queue.each(first)
	}
	if m.filling != nil {
		for i := range m.filling.recs {
			first(&m.filling.recs[i])
		}
	}

	if len(all) > maxPositions {
		all.prune()
	}
	type placed struct {
		Position
		pos stream.Pos
	}
	list := make([]placed, 0, len(all))
	for k, p := range all {
		if p.pos != 0 {
			list = append(list, placed{Position{k.sub, k.session, p.seq}, p.pos})
		}
	}
	slices.SortFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.pos, b.pos), cmp.Compare(a.Sub.ID, b.Sub.ID))
	})
	out := make([]Position, 0, min(len(list), maxPositions))
	for _, p := range list[max(0, len(list)-maxPositions):] {
		out = append(out, p.Position)
	}
	return out
}

// undo puts all back to what it was before r, unless an earlier record of the
// same session was seen.
func (m *Member) undo(r *Record, all positions[memberKeyPos], seen map[memberKeyPos]bool) {
	if r.entry == nil || !r.entry.Sequenced {
		return
	}
	k := m.ownKey(r)
	if seen[k] || !k.sub.Track || !m.current(k.sub) {
		return
	}
	seen[k] = true
	if p := m.ownPrev(r); p.pos != 0 {
		all[k] = p
	} else {
		delete(all, k)
	}
}

func (m *Member) ownKey(r *Record) memberKeyPos {
	if r.own != nil {
		return memberKeyPos{r.entry.Session, r.own}
	}
	return memberKeyPos{r.entry.Session, m.joined()[r.sub]}
}

// joined returns the member's own list when it joined its last group: the
// subscriptions that the indexes in that group's records mean.
func (m *Member) joined() []*Sub {
	if m.left != nil {
		return m.left.subs
	}
	return m.subs
}

// ownPrev is what this member got before r. What the group got before the
// member joined is not it.
func (m *Member) ownPrev(r *Record) position {
	switch {
	case r.own != nil || r.prev.pos >= m.start:
		return r.prev
	case m.group != nil:
		return m.base[m.ownKey(r)]
	}
	return m.left.before[m.ownKey(r)]
}

// foldPositions makes the positions of the group the member's own. undo are
// records that the group counts and the member will not get.
func (m *Member) foldPositions(undo []Record) {
	var dropped map[groupKeyPos]shedAt
	if m.lag != nil {
		dropped, m.lag.dropped = m.lag.dropped, nil
	}
	all := make(positions[memberKeyPos], len(m.base)+len(m.group.last))
	for k, p := range m.base {
		all[k] = p
	}
	for k, p := range m.group.last {
		if at, ok := dropped[k]; ok && at.last == p.pos {
			p = at.prev
		}
		if p.pos >= m.start {
			all[memberKeyPos{k.session, m.subs[k.sub]}] = p
		}
	}
	seen := make(map[memberKeyPos]bool)
	for i := range undo {
		r := &undo[i]
		if at, ok := dropped[r.key()]; ok && at.last == r.prev.pos {
			fixed := *r
			fixed.prev = at.prev
			r = &fixed
		}
		m.undo(r, all, seen)
	}
	if len(all) > maxPositions {
		all.prune()
	}
	m.base = all
}
