package fanout

import (
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
)

// Limits are the sizes at which a member's treatment changes. The zero value
// stands for the defaults.
type Limits struct {
	SoftBytes   int64 // over it droppable entries are shed (R420)
	HardBytes   int64 // over it the member is cut (R422)
	BatchBytes  int   // of one group and pass
	LagBytes    int   // of one batch for laggards
	WindowBytes int   // of one step of a replay (R423)
	// LookWrites is how many writes pass between two looks at the clock. A
	// write costs 7 to 9 us, so that the default of 32 is a quarter of a turn.
	LookWrites int
}

func (l Limits) withDefaults() Limits {
	if l.SoftBytes == 0 {
		l.SoftBytes = 1 << 20
	}
	if l.HardBytes == 0 {
		l.HardBytes = 8 << 20
	}
	if l.BatchBytes == 0 {
		l.BatchBytes = 128 << 10
	}
	if l.LagBytes == 0 {
		l.LagBytes = 16 << 10
	}
	if l.WindowBytes == 0 {
		l.WindowBytes = 256 << 10
	}
	if l.LookWrites == 0 {
		l.LookWrites = 32
	}
	return l
}

const (
	// passEntries bounds how many entries one pass looks at.
	passEntries = 4096
	// triesPerLook is how many selectors are asked, about, between two looks at
	// the clock: some tens of microseconds.
	triesPerLook = 256
	// feedEntries bounds how many entries one step of a catch-up looks at, all
	// subscriptions of its member together.
	feedEntries = 512
	// spareBatches bounds the free list of a loop.
	spareBatches = 64
	// spareLags bounds its free list of queues: 80 bytes each. When thousands of
	// readers are slightly behind, each needs one again and again.
	spareLags = 4096
)

// Set is the fan-out state of one loop: its members, groups, index, and its
// cursor into the log. All methods are loop only unless they say otherwise.
//
// A pass serves the entries [cursor, pass end) to the groups that they touch.
// A member is served up to cursor, or up to the pass's end once its group's
// turn is over; see servedUpTo. Members that catch up read the log on their own
// until they stand where their group stands, and then join it.
type Set struct {
	// Immutable after construction.
	log     *stream.Log
	buffers *session.Buffers
	limits  Limits
	lp      *loop.Loop

	// Owned by the loop.
	groups  map[string]*Group
	index   index
	cursor  stream.Pos
	pass    pass
	ready   []*Member // catch up and can write
	waiting []*Member // ahead of the cursor, or with a reply ahead of it

	catching     map[*Member]struct{} // members in CatchUp
	skims        []*Member            // still to do in this round of skimming
	skimmedAt    stream.Pos
	skimmedBytes int64

	spare   []*Batch
	entries []*stream.Entry // scratch of replays
	key     []byte          // scratch of join
	lags    []*lag          // ready for use again
	members int
	stats   Stats

	durations Durations

	// Atomic.
	active  atomic.Bool   // the loop has subscriptions: ring it on append
	reached atomic.Uint64 // cursor, as others see it
	passed  atomic.Int64  // bytes of the log that are behind the cursor

	// OnProgress, when set, is called after each pass. Set before use.
	OnProgress func()
}

// Stats are a set's counters. Owned by the loop.
type Stats struct {
	Deliveries int64 // frames of events handed to an output
	Bytes      int64 // of these
	Writes     int64 // of batches
	ShortWrite int64
	Shed       int64
	Cut        int64
	Passes     int64
	Gaps       int64
}

// NewSet returns the fan-out state of lp, which reads log and replays from
// buffers. It adds itself to the loop's turns.
func NewSet(lp *loop.Loop, log *stream.Log, buffers *session.Buffers, limits Limits) *Set {
	s := &Set{log: log, buffers: buffers, limits: limits.withDefaults(), lp: lp, groups: map[string]*Group{}, catching: map[*Member]struct{}{}}
	s.reached.Store(^uint64(0))
	lp.AddDrainer(s)
	return s
}

// Active tells whether the loop has to be rung when an entry was appended. Any
// goroutine, after the append.
func (s *Set) Active() bool { return s.active.Load() }

// Reached returns the position up to which the loop has read the log, and the
// bytes of the log behind it. ok is false when the loop follows nothing. Any
// goroutine.
func (s *Set) Reached() (p stream.Pos, bytes int64, ok bool) {
	r := s.reached.Load()
	return stream.Pos(r), s.passed.Load(), r != ^uint64(0)
}

// Stats returns the counters. Loop only.
func (s *Set) Stats() Stats { return s.stats }

// Members returns how many members the set has. Loop only.
func (s *Set) Members() int { return s.members }

