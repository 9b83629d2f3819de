package session

import (
	"slices"
	"sort"

	"github.com/sluice-relay/sluice/engine/stream"
)

// chunkSlots is how many slots a chunk has at most. An insert out of order
// moves at most one chunk, 6 KiB; a list of 10,000 has 40 to 80 chunks.
const chunkSlots = 256

// firstSlots is the room of a session's first chunk, which doubles as it
// fills: most sessions of a relay with many are small.
const firstSlots = 4

// slot is one held entry and the key it is deduped on.
type slot struct {
	entry *stream.Entry
	key   Key
}

// point is the place of an entry in the order (B2).
type point struct {
	stream.Sequence
	pos stream.Pos
}

func pointOf(e *stream.Entry) point { return point{e.Sequence, e.Pos()} }

// below tells whether p is strictly below the point of e.
func (p point) below(e *stream.Entry) bool {
	switch p.Compare(e.Sequence) {
	case -1:
		return true
	case 0:
		return p.pos < e.Pos()
	}
	return false
}

// ordered is a list of slots ascending by (Sequence, Pos) (B2), in chunks: a
// search is binary, an append or the removal of the first slot is constant, any
// other insert moves slots of one chunk. One slice was tried on paper only: a
// batch in descending order moves all of it each time (R470).
type ordered struct {
	chunks []*chunk // none is empty
	count  int
}

// place is an index into the list. Slot len(live) of a chunk is the same place
// as slot 0 of the next one.
type place struct{ chunk, slot int }

// first returns the lowest slot, nil if there is none.
func (o *ordered) first() *slot {
	if o.count == 0 {
		return nil
	}
	return &o.chunks[0].live()[0]
}

// last returns the highest slot, nil if there is none.
func (o *ordered) last() *slot {
	if o.count == 0 {
		return nil
	}
	c := o.chunks[len(o.chunks)-1]
	return &c.slots[len(c.slots)-1]
}

// above returns the place of the first slot above p, as an index into the chunk
// that holds the slot before it. The list is not empty.
func (o *ordered) above(p point) place {
	c := len(o.chunks) - 1
	if last := o.last(); !p.below(last.entry) {
		return place{c, len(o.chunks[c].live())}
	}
	c = sort.Search(c+1, func(i int) bool { return p.below(o.chunks[i].live()[0].entry) })
	if c == 0 {
		return place{}
	}
	live := o.chunks[c-1].live()
	return place{c - 1, sort.Search(len(live), func(i int) bool { return p.below(live[i].entry) })}
}

// find returns the place of the first slot at or above p, and whether that one
// is the entry at p itself.
func (o *ordered) find(p point) (place, bool) {
	if o.count == 0 {
		return place{}, false
	}
	at := o.above(point{p.Sequence, p.pos - 1})
	if at.slot == len(o.chunks[at.chunk].live()) {
		at = place{at.chunk + 1, 0}
	}
	if at.chunk == len(o.chunks) {
		return at, false
	}
	return at, pointOf(o.chunks[at.chunk].live()[at.slot].entry) == p
}

// insert adds s at its place. No slot has the same point.
func (o *ordered) insert(s slot) {
	o.count++
	if len(o.chunks) == 0 {
		c := newChunk(firstSlots)
		c.insert(0, s)
		o.chunks = append(o.chunks, c)
		return
	}
	at := o.above(pointOf(s.entry))
	c := o.chunks[at.chunk]
	if !c.reserve(at.slot) {
		c, at.slot = o.split(at)
	}
	c.insert(at.slot, s)
}

// split makes room at a place in a full chunk, and returns the chunk and the
// slot which that place is in now. At either end of the list a fresh chunk is
// added, so that ascending and descending runs leave full chunks behind.
func (o *ordered) split(at place) (*chunk, int) {
	c := o.chunks[at.chunk]
	live := c.live()
	switch {
	case at.chunk == len(o.chunks)-1 && at.slot == len(live):
		fresh := newChunk(chunkSlots)
		o.chunks = append(o.chunks, fresh)
		return fresh, 0
	case at == place{}:
		fresh := newChunk(chunkSlots)
		fresh.slots = fresh.slots[:chunkSlots]
		fresh.start = chunkSlots // grows downwards
		o.chunks = slices.Insert(o.chunks, 0, fresh)
		return fresh, 0
	}
	half := len(live) / 2
	right := newChunk(chunkSlots)
	right.slots = append(right.slots, live[half:]...)
	clear(live[half:])
	c.slots = c.slots[:c.start+half]
	c.low, right.low = c.lowest(), right.lowest()
	o.chunks = slices.Insert(o.chunks, at.chunk+1, right)
	if at.slot <= half {
		return c, at.slot
	}
	return right, at.slot - half
}

// removeFirst takes the lowest slot out. The list is not empty.
func (o *ordered) removeFirst() slot {
	c := o.chunks[0]
	s := c.slots[c.start]
	c.slots[c.start] = slot{}
	c.start++
	o.count--
	switch {
	case o.count == 0:
		o.chunks = nil
	case c.start == len(c.slots):
		o.chunks = slices.Delete(o.chunks, 0, 1)
	}
	return s
}

// owed returns the first entry from at on whose position is below before, and
// its place; nil if there is none. Whole chunks of later entries are skipped.
func (o *ordered) owed(at place, before stream.Pos) (place, *stream.Entry) {
	for ; at.chunk < len(o.chunks); at = (place{at.chunk + 1, 0}) {
		c := o.chunks[at.chunk]
		if c.low >= before {
			continue
		}
		for live := c.live(); at.slot < len(live); at.slot++ {
			if e := live[at.slot].entry; e.Pos() < before {
				return at, e
			}
		}
	}
	return at, nil
}

// lastOwed returns the highest entry whose position is below before, nil if
// there is none.
func (o *ordered) lastOwed(before stream.Pos) *stream.Entry {
	for _, c := range slices.Backward(o.chunks) {
		if c.low >= before {
			continue
		}
		for _, s := range slices.Backward(c.live()) {
			if s.entry.Pos() < before {
				return s.entry
			}
		}
	}
	return nil
}
