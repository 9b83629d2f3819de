package aepws

import (
	"slices"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// filed is one group in the index.
type filed struct {
	g      *group
	filter *aepws.Filter
	scan   bool     // in the scan list, at at[0]
	keys   []uint64 // else filed under these; none: it matches nothing
	at     []int    // at[i]: place in the bucket of keys[i]
	stamp  int64    // number of the event that it was asked about last
}

// place is one entry of a bucket: the filed group and which of its keys.
type place struct {
	f *filed
	k int
}

// index finds the groups that an event touches by the event's attributes, not by
// a scan: each filter is filed under its most selective equality. Owned by the
// loop.
type index struct {
	byKey map[uint64][]place
	maybe sieve // of the keys of byKey
	scan  []place
	keys  []uint64 // scratch
	hits  []*group // of the last match
}

// add files a filter under the candidate set with the fewest neighbours.
func (x *index) add(f *filed) {
	candidates := f.filter.Candidates()
	best, cost := -1, 0
	for i, set := range candidates {
		c := len(set) / 16
		for _, k := range set {
			c += len(x.byKey[k])
		}
		if best < 0 || c < cost {
			best, cost = i, c
		}
	}
	if best < 0 {
		f.scan, f.at = true, []int{len(x.scan)}
		x.scan = append(x.scan, place{f, 0})
		return
	}
	if x.byKey == nil {
		x.byKey = make(map[uint64][]place)
	}
	f.keys = slices.Compact(slices.Sorted(slices.Values(candidates[best])))
	f.at = make([]int, len(f.keys))
	for i, k := range f.keys {
		f.at[i] = len(x.byKey[k])
		x.byKey[k] = append(x.byKey[k], place{f, i})
		if f.at[i] == 0 && !x.maybe.add(k) {
			x.maybe.fill(x.byKey)
		}
	}
}

func (x *index) remove(f *filed) {
	if f.scan {
		x.scan = removePlace(x.scan, f.at[0])
		return
	}
	for i, k := range f.keys {
		if b := removePlace(x.byKey[k], f.at[i]); len(b) > 0 {
			x.byKey[k] = b
			continue
		}
		delete(x.byKey, k)
		if x.maybe.drop(); len(x.byKey) == 0 {
			x.byKey, x.maybe = nil, sieve{}
		}
	}
}

func removePlace(b []place, at int) []place {
	last := len(b) - 1
	if at != last {
		b[at] = b[last]
		b[at].f.at[b[at].k] = at
	}
	b[last] = place{}
	return b[:last]
}

// match returns the groups that select e, each once, until the next call.
func (x *index) match(e *entry) []*group {
	x.hits = x.hits[:0]
	for _, p := range x.scan {
		x.try(e, p.f)
	}
	if len(x.byKey) == 0 {
		return x.hits
	}
	x.keys = e.AppendKeys(x.keys[:0])
	for _, k := range x.keys {
		if !x.maybe.has(k) {
			continue
		}
		for _, p := range x.byKey[k] {
			x.try(e, p.f)
		}
	}
	return x.hits
}

func (x *index) try(e *entry, f *filed) {
	if f.stamp == e.number {
		return
	}
	f.stamp = e.number
	if f.filter.Match(&e.attributes) {
		x.hits = append(x.hits, f.g)
	}
}

// sieve tells that a key is not in a set, for a tenth of what asking the set's
// map costs: with 10,000 filters the map is not in the cache. A key takes 16 to
// 32 bits, one of which is set, so that of the other keys one in 16 gets past at
// most. It is filled anew when it has become too small, or when too many keys
// have left. Owned by the loop.
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
