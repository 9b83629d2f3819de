package fanout

import (
	"math/rand/v2"
	"testing"
)

// A sieve never hides a key of the set, stays in proportion to it, and lets few
// others past, whatever comes and goes.
func TestSieve(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	set := map[uint64][]place{}
	var s sieve
	var keys []uint64
	add := func() {
		k := rnd.Uint64()
		set[k] = nil
		keys = append(keys, k)
		if !s.add(k) {
			s.fill(set)
		}
	}
	remove := func() {
		i := rnd.IntN(len(keys))
		delete(set, keys[i])
		keys[i] = keys[len(keys)-1]
		keys = keys[:len(keys)-1]
		s.drop()
	}
	if s.has(1) {
		t.Error("an empty sieve has a key")
	}
	for round, target := range []int{1, 10, 1000, 20_000, 20_000, 300, 5, 5, 4000} {
		for len(keys) > target {
			remove()
		}
		for range target / 2 { // as many come as go
			if len(keys) > 0 {
				remove()
			}
			add()
		}
		for len(keys) < target {
			add()
		}
		for _, k := range keys {
			if !s.has(k) {
				t.Fatalf("seed %d, round %d: key %x is not in the sieve", seed, round, k)
			}
		}
		past := 0
		for range 10_000 {
			if s.has(rnd.Uint64()) {
				past++
			}
		}
		if limit := max(8*target, 2*sieveWords); past > 10_000/8 || len(s.bits) > limit {
			t.Errorf("seed %d, round %d: %d keys, %d words, %d of 10000 strangers get past", seed, round, target, len(s.bits), past)
		}
	}
}