// Groups returns how many groups of live members the set has. Loop only.
func (s *Set) Groups() int { return len(s.groups) }

// activate makes the loop follow the log and returns the position from which a
// subscription registered now is live. The order matters: an append that is not
// in the replay sees the flag and rings.
func (s *Set) activate() stream.Pos {
	if s.active.Load() {
		return s.log.Next()
	}
	s.active.Store(true)
	next := s.log.Next()
	s.passed.Store(s.log.TotalBytes())
	s.setCursor(next)
	return next
}

// deactivate stops following the log when the last subscription has gone.
func (s *Set) deactivate() {
	if s.members == 0 && s.pass.to == 0 {
		s.active.Store(false)
		s.reached.Store(^uint64(0))
	}
}

func (s *Set) setCursor(p stream.Pos) {
	s.cursor = p
	s.reached.Store(uint64(p))
}

// Drain implements loop.Drainer: it serves passes and feeds members that catch
// up, by turns, until deadline.
func (s *Set) Drain(deadline time.Time) (more bool) {
	for {
		if !s.runPass(deadline) || !s.feedReady(deadline) || !s.skim(deadline) {
			return true
		}
		if len(s.ready) == 0 && (!s.active.Load() || s.log.Next() == s.cursor) {
			return false
		}
		if !s.lp.Now().Before(deadline) {
			return true
		}
	}
}

// unpark lets members go on that waited for the cursor.
func (s *Set) unpark() {
	if len(s.waiting) == 0 {
		return
	}
	w := s.waiting
	s.waiting = nil
	for _, m := range w {
		if m.parked {
			m.parked = false
			m.proceed()
		}
	}
	if len(s.waiting) == 0 {
		clear(w)
		s.waiting = w[:0]
	}
}

// feedReady feeds each member that was ready when it was called, once. It
// returns false when the deadline came first.
func (s *Set) feedReady(deadline time.Time) bool {
	n := len(s.ready)
	for i := range n {
		m := s.ready[i]
		s.ready[i] = nil
		m.queued = false
		if m.state == stateCatchUp {
			s.feedContained(m, deadline)
		}
		if i&7 == 7 && !s.lp.Now().Before(deadline) {
			s.ready = append(s.ready[:0], s.ready[i+1:]...)
			return false
		}
	}
	s.ready = append(s.ready[:0], s.ready[n:]...)
	return true
}

func (s *Set) feedContained(m *Member, deadline time.Time) {
	defer func() {
		if r := recover(); r != nil {
			s.lp.CountPanic(r)
			s.cut(m, CutPanic)
		}
	}()
	m.feed(deadline)
}

// join adds m to the group of its subscriptions. It stands at s.edge().
func (s *Set) join(m *Member) {
	s.key = appendGroupKey(s.key[:0], m.subs)
	g := s.groups[string(s.key)]
	if g == nil {
		g = &Group{key: string(s.key), subs: append([]*Sub(nil), m.subs...)}
		for i, sub := range g.subs {
			g.track = g.track || sub.Track
			f := &filed{g: g, sub: uint16(i)}
			s.index.add(f, sub.Selector.Candidates())
			g.filed = append(g.filed, f)
		}
		s.groups[g.key] = g
	}
	for i, sub := range m.subs { // one selector for all that are equal
		sub.Selector = g.subs[i].Selector
	}
	m.group, m.place, m.start = g, int32(len(g.members)), s.edge()
	m.left = nil
	g.members = append(g.members, m)
}

// leave takes m out of its group.
func (s *Set) leave(m *Member) {
	g := m.group
	g.leave(m, s.inPass(g))
	if g.empty() && !s.inPass(g) {
		s.dropGroup(g)
	}
}

func (s *Set) dropGroup(g *Group) {
	if s.groups[g.key] != g {
		return
	}
	delete(s.groups, g.key)
	for _, f := range g.filed {
		s.index.remove(f)
	}
}

// newBatch returns an empty pooled batch.
func (s *Set) newBatch() *Batch {
	if n := len(s.spare); n > 0 {
		b := s.spare[n-1]
		s.spare[n-1] = nil
		s.spare = s.spare[:n-1]
		return b
	}
	return &Batch{home: s}
}

// recycle takes back a pooled batch that nobody holds. Bytes that belong to an
// entry are left alone, and so are records that private queues refer to.
func (s *Set) recycle(b *Batch) {
	if b == nil || len(s.spare) >= spareBatches || cap(b.buf) > 2*s.limits.WindowBytes {
		return
	}
	recs := b.recs
	if b.recsHeld {
		recs = nil
	}
	clear(recs)
	*b = Batch{buf: b.buf[:0], ends: b.ends[:0], recs: recs[:0], home: s}
	s.spare = append(s.spare, b)
}
