package limit

import (
	"net/netip"
	"sync"
)

// shrinkEntries is the table size from which on a table that has become
// almost empty is made anew: a map keeps the memory of its largest time. Below
// it that memory is some hundred KiB.
const shrinkEntries = 4096

// Addresses counts what each address holds, connections for example, against
// one cap. A nil Addresses has no cap. Any goroutine.
type Addresses struct {
	// immutable after construction
	most int32

	mu sync.Mutex

	// guarded by mu; A1, A2
	held map[key]int32
	peak int // entries at most since held was made
}

// NewAddresses returns counters with a cap of most for each address. No cap,
// that is most <= 0, is nil.
func NewAddresses(most int) *Addresses {
	if most <= 0 {
		return nil
	}
	// More than 2^31-1 connections of one address cannot be.
	return &Addresses{most: int32(min(most, 1<<31-1)), held: map[key]int32{}}
}

// Acquire counts one more for the address and returns true, or returns false
// and counts nothing when that would be over the cap. Each success needs one
// Release with the same address. An invalid address is not counted. Does not
// allocate, unless there are more addresses than ever before.
func (a *Addresses) Acquire(addr netip.Addr) bool {
	if a == nil || !addr.IsValid() {
		return true
	}
	k := keyOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	count := a.held[k]
	if count >= a.most {
		return false
	}
	a.held[k] = count + 1
	a.peak = max(a.peak, len(a.held))
	return true
}

// Release undoes one successful Acquire of the address. One without an
// Acquire does nothing.
func (a *Addresses) Release(addr netip.Addr) {
	if a == nil || !addr.IsValid() {
		return
	}
	k := keyOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if count := a.held[k]; count > 1 {
		a.held[k] = count - 1
		return
	}
	delete(a.held, k)
	if a.peak >= shrinkEntries && len(a.held) <= a.peak/8 {
		a.shrinkLocked()
	}
}

// shrinkLocked gives the memory of a large time back. It copies an eighth of
// the entries that have left since, so the cost of a Release stays constant
// on average.
func (a *Addresses) shrinkLocked() {
	held := make(map[key]int32, len(a.held))
	for k, count := range a.held {
		held[k] = count
	}
	a.held, a.peak = held, len(held)
}

// Len returns the number of addresses that hold something.
func (a *Addresses) Len() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.held)
}
