package firehose

import (
	"time"

	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

// lookWrites is how many writes of a pass go out between two looks at the clock.
const lookWrites = 32

// group is the consumers of one loop that are live and exclude the same kinds:
// each batch is put together once, and all get the same bytes in one write. A
// pass that takes longer than the loop's turn goes on in the next one. Owned by
// the loop.
type group struct {
	f       *feed
	exclude stream.Kinds
	members []member // c.at is the place of c

	// pos is what members get next. During a pass the first served of them have
	// the batch, which ends before next.
	pos, next stream.Pos
	served    int
	passing   bool
	batch     batch
}

// member is a live consumer. Its peer stands beside it, so that a delivery need
// not look at the consumer: with many of them each look is a cache miss.
type member struct {
	peer *serve.Peer
	c    *consumer
}

// batch is whole frames in the order of their positions.
type batch struct {
	frames [batchFrames]*stream.Frame
	bytes  [][]byte // of the frames; nil where there are none
	joined []byte   // one frame is not copied: it may be large
	memory []byte
}

// fetch fills the batch with what follows pos and is not excluded, and returns
// where the batch ends.
func (b *batch) fetch(ring *stream.Ring, pos stream.Pos, exclude stream.Kinds) (next stream.Pos, err error) {
	n, next, err := ring.Fetch(pos, b.frames[:], exclude)
	if err != nil {
		return pos, err
	}
	size := 0
	for i, frame := range b.frames[:n] {
		if i > 0 && size+len(frame.Bytes) > batchBytes {
			next = frame.Pos
			break
		}
		b.bytes = append(b.bytes, frame.Bytes)
		size += len(frame.Bytes)
	}
	switch len(b.bytes) {
	case 0:
	case 1:
		b.joined = b.bytes[0]
	default:
		b.memory = b.memory[:0]
		for _, p := range b.bytes {
			b.memory = append(b.memory, p...)
		}
		b.joined = b.memory
	}
	return next, nil
}

// after returns the position to go on from when so many of the batch's frames
// were accepted; next when that is all of them.
func (b *batch) after(accepted int, next stream.Pos) stream.Pos {
	if accepted < len(b.bytes) {
		return b.frames[accepted].Pos
	}
	return next
}

// release forgets the frames.
func (b *batch) release() {
	clear(b.frames[:])
	clear(b.bytes)
	b.bytes, b.joined = b.bytes[:0], nil
}

// run sends the members what there is for them until deadline, and tells whether
// something is left.
func (g *group) run(deadline time.Time) (more bool) {
	for g.passing || g.pos < g.f.ring.Next() {
		if !g.passing && !g.begin() {
			return false
		}
		if !g.serve(deadline) {
			return true
		}
		if !g.f.w.Loop().Now().Before(deadline) {
			return g.pos < g.f.ring.Next()
		}
	}
	return false
}

// begin starts a pass. When the next frame is gone, each member falls behind and
// is told by itself.
func (g *group) begin() bool {
	next, err := g.batch.fetch(g.f.ring, g.pos, g.exclude)
	if err != nil {
		for len(g.members) > 0 {
			g.fallBehind(g.members[len(g.members)-1].c, g.pos)
		}
		return false
	}
	g.next, g.served, g.passing = next, 0, true
	return true
}

// serve goes on with a pass, and tells whether it is over.
func (g *group) serve(deadline time.Time) (over bool) {
	b := &g.batch
	for writes := 1; len(b.bytes) > 0 && g.served < len(g.members); writes++ {
		if writes%lookWrites == 0 && !g.f.w.Loop().Now().Before(deadline) {
			return false
		}
		m := &g.members[g.served]
		accepted := m.peer.SendFrames(b.joined, b.bytes)
		if accepted == len(b.bytes) && !m.peer.Owes() {
			g.served++
			continue
		}
		g.fallBehind(m.c, b.after(accepted, g.next))
	}
	g.pos, g.passing = g.next, false // of members that exclude all of it too (F38)
	b.release()
	return true
}

// posOf returns the position that a member goes on from.
func (g *group) posOf(c *consumer) stream.Pos {
	if g.passing && c.at < g.served {
		return g.next
	}
	return g.pos
}

// fallBehind makes a member one that reads by itself from pos on.
func (g *group) fallBehind(c *consumer, pos stream.Pos) {
	g.take(c)
	g.f.add(c, pos)
}

// accepts tells whether a consumer that goes on from pos may join: the group is
// there, or it is empty and goes there.
func (g *group) accepts(pos stream.Pos) bool {
	return pos == g.pos || g.passing && pos == g.next || !g.passing && len(g.members) == 0
}

// join makes a consumer, whose position is accepted, a member.
func (g *group) join(c *consumer) {
	if len(g.members) == 0 && !g.passing {
		g.pos = c.pos
	}
	c.group, c.at = g, len(g.members)
	g.members = append(g.members, member{peer: c.peer, c: c})
	if c.pos != g.pos { // it has the batch of this pass
		g.swap(c.at, g.served)
		g.served++
	}
}

// take takes a member out.
func (g *group) take(c *consumer) {
	if c.at < g.served {
		g.served--
		g.swap(c.at, g.served)
	}
	last := len(g.members) - 1
	g.swap(c.at, last)
	g.members[last] = member{}
	g.members = g.members[:last]
	c.group, c.at = nil, notBehind
}

func (g *group) swap(i, j int) {
	g.members[i], g.members[j] = g.members[j], g.members[i]
	g.members[i].c.at, g.members[j].c.at = i, j
}
