package validate

import "hash/maphash"

// recentCount is how many keys are surely remembered of each kind; twice as
// many at most.
const recentCount = 1 << 18

// recent remembers values by the hash of a key, those of the last keys only.
// Two keys of 64 bits that are equal by chance give a false warning: among
// half a million, one in 10^8 files.
type recent[V any] struct {
	young, old map[uint64]V
	seed       maphash.Seed
	bound      int
}

func newRecent[V any](bound int) *recent[V] {
	return &recent[V]{young: map[uint64]V{}, seed: maphash.MakeSeed(), bound: bound}
}

// get returns what is remembered under a key of two parts.
func (r *recent[V]) get(a, b string) (V, bool) {
	key := maphash.Comparable(r.seed, [2]string{a, b})
	v, ok := r.young[key]
	if !ok {
		v, ok = r.old[key]
	}
	return v, ok
}

// put remembers v, and forgets the older half when there is no room.
func (r *recent[V]) put(a, b string, v V) {
	key := maphash.Comparable(r.seed, [2]string{a, b})
	if _, there := r.young[key]; !there && len(r.young) >= r.bound {
		r.old, r.young = r.young, make(map[uint64]V)
	}
	r.young[key] = v
}
