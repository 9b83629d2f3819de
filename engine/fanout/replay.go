package fanout

import (
	"slices"
	"time"

	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
)

// task is the replay of one subscription: its sessions one after another, a
// bounded window at a time.
type task struct {
	next  *task // of the same member
	sub   *Sub
	from  []resume // still to do
	all   bool
	shard int      // of all: next shard to list
	names []string // of all: sessions of the last listed shard, still to do

	name   string // of the session under way
	cur    session.Replay
	active bool // cur is under way
	// exhausted: the session begins with a marker that names earliest.
	exhausted bool
	earliest  stream.Sequence
}

// resume is the replay of one session that was asked for by name.
type resume struct {
	name      string
	replay    session.Replay
	exhausted bool
	earliest  stream.Sequence
}

// plan adds the replay of sub. What each named session owes is fixed here, in
// the step that read the position which divides replay from live: a floor that
// live entries move later must not announce a gap (R166, R192).
func (m *Member) plan(sub *Sub, p Plan) {
	if !p.All && len(p.From) == 0 && len(p.Extra) == 0 {
		return
	}
	t := &task{sub: sub, all: p.All}
	for _, f := range p.From {
		t.add(m.set.buffers, f)
	}
	for _, name := range p.Extra {
		t.add(m.set.buffers, From{name, stream.Sequence{Seq: -1}})
	}
	if t.all || len(t.from) > 0 {
		last := &m.tasks
		for *last != nil {
			last = &(*last).next
		}
		*last = t
	}
}

// add adds one session, unless there is nothing to say about it.
func (t *task) add(b *session.Buffers, f From) {
	r := resume{name: f.Session}
	r.replay, r.exhausted, r.earliest = b.Start(f.Session, f.After, t.sub.from)
	if r.exhausted || r.replay != (session.Replay{}) {
		t.from = append(t.from, r)
	}
}

// feed moves a member that catches up forward until it blocks, is live, waits
// for the loop's cursor, or deadline has come.
func (m *Member) feed(deadline time.Time) {
	for m.state == stateCatchUp && !m.behind() && !m.out.dead {
		if !m.feedStep() {
			return
		}
		if !m.set.lp.Now().Before(deadline) {
			m.proceed()
			return
		}
	}
}

// feedStep does one step and tells whether there may be another. Owed live
// entries come before the replies that follow them, these before the replay
// they announce, and live entries after the replay. Replies that wait when a
// replay begins come in between, and end at once what they tell the end of.
func (m *Member) feedStep() (more bool) {
	m.settle(m.cursor)
	switch edge := m.set.edge(); {
	case m.replies.count() > 0 && (m.replays || m.replies.list[0].barrier <= m.cursor):
		barrier := m.replies.list[0].barrier
		m.sendReply()
		m.settle(max(barrier, m.cursor))
	case m.tasks != nil && (m.replays || m.tasks.sub.from <= m.cursor):
		m.replays = true
		m.replayStep()
	case m.replies.count() > 0:
		m.readLog(m.replies.list[0].barrier)
	case m.finite && m.tasks == nil:
		m.detach(nil)
		m.owner.Replayed()
		return false
	case m.finishing() && m.cursor >= m.finishAt:
		m.finished()
		return false
	case len(m.subs) == 0:
		m.state = stateIdle
		delete(m.set.catching, m)
		return false
	case m.cursor < max(edge, m.since):
		m.readLog(max(edge, m.since))
	case m.cursor > edge:
		m.park()
		return false
	default:
		m.state = stateLive
		delete(m.set.catching, m)
		m.set.join(m)
		m.proceed()
		return false
	}
	return true
}

// settle removes subscriptions that ended at p or before: they have got all
// that they were owed.
func (m *Member) settle(p stream.Pos) {
	ended := func(s *Sub) bool { return s.until <= p }
	if !m.finite && slices.ContainsFunc(m.subs, ended) {
		for _, s := range m.subs {
			if ended(s) {
				m.forget(s)
			}
		}
		m.subs = slices.DeleteFunc(slices.Clone(m.subs), ended)
	}
}

