package jsontext

import "hash/maphash"

const (
	// fewNames are compared with each other; beyond, a table is made.
	fewNames = 16
	// KeepNames is the size of the set that outlives one text; a name has up to
	// four slots.
	KeepNames = 1024
)

var nameSeed = maphash.MakeSeed()

// NameSet finds repeated names in time linear in their bytes, whatever they
// are: beyond a few they are found by a hash that is keyed anew in each
// process. It borrows the names until Clear. The zero
// value is empty. One goroutine at a time.
type NameSet struct {
	names [][]byte
	table []uint32 // 1 + index into names, 0 where free; a power of two
}

// Clear empties the set and keeps its memory.
func (s *NameSet) Clear() {
	clear(s.names)
	s.names = s.names[:0]
	s.table = s.table[:0]
}

// Shrink clears, and drops memory that one text made large.
func (s *NameSet) Shrink() {
	s.Clear()
	if cap(s.names) > KeepNames {
		s.names = nil
	}
	if cap(s.table) > 4*KeepNames {
		s.table = nil
	}
}

// Add adds a name and reports false when it is there already.
func (s *NameSet) Add(name []byte) bool {
	if len(s.names) < fewNames {
		for _, other := range s.names {
			if string(other) == string(name) {
				return false
			}
		}
		s.names = append(s.names, name)
		return true
	}
	if 2*(len(s.names)+1) > len(s.table) {
		s.grow()
	}
	slot := s.slot(name)
	if s.table[slot] != 0 {
		return false
	}
	s.names = append(s.names, name)
	s.table[slot] = uint32(len(s.names))
	return true
}

// slot returns where the name is, or the free place where it goes.
func (s *NameSet) slot(name []byte) int {
	mask := len(s.table) - 1
	i := int(maphash.Bytes(nameSeed, name)) & mask
	for ; s.table[i] != 0; i = (i + 1) & mask {
		if string(s.names[s.table[i]-1]) == string(name) {
			break
		}
	}
	return i
}

// grow makes the table four times as large as the names need now.
func (s *NameSet) grow() {
	size := 8 * fewNames
	for size < 4*len(s.names) {
		size *= 2
	}
	if cap(s.table) < size {
		s.table = make([]uint32, size)
	}
	s.table = s.table[:size]
	clear(s.table)
	for i, name := range s.names {
		s.table[s.slot(name)] = uint32(i + 1)
	}
}

// Kept returns for how many names, and of how many slots, the set keeps memory.
func (s *NameSet) Kept() (names, slots int) { return cap(s.names), cap(s.table) }
