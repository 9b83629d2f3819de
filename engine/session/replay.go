package session

import (
	"math"

	"github.com/sluice-relay/sluice/engine/stream"
)

// Replay is the state of one session's replay: which entries are still owed.
// It is a value that belongs to one reader; nothing in the buffers points to
// it, so it may simply be forgotten. The zero value owes nothing.
//
// It remembers the next entry owed and the last one. What is owed was fixed at
// Start, for entries that come later have later positions; so by B3 something
// owed is lost exactly when the next one owed is no longer held.
type Replay struct {
	session string
	before  stream.Pos
	next    point // pos 0: nothing is owed any more
	last    point
}

// Start begins the replay of the session's held entries that are strictly after
// the position after (R165) and have a Pos below before, which must not be
// above the log's Next. An after with Seq -1 (or lower) is the start of its
// epoch and never exhausted (R168).
//
// exhausted tells that something after that position is gone, and earliest
// which position to announce for it (R166, R167; R170 for a session that was
// dropped). A session that is not held and not remembered, or that was made at
// or after before, gives nothing (R169).
//
// Start belongs into the step that reads before (R192). Called later it
// delivers what is left, and judges by the floor of that moment: a floor that
// entries from before on have moved counts too, so that it may announce a gap
// which live delivery fills, never the reverse.
//
// Any goroutine. The session string is retained by the Replay.
func (b *Buffers) Start(session string, after stream.Sequence, before stream.Pos) (
	r Replay, exhausted bool, earliest stream.Sequence,
) {
	after.Seq = max(after.Seq, -1)
	sh := b.shard(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.sessions[session]
	if s == nil {
		highest, ok := b.dropped.look(session)
		exhausted, earliest = lost(after, highest, ok)
		return r, exhausted, earliest
	}
	if s.created >= before {
		exhausted, earliest = lost(after, s.prior, s.hasPrior)
		return r, exhausted, earliest
	}
	r.session, r.before = session, before
	exhausted, earliest = s.exhausted(after, before)
	at, _ := s.order.find(point{after, math.MaxUint64})
	if _, e := s.order.owed(at, before); e != nil {
		r.next, r.last = pointOf(e), pointOf(s.order.lastOwed(before))
	}
	return r, exhausted, earliest
}

// lost decides exhaustion for a session that was dropped with the given highest
// position, if that is known (R170).
func lost(after, highest stream.Sequence, known bool) (bool, stream.Sequence) {
	if !known || after.Seq < 0 || !after.Less(highest) {
		return false, stream.Sequence{}
	}
	return true, highest.Next()
}

// Next appends the next entries to dst: at most maxEntries, and at most
// maxBytes of base frames, but at least one entry. done tells that nothing is
// owed any more; after that it returns done again.
//
// gap tells that trimming, or the drop of the whole session, has overtaken the
// replay since the last call (R423): entries it had still to deliver are gone.
// goesOn is then the position it goes on from, to be announced before the
// entries of this call: that of the first of them or, when none is left, the
// one after the last position that was owed. Entries at or after the Replay's
// own bound are not owed: their loss is no gap. It does not matter whether a
// dropped session was made again meanwhile.
//
// Any goroutine, one at a time for one Replay. The entries are shared,
// immutable.
func (b *Buffers) Next(r *Replay, dst []*stream.Entry, maxEntries, maxBytes int) (
	entries []*stream.Entry, gap bool, goesOn stream.Sequence, done bool,
) {
	if r.next.pos == 0 {
		return dst, false, stream.Sequence{}, true
	}
	sh := b.shard(r.session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var order *ordered
	if s := sh.sessions[r.session]; s != nil {
		order = &s.order
	} else {
		order = new(ordered)
	}
	at, held := order.find(r.next)
	at, e := order.owed(at, r.before)
	if !held {
		gap, goesOn = true, r.last.Next()
		if e != nil {
			goesOn = e.Sequence
		}
	}
	entries = r.take(order, at, e, dst, maxEntries, maxBytes)
	return entries, gap, goesOn, r.next.pos == 0
}

// take appends the owed entries from e at at on, and moves next behind them.
// The last one owed ends it: entries above that one need not be looked at.
func (r *Replay) take(order *ordered, at place, e *stream.Entry,
	dst []*stream.Entry, maxEntries, maxBytes int,
) []*stream.Entry {
	for taken := 0; e != nil; taken++ {
		maxBytes -= len(e.Base())
		if taken > 0 && (taken >= maxEntries || maxBytes < 0) {
			r.next = pointOf(e)
			return dst
		}
		dst = append(dst, e)
		if e.Pos() == r.last.pos {
			break
		}
		at.slot++
		at, e = order.owed(at, r.before)
	}
	r.next = point{}
	return dst
}

// AppendNames appends the names of a shard's sessions to dst, in any order,
// for a replay of all sessions (R171): shard by shard, each session started
// with the position {0, -1} when its turn comes. Any goroutine. It panics when
// shard is not within 0 to Shards-1.
func (b *Buffers) AppendNames(dst []string, shard int) []string {
	sh := &b.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for name := range sh.sessions {
		dst = append(dst, name)
	}
	return dst
}
