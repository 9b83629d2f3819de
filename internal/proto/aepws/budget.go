package aepws

// unacked is an event that one subscription was sent and has not acknowledged.
// It has no pointers, so a full session costs the collector nothing. How often
// it was sent follows from its place in the window (W1).
type unacked struct {
	number int64  // of the event in the log
	key    uint64 // of the event's id and the window: see window.key
	due    uint32 // tick at which the ack timeout and back-off are over
	next   uint16 // slot + 1 of the next in the window or the free list; 0: none
	prev   uint16 // slot + 1 of the one before it in the window; 0: none
}

// budget holds what all windows of one session were sent and have not
// acknowledged: 24 bytes each and 4 to 8 of the table that finds them by key, at
// most as many as AEPWS_MAX_UNACKED (B60). The memory comes with the need and
// goes with trim. Owned by the loop.
//
// Without the table, a list of 1,000 was walked in up to 10 us for whoever does
// not acknowledge in order.
type budget struct {
	plan    *retryPlan // immutable
	slots   []unacked  // len and cap at most plan.unacked
	free    uint16     // slot + 1 of the first that is free; 0: none
	used    int
	table   []uint16 // slot + 1 by key, linear probing; a power of 2, half full
	windows uint64   // made so far
}

// newBudget returns the empty budget of a session.
func newBudget(plan *retryPlan) *budget { return &budget{plan: plan} }

// full tells that no window of the session may send another event before one
// is acknowledged.
func (b *budget) full() bool { return b.used >= b.plan.unacked }

// trim gives the memory back if nothing is unacknowledged: for a session that
// has been quiet.
func (b *budget) trim() {
	if b.used == 0 {
		b.slots, b.free, b.table = nil, 0, nil
	}
}

// at returns the slot with a number from 1.
func (b *budget) at(slot uint16) *unacked { return &b.slots[slot-1] }

// take puts an event into a slot and returns its number. The budget must not be
// full.
func (b *budget) take(e unacked) uint16 {
	b.used++
	slot := b.free
	if slot != 0 {
		b.free = b.at(slot).next
		*b.at(slot) = e
	} else {
		if len(b.slots) == cap(b.slots) {
			b.grow()
		}
		b.slots = append(b.slots, e)
		slot = uint16(len(b.slots))
	}
	b.file(slot)
	return slot
}

// put gives a slot back.
func (b *budget) put(slot uint16) {
	b.strike(slot)
	b.at(slot).next = b.free
	b.free = slot
	b.used--
}

// grow makes room; all slots are in use.
func (b *budget) grow() {
	count := min(max(16, 2*cap(b.slots)), b.plan.unacked)
	grown := make([]unacked, len(b.slots), count)
	copy(grown, b.slots)
	b.slots = grown
	size := 32
	for size < 2*count {
		size *= 2
	}
	b.table = make([]uint16, size)
	for i := range b.slots {
		b.file(uint16(i + 1))
	}
}

// file enters a slot into the table.
func (b *budget) file(slot uint16) {
	mask := uint64(len(b.table) - 1)
	i := b.at(slot).key & mask
	for b.table[i] != 0 {
		i = (i + 1) & mask
	}
	b.table[i] = slot
}

// strike takes a slot out of the table. What follows moves up as far as its key
// allows, so that no search ends at the hole.
func (b *budget) strike(slot uint16) {
	mask := uint64(len(b.table) - 1)
	hole := b.at(slot).key & mask
	for b.table[hole] != slot {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; b.table[i] != 0; i = (i + 1) & mask {
		home := b.at(b.table[i]).key & mask
		if (i-home)&mask >= (i-hole)&mask {
			b.table[hole] = b.table[i]
			hole = i
		}
	}
	b.table[hole] = 0
}

// find returns the slot with a key and a number, with number 0 the one with the
// lowest number; 0 is none.
func (b *budget) find(key uint64, number int64) (slot uint16) {
	if b.used == 0 {
		return 0
	}
	mask := uint64(len(b.table) - 1)
	for i := key & mask; b.table[i] != 0; i = (i + 1) & mask {
		e := b.at(b.table[i])
		switch {
		case e.key != key:
		case e.number == number:
			return b.table[i]
		case number == 0 && (slot == 0 || e.number < b.at(slot).number):
			slot = b.table[i]
		}
	}
	return slot
}
