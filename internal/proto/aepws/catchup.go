package aepws

// stepEvents bounds how many events one step of a subscription looks at.
const stepEvents = 1024

// step lets a subscription go on whose socket owes nothing, and tells whether
// there is more to do for it at once: what has to be sent again, the replay, what
// is owed, and then it is live.
func (f *feed) step(s *sub) (more bool) {
	if !s.ended && s.owing != nil && s.owing.late {
		if f.stepOwing(s) {
			return true
		}
		if s.ended || s.peer.Owes() {
			return false
		}
	}
	switch {
	case s.ended || s.live || s.reading || s.paused:
		return false
	case s.replay != nil && s.next > s.replay.until:
		f.endReplay(s)
		return true
	case s.replay == nil:
		f.skip(s)
		if s.next >= f.edge() {
			f.takeBehind(s)
			f.join(s)
			return false
		}
	}
	if s.next < f.h.tail.oldest() {
		f.readFor(s)
		return false
	}
	return f.readOn(s, f.h.tail.at)
}

// endReplay says that a subscription has been sent what was before it (B52).
func (f *feed) endReplay(s *sub) {
	r := s.replay
	s.replay, s.exact = nil, false
	f.say(s.k, s.k.author().AppendReplayed(f.text[:0], f.head(s.k), s.group.key.id, r.cursor, r.to, r.events))
}

// droppable tells whether a live subscription may be spared events when it owes
// too many: all that it owes are delivered as best_effort (B60). One that wishes
// no mode is best_effort as long as that is so.
func (s *sub) droppable() bool { return s.replay == nil && s.firm == s.group.firm }

// overdraft returns how many events a subscription owes too many (B60).
func (f *feed) overdraft(s *sub) int64 {
	if !s.droppable() {
		return 0
	}
	return max(s.group.matched-s.base-int64(f.h.cfg.sendQueue), 0)
}

// skip passes over the oldest events of a live best_effort subscription that owes
// too many, if those that it keeps are in memory. Otherwise they are passed over
// one by one.
func (f *feed) skip(s *sub) {
	over := f.overdraft(s)
	if over == 0 {
		return
	}
	if number, ok := s.group.find(f, s.base+over); ok && number > s.next {
		s.next, s.exact = number, true
		s.base += over
		f.drop(s, over)
	}
}

// drop counts events that a subscription is not sent.
func (f *feed) drop(s *sub, events int64) {
	s.dropped += events
	f.h.counts.dropped.Add(events)
}

// portion is a batch that was put together for a subscription that reads by
// itself. Others of its group that are at the same place get the same in the same
// turn: when many sockets fall behind together they stand there.
type portion struct {
	batch     batch
	g         *group // nil: there is none
	from, end int64  // numbers asked for
	next      int64  // number up to which was looked
	ord, firm int32  // events before it
}

// reset forgets the batch.
func (r *portion) reset() {
	r.batch.reset()
	r.g = nil
}

// collect reads what follows the subscription's next, up to end. The first over
// events are dropped (B60). at returns events by number, nil where it knows no
// more.
func (f *feed) collect(s *sub, end, over int64, at func(number int64) *entry) {
	r, g := &f.own, s.group
	if r.g == g && r.from == s.next && r.end == end && over == 0 && s.dropped == 0 {
		return
	}
	r.reset()
	r.g, r.from, r.end, r.ord, r.firm = g, s.next, end, 0, 0
	if over > 0 || s.dropped > 0 {
		r.end = 0 // not for others
	}
	b, now := &r.batch, f.w.Loop().Now()
	n, size := s.next, 0
	for end = min(end, n+f.bounds.step); n < end && len(b.marks) < f.bounds.frames && size < batchBytes; n++ {
		e := at(n)
		if e == nil {
			break
		}
		if !g.selects(e) {
			continue
		}
		switch {
		case over > 0:
			over--
			f.drop(s, 1)
		case !e.expired(now): // B61
			b.add(e, g.key.wish, r.ord, r.firm)
			size += len(e.text) + frameBytes
		}
		r.ord++
		if g.isFirm(e) {
			r.firm++
		}
	}
	r.next = n
	b.build(g.key.id, s.dropped)
}

// readOn sends a subscription the next events, as at returns them, and tells
// whether it has room for more.
func (f *feed) readOn(s *sub, at func(number int64) *entry) (more bool) {
	end := f.edge()
	if s.replay != nil {
		end = s.replay.until + 1
	} else if !s.droppable() {
		if f.isGone(s, end, at) {
			f.tooSlow(s)
			return false
		}
	}
	f.collect(s, end, f.overdraft(s), at)
	r, b := &f.own, &f.own.batch
	if r.next == s.next {
		return true // it has left the tail this moment
	}
	sent := b.send(f, s.peer, s, 0)
	if sent > 0 {
		s.dropped = 0
		s.sent(b.marks[sent-1].e)
		f.h.counts.delivered.Add(int64(sent))
	}
	if p := s.replay; p != nil && sent > 0 {
		p.events += int64(sent)
		p.to = cursorOf(s.lastID, s.lastNumber)
		f.h.counts.replayed.Add(int64(sent))
	}
	next, ord, firm := r.next, r.ord, r.firm
	if s.exact = sent < len(b.marks); s.exact {
		m := &b.marks[sent]
		next, ord, firm = m.e.number, m.ord, m.firm
		s.paused = !s.peer.Owes()
	}
	s.next = next
	if s.replay == nil {
		s.base += int64(ord)
		s.firm += int64(firm)
	}
	return !s.exact
}

// isGone tells whether the next event of a subscription has left the log, though
// it may still be in memory (B60).
func (f *feed) isGone(s *sub, end int64, at func(number int64) *entry) bool {
	for n, to := s.next, min(f.h.evicted()+1, end, s.next+f.bounds.step); n < to; n++ {
		e := at(n)
		if e == nil {
			return false
		}
		if s.group.selects(e) {
			s.next = n
			return true
		}
	}
	return false
}

// takePage sends a subscription what is in a page, as far as its socket takes
// it. The rest is dropped and read again.
func (f *feed) takePage(s *sub, page []*entry) {
	at := func(number int64) *entry {
		if i := number - page[0].number; i >= 0 && i < int64(len(page)) {
			return page[i]
		}
		return nil
	}
	f.own.reset()
	defer f.own.reset()
	for !s.ended && !s.peer.Owes() && at(s.next) != nil {
		if s.replay != nil && s.next > s.replay.until || s.replay == nil && s.next >= f.edge() {
			return
		}
		if !f.readOn(s, at) {
			return
		}
	}
}

// jump goes on at the oldest event in memory with a best_effort subscription that
// is where events have left the log. Those that it was owed before are dropped:
// they cannot all be counted, but how many they are is known.
func (f *feed) jump(s *sub) {
	g := s.group
	edge := f.edge()
	from := min(max(f.h.tail.oldest(), f.h.evicted()+1), edge)
	if from <= s.next {
		return
	}
	kept := int64(0)
	for n := from; n < edge; n++ {
		if e := f.h.tail.at(n); e != nil && g.selects(e) {
			kept++
		}
	}
	f.drop(s, max(g.matched-s.base-kept, 0))
	s.base, s.next, s.exact = g.matched-kept, from, false
}
