package session

import "github.com/sluice-relay/sluice/engine/stream"

// chunk is a run of at most chunkSlots slots. Those before start are free.
type chunk struct {
	slots []slot
	start int

	// low is no higher than the position of any live slot.
	low stream.Pos
}

func newChunk(slots int) *chunk {
	return &chunk{slots: make([]slot, 0, slots), low: ^stream.Pos(0)}
}

func (c *chunk) live() []slot { return c.slots[c.start:] }

// reserve makes sure that one more slot can be inserted at live index i, and
// tells whether it can. Slots freed in front are used again once they are a
// quarter, which keeps the moves amortised constant.
func (c *chunk) reserve(i int) bool {
	room := cap(c.slots)
	switch {
	case len(c.slots) < room || i == 0 && c.start > 0:
		return true
	case c.start >= room/4:
		n := copy(c.slots, c.live())
		clear(c.slots[n:])
		c.slots, c.start = c.slots[:n], 0
		return true
	case room < chunkSlots:
		c.slots = append(make([]slot, 0, min(2*room, chunkSlots)), c.live()...)
		c.start = 0
		return true
	}
	return false
}

// insert puts s at live index i. The room for it is reserved.
func (c *chunk) insert(i int, s slot) {
	c.low = min(c.low, s.entry.Pos())
	if i == 0 && c.start > 0 {
		c.start--
		c.slots[c.start] = s
		return
	}
	c.slots = append(c.slots, s)
	live := c.live()
	copy(live[i+1:], live[i:])
	live[i] = s
}

// lowest returns the lowest position of the live slots.
func (c *chunk) lowest() stream.Pos {
	low := ^stream.Pos(0)
	for _, s := range c.live() {
		low = min(low, s.entry.Pos())
	}
	return low
}
