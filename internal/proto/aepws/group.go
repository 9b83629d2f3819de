package aepws

import (
	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/serve"
)

// groupKey is what subscriptions have in common that get the same bytes. The
// filter's text has the tenant in it.
type groupKey struct {
	filter string
	wish   aepws.Mode
	id     string
}

// group is the subscriptions of one loop with the same key. The live ones are
// its members: a pass puts each batch together once, and all get it in one write.
// Owned by the loop.
type group struct {
	key     groupKey
	filed   filed
	subs    int // live or not
	members []member

	// matched events have been found by passes so far, firm of them are such that
	// may not be dropped (B60). What a subscription owes is told by the
	// difference to its own count.
	matched, firm int64
	known         spot

	// During a pass: the events for the members, with the counts before the
	// first, and how many members have them.
	events            []*entry
	bytes             int
	matchedAt, firmAt int64
	served            int
	lastID            string // of the last event that members were sent
	lastNumber        int64
}

// member is a live subscription. What a delivery looks at stands beside it: with
// many of them each further look is a cache miss.
type member struct {
	peer  *serve.Peer
	s     *sub
	start int64 // it has or need not have what comes before
	alone bool  // it reads its next event by itself
}

// spot is a place in the order of a group's events: the one with a number has
// so many before it. The zero value is none.
type spot struct{ ord, number int64 }

func newGroup(key groupKey, filter *aepws.Filter) *group {
	g := &group{key: key}
	g.filed = filed{g: g, filter: filter}
	return g
}

// selects tells whether an event is for the group's subscriptions (B48, B61).
func (g *group) selects(e *entry) bool { return !e.stale && g.filed.filter.Match(&e.attributes) }

// isFirm tells whether an event may not be dropped by the group's subscriptions:
// it is not delivered as best_effort (B57, B60).
func (g *group) isFirm(e *entry) bool {
	return aepws.Effective(e.mode, g.key.wish) != aepws.BestEffort
}

// fallBehind makes a member one that reads by itself. It was sent the frames
// from first to end of the batch.
func (f *feed) fallBehind(g *group, s *sub, first, end int) {
	b := &f.pass.batch
	f.takeMember(s)
	next := &b.marks[end]
	s.next, s.exact = next.e.number, true
	s.base, s.firm = g.matchedAt+int64(next.ord), g.firmAt+int64(next.firm)
	s.paused = b.firm > 0 && s.room() == 0
	if end > first {
		s.sent(b.marks[end-1].e)
	} else {
		s.sentByGroup()
	}
	f.lag(s)
	s.peer.NotifyDrained()
}

// sent notes the last event that a subscription was sent.
func (s *sub) sent(e *entry) { s.lastID, s.lastNumber = e.id, e.number }

// sentByGroup notes it for one that is or was live.
func (s *sub) sentByGroup() {
	if g := s.group; g.lastNumber > s.lastNumber {
		s.lastID, s.lastNumber = g.lastID, g.lastNumber
	}
}

// lag puts a subscription among those that are behind.
func (f *feed) lag(s *sub) {
	s.live, s.at = false, len(f.behind)
	f.behind = append(f.behind, s)
	s.k.subs().behind++
	if !f.sweep.Scheduled() {
		f.w.Loop().Schedule(&f.sweep, f.w.Loop().Now().Add(sweepInterval))
	}
}

// takeBehind takes a subscription out of those that are behind.
func (f *feed) takeBehind(s *sub) {
	last := len(f.behind) - 1
	f.behind[s.at] = f.behind[last]
	f.behind[s.at].at = s.at
	f.behind[last] = nil
	f.behind = f.behind[:last]
	s.k.subs().behind--
}

// join makes a subscription live that has all before its next, which is not
// below the edge.
func (f *feed) join(s *sub) {
	g := s.group
	s.live, s.at = true, len(g.members)
	g.members = append(g.members, member{peer: s.peer, s: s, start: s.next, alone: s.dropped > 0})
}

// takeMember takes a live subscription out of its group.
func (f *feed) takeMember(s *sub) {
	g := s.group
	if s.at < g.served {
		g.served--
		g.swap(s.at, g.served)
	}
	last := len(g.members) - 1
	g.swap(s.at, last)
	g.members[last] = member{}
	g.members = g.members[:last]
	s.live = false
}

func (g *group) swap(i, j int) {
	g.members[i], g.members[j] = g.members[j], g.members[i]
	g.members[i].s.at, g.members[j].s.at = i, j
}

// countTo returns what matched and firm will be when passes have come to a
// number, which is not below the edge.
func (g *group) countTo(f *feed, number int64) (matched, firm int64) {
	matched, firm = g.matched, g.firm
	for n := f.edge(); n < number; n++ {
		if e := f.h.tail.at(n); e != nil && g.selects(e) {
			matched++
			if g.isFirm(e) {
				firm++
			}
		}
	}
	return matched, firm
}

// find returns the number of the event that has ord others of the group before
// it, if that is in memory. ord is below matched.
func (g *group) find(f *feed, ord int64) (number int64, ok bool) {
	oldest := f.h.tail.oldest()
	if g.known.number < oldest || g.known.number == 0 {
		g.known = spot{}
		m := g.matched
		for n := f.edge() - 1; n >= oldest && m > ord; n-- {
			if e := f.h.tail.at(n); e != nil && g.selects(e) {
				m--
				g.known = spot{m, n}
			}
		}
	}
	if g.known.number == 0 || g.known.ord > ord {
		return 0, false
	}
	for n, m := g.known.number, g.known.ord; m < ord; {
		if n++; n >= f.edge() {
			return 0, false
		}
		if e := f.h.tail.at(n); e == nil {
			g.known = spot{}
			return 0, false
		} else if g.selects(e) {
			m++
			g.known = spot{m, n}
		}
	}
	return g.known.number, true
}
