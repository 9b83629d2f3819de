package fanout

// sieve tells that a key is not in a set, for a tenth of what asking the set's
// map costs: an event has a dozen keys, of which mostly one is filed, and with
// 10,000 filters the map is not in the cache. A key takes 16 to 32 bits, one of
// which is set, so that of the other keys one in 16 gets past at most. It is
// filled anew when it has become too small, or when too many keys have left.
// Owned by the loop.
type sieve struct {
	bits []uint64 // a power of two of them
	keys int      // added since it was filled, the ones that left included
	gone int      // of them, keys that left
}

const (
	// sieveKeys is how many keys a word of 64 bits is for, and sieveWords the
	// smallest sieve.
	sieveKeys  = 4
	sieveWords = 16
)

// has tells whether k may be in the set.
func (s *sieve) has(k uint64) bool {
	return len(s.bits) > 0 && s.bits[k>>6&uint64(len(s.bits)-1)]&(1<<(k&63)) != 0
}

// add notes a key that came into the set. It tells whether there was room; when
// not, the sieve has to be filled.
func (s *sieve) add(k uint64) bool {
	if s.keys >= len(s.bits)*sieveKeys {
		return false
	}
	s.bits[k>>6&uint64(len(s.bits)-1)] |= 1 << (k & 63)
	s.keys++
	return true
}

// drop notes that a key left the set. Its bit stays, since others may share it;
// the next key finds no room when that is so of half of them.
func (s *sieve) drop() {
	if s.gone++; s.gone*2 > s.keys {
		s.keys = len(s.bits) * sieveKeys
	}
}

// fill makes the sieve of the set's keys, with room for as many again.
func (s *sieve) fill(set map[uint64][]place) {
	words := sieveWords
	for words*sieveKeys < 2*len(set) {
		words *= 2
	}
	*s = sieve{bits: make([]uint64, words)}
	for k := range set {
		s.add(k)
	}
}
