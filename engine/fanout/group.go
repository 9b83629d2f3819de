package fanout

import (
	"encoding/binary"
	"slices"

	"github.com/sluice-relay/sluice/engine/stream"
)

// Group is the connections of one loop whose subscription lists are equal and
// that are live: one match and one batch serve them all. Owned by the loop.
type Group struct {
	key     string
	subs    []*Sub // of the member that came first; only selector and form count
	track   bool   // positions are kept, for closing frames
	members []*Member
	holes   int // tombstones in members
	lagging int // members whose output or queue is not empty
	filed   []*filed

	n    uint64 // ordinal of the next record
	last positions[groupKeyPos]

	// During a pass.
	stamp stream.Pos // the pass's end, when the group is touched by it
	batch *Batch
	size  int
	done  bool

	// recent are the last batches that were built for laggards.
	recent   [8]*Batch
	recentAt int
}

// appendGroupKey appends the name of the group of a subscription list.
func appendGroupKey(b []byte, subs []*Sub) []byte {
	for _, s := range subs {
		c := s.Selector.Canonical()
		b = append(b, byte(s.Form), boolByte(s.Track))
		b = binary.AppendUvarint(b, uint64(len(c)))
		b = append(b, c...)
	}
	return b
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// add appends one matched entry to the pass's batch.
func (g *Group) add(e *stream.Entry, sub uint16) {
	size := len(e.Frame(g.subs[sub].Form))
	r := Record{entry: e, n: g.n, size: uint32(size), sub: sub}
	g.n++
	if g.subs[sub].Track && e.Sequenced {
		r.prev = g.last.swap(r.key(), position{e.Sequence, e.Pos()})
	}
	g.batch.recs = append(g.batch.recs, r)
	g.size += size
}

// build concatenates the frames of the pass into one run of bytes. A batch of
// one frame is the entry's own bytes.
func (g *Group) build() {
	b := g.batch
	if len(b.recs) == 1 {
		b.bytes = b.recs[0].entry.Frame(g.subs[b.recs[0].sub].Form)
		return
	}
	b.bytes = b.buf[:0]
	b.appendFrames(b.recs, g.subs)
	b.buf = b.bytes
}

// appendFrames appends the frames of recs, which are not b's to keep.
func (b *Batch) appendFrames(recs []Record, subs []*Sub) {
	for i := range recs {
		r := &recs[i]
		b.bytes = append(b.bytes, r.entry.Frame(subs[r.sub].Form)...)
		b.ends = append(b.ends, uint32(len(b.bytes)))
	}
}

// lagBatch returns a batch of at most maxBytes (one record at least) that
// begins with the head of q, and takes its records off q. Laggards that start
// at the same record and miss nothing share it.
func (g *Group) lagBatch(q *runQueue, maxBytes int) *Batch {
	for _, b := range g.recent {
		if b != nil && b.recs[0].n == q.first().n && q.holds(b) {
			q.popRecords(len(b.recs))
			return b
		}
	}
	b := q.build(g.subs, maxBytes)
	g.recent[g.recentAt] = b
	g.recentAt = (g.recentAt + 1) % len(g.recent)
	return b
}

// build makes a batch of at most maxBytes (one record at least) of the head of
// q and takes its records off.
func (q *runQueue) build(subs []*Sub, maxBytes int) *Batch {
	b := &Batch{}
	for q.count > 0 {
		r := q.first()
		if len(b.bytes) > 0 && len(b.bytes)+int(r.size) > maxBytes {
			break
		}
		b.recs = append(b.recs, *r)
		b.appendFrames(b.recs[len(b.recs)-1:], subs)
		q.pop(1)
	}
	return b
}

// holds tells whether q begins with exactly the records of b. Ordinals are
// dense: a run of the right length that ends right has no hole.
func (q *runQueue) holds(b *Batch) bool {
	n := len(b.recs)
	if q.count < n {
		return false
	}
	for i, left := q.head, n; ; i++ {
		recs := q.runs[i].recs
		if left <= len(recs) {
			return recs[left-1].n == b.recs[n-1].n && b.recs[n-1].n-b.recs[0].n == uint64(n-1)
		}
		left -= len(recs)
	}
}

// popRecords takes n records off, across runs.
func (q *runQueue) popRecords(n int) {
	for n > 0 {
		k := min(n, len(q.runs[q.head].recs))
		q.pop(k)
		n -= k
	}
}

// leave takes m out. During a pass that serves the group its place stays as a
// tombstone.
func (g *Group) leave(m *Member, inPass bool) {
	m.setLagging(false)
	if inPass {
		g.members[m.place] = nil
		g.holes++
	} else {
		last := len(g.members) - 1
		g.members[m.place] = g.members[last]
		g.members[m.place].place = m.place
		g.members[last] = nil
		g.members = g.members[:last]
	}
	m.group = nil
}

// compact closes the holes that a pass left.
func (g *Group) compact() {
	if g.holes == 0 {
		return
	}
	g.members = slices.DeleteFunc(g.members, func(m *Member) bool { return m == nil })
	for i, m := range g.members {
		m.place = int32(i)
	}
	g.holes = 0
}

// empty tells whether the group has no members.
func (g *Group) empty() bool { return len(g.members) == g.holes }