// readLog delivers entries of the log from the cursor on, before limit.
func (m *Member) readLog(limit stream.Pos) {
	b := m.fill()
	p := m.cursor
	for n := 0; p < limit && n < feedEntries && len(b.bytes) < m.set.limits.WindowBytes; p++ {
		e, err := m.set.log.At(p)
		if err != nil && p == m.cursor {
			m.set.cut(m, CutOverrun)
			m.filling = nil
			return
		}
		if err != nil {
			break // what was read leaves first
		}
		n += max(len(m.subs), 1)
		for _, s := range m.subs {
			if s.from <= p && p < s.until && s.Selector.Match(e.Event) {
				m.appendEntry(b, e, s, true)
			}
		}
	}
	m.cursor = p
	m.write(b)
	m.settle(p)
}

// appendEntry appends the frame of e for s and remembers the position. The
// frame of a live entry is one that others use too; a replayed one is not kept.
func (m *Member) appendEntry(b *Batch, e *stream.Entry, s *Sub, live bool) {
	before := len(b.bytes)
	if live {
		b.bytes = append(b.bytes, e.Frame(s.Form)...)
	} else {
		b.bytes = e.AppendFrame(b.bytes, s.Form)
	}
	b.ends = append(b.ends, uint32(len(b.bytes)))
	r := Record{entry: e, own: s, size: uint32(len(b.bytes) - before)}
	if s.Track && e.Sequenced {
		r.prev = m.base.swap(memberKeyPos{e.Session, s}, position{e.Sequence, e.Pos()})
	}
	b.recs = append(b.recs, r)
}

// appendMarker appends the frame of a gap.
func (m *Member) appendMarker(b *Batch, s *Sub, name string, earliest stream.Sequence) {
	m.set.stats.Gaps++
	b.bytes = m.owner.AppendGap(b.bytes, s, name, earliest)
	b.ends = append(b.ends, uint32(len(b.bytes)))
	b.recs = append(b.recs, Record{})
}

// fill returns an empty batch to read into.
func (m *Member) fill() *Batch {
	b := m.set.newBatch()
	b.bytes = b.buf[:0]
	m.filling = b
	return b
}

// write hands the batch that was filled to the output.
func (m *Member) write(b *Batch) {
	m.filling = nil
	b.buf = b.bytes
	if len(b.bytes) == 0 {
		m.set.recycle(b)
		return
	}
	m.set.count(b)
	b.refs++
	m.out.writeBatch(b)
	m.out.release(b)
}

// replayStep fills one window from the buffers.
func (m *Member) replayStep() {
	b := m.fill()
	t := m.tasks
	for n := 0; n < feedEntries && len(b.bytes) < m.set.limits.WindowBytes; {
		if !t.active && !m.nextSession(t) {
			m.tasks = t.next
			m.replays = m.replays && t.next != nil
			break
		}
		n += 1 + m.replaySession(t, b)
	}
	m.write(b)
}

// nextSession begins the next session of the task, with its marker if it is
// exhausted. It returns false when none is left.
func (m *Member) nextSession(t *task) bool {
	switch {
	case len(t.from) > 0:
		r := &t.from[0]
		t.name, t.cur = r.name, r.replay
		t.exhausted, t.earliest = r.exhausted, r.earliest
		t.from[0] = resume{}
		t.from = t.from[1:]
	case t.all:
		for len(t.names) == 0 {
			if t.shard == session.Shards {
				return false
			}
			t.names = m.set.buffers.AppendNames(nil, t.shard)
			t.shard++
		}
		// A session is read when its turn comes, without a marker (R171).
		t.name = t.names[0]
		t.names = t.names[1:]
		t.cur, _, _ = m.set.buffers.Start(t.name, stream.Sequence{Seq: -1}, t.sub.from)
	default:
		return false
	}
	t.active = true
	return true
}

// replaySession appends entries of the session under way and returns how many
// it looked at.
func (m *Member) replaySession(t *task, b *Batch) int {
	room := max(m.set.limits.WindowBytes-len(b.bytes), 1)
	list, gap, goesOn, done := m.set.buffers.Next(&t.cur, m.set.entries[:0], feedEntries/8, room)
	switch {
	case gap: // it tells of what was gone at first, too
		m.appendMarker(b, t.sub, t.name, goesOn)
	case t.exhausted:
		m.appendMarker(b, t.sub, t.name, t.earliest)
	}
	t.exhausted = false
	for _, e := range list {
		if t.sub.Selector.Match(e.Event) {
			m.appendEntry(b, e, t.sub, false)
		}
	}
	n := len(list)
	clear(list)
	m.set.entries = list[:0]
	t.active = !done
	return n
}
