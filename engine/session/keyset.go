package session

import "encoding/binary"

// minKeySlots is the smallest table of a key set that is not empty.
const minKeySlots = 8

// keySet is a set of keys: a power-of-two table with linear probing, filled to
// three quarters at most. A removal closes its gap, so there are no tombstones:
// a window that slides allocates nothing, and the table shrinks with the set. A
// map of the runtime does neither.
type keySet struct {
	table []Key // the zero key marks a free slot
	count int   // keys in table
	zero  bool  // the zero key itself is a member
}

// has tells whether k is a member.
func (s *keySet) has(k Key) bool {
	if k == (Key{}) {
		return s.zero
	}
	if len(s.table) == 0 {
		return false
	}
	_, found := s.find(k)
	return found
}

// add adds k and tells whether it was no member before.
func (s *keySet) add(k Key) bool {
	if k == (Key{}) {
		added := !s.zero
		s.zero = true
		return added
	}
	if len(s.table) == 0 {
		s.resize(minKeySlots)
	}
	i, found := s.find(k)
	if found {
		return false
	}
	if (s.count+1)*4 > len(s.table)*3 {
		s.resize(2 * len(s.table))
		i, _ = s.find(k)
	}
	s.table[i] = k
	s.count++
	return true
}

// remove takes k out, if it is a member.
func (s *keySet) remove(k Key) {
	if k == (Key{}) {
		s.zero = false
		return
	}
	if len(s.table) == 0 {
		return
	}
	i, found := s.find(k)
	if !found {
		return
	}
	s.closeGap(i)
	s.count--
	switch {
	case s.count == 0:
		s.table = nil
	case len(s.table) > minKeySlots && s.count*8 < len(s.table):
		s.resize(len(s.table) / 2)
	}
}

// find returns the slot of k, or the free slot where it belongs. The table is
// never full.
func (s *keySet) find(k Key) (i int, found bool) {
	mask := len(s.table) - 1
	for i = home(k) & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case k:
			return i, true
		case Key{}:
			return i, false
		}
	}
}

// closeGap frees slot gap and moves up what probing would no longer find.
func (s *keySet) closeGap(gap int) {
	mask := len(s.table) - 1
	for i := (gap + 1) & mask; s.table[i] != (Key{}); i = (i + 1) & mask {
		// The key at i may move if its home is not within (gap, i].
		if fromHome := (i - home(s.table[i])) & mask; fromHome >= (i-gap)&mask {
			s.table[gap] = s.table[i]
			gap = i
		}
	}
	s.table[gap] = Key{}
}

func (s *keySet) resize(slots int) {
	old := s.table
	s.table = make([]Key, slots)
	for _, k := range old {
		if k != (Key{}) {
			i, _ := s.find(k)
			s.table[i] = k
		}
	}
}

// home is where the search for k starts, to be masked.
func home(k Key) int { return int(binary.LittleEndian.Uint64(k[:8])) }
