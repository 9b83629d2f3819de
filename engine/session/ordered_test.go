package session

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

// checkOrdered checks a list's content and what its chunks promise.
func checkOrdered(t testing.TB, o *ordered, want []slot) {
	t.Helper()
	var got []slot
	for i, c := range o.chunks {
		live := c.live()
		if len(live) == 0 || cap(c.slots) > chunkSlots {
			t.Fatalf("chunk %d has %d slots of %d", i, len(live), cap(c.slots))
		}
		if c.low > c.lowest() {
			t.Fatalf("chunk %d: low %d is above position %d", i, c.low, c.lowest())
		}
		all := c.slots[:cap(c.slots)]
		for j, s := range all {
			if (j < c.start || j >= len(c.slots)) && s != (slot{}) {
				t.Fatalf("chunk %d keeps a removed entry in slot %d", i, j)
			}
		}
		got = append(got, live...)
	}
	if !slices.Equal(got, want) || o.count != len(want) {
		t.Fatalf("%d slots, count %d, want %d: not as the model", len(got), o.count, len(want))
	}
}

// positioned returns entries 1..n of a log, their seqs given by seq.
func positioned(n int, seq func(i int) int64) []*stream.Entry {
	log := stream.NewLog(2, math.MaxInt64)
	all := make([]*stream.Entry, n)
	for i := range all {
		all[i] = newEntry("s", stream.Sequence{Seq: seq(i)}, 0)
		log.Append(all[i])
	}
	return all
}

// TestOrdered compares the list with a sorted slice, for runs of every kind
// with removals in between.
func TestOrdered(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const n = 3000
	for name, seq := range map[string]func(i int) int64{
		"ascending":  func(i int) int64 { return int64(i) },
		"descending": func(i int) int64 { return int64(n - i) },
		"equal":      func(int) int64 { return 7 },
		"random":     func(int) int64 { return rnd.Int64N(500) },
		"two runs":   func(i int) int64 { return int64(i%2*n*2 + i) },
		"inwards":    func(i int) int64 { return int64((i%2*2 - 1) * (n - i)) },
	} {
		for _, keep := range []int{1, 3, 90, 300, n} {
			var o ordered
			var want []slot
			for _, e := range positioned(n, seq) {
				s := slot{e, keyOf(uint64(e.Pos()))}
				if len(want) >= keep && !e.Less(want[0].entry.Sequence) {
					if got := o.removeFirst(); got != want[0] {
						t.Fatalf("%s: removed %+v, want %+v", name, got, want[0])
					}
					want = want[1:]
				}
				if len(want) < keep {
					o.insert(s)
					i, _ := slices.BinarySearchFunc(want, pointOf(e), func(s slot, p point) int {
						if p.below(s.entry) {
							return 1
						}
						return -1
					})
					want = slices.Insert(want, i, s)
				}
				if e.Pos()%61 == 0 {
					checkOrdered(t, &o, want)
					checkSearch(t, rnd, &o, want)
				}
			}
			checkOrdered(t, &o, want)
			for len(want) > 0 {
				o.removeFirst()
				want = want[1:]
			}
			checkOrdered(t, &o, nil)
		}
	}
}

// checkSearch compares find, owed and lastOwed with linear searches.
func checkSearch(t *testing.T, rnd *rand.Rand, o *ordered, want []slot) {
	t.Helper()
	for range 20 {
		p := point{stream.Sequence{Seq: rnd.Int64N(8000) - 4000}, stream.Pos(rnd.IntN(3000) + 1)}
		if len(want) > 0 && rnd.IntN(2) == 0 {
			p = pointOf(want[rnd.IntN(len(want))].entry)
		}
		before := stream.Pos(rnd.IntN(3000) + 1)
		i := slices.IndexFunc(want, func(s slot) bool { return pointOf(s.entry) == p || p.below(s.entry) })
		place, found := o.find(p)
		if wantFound := i >= 0 && pointOf(want[i].entry) == p; found != wantFound {
			t.Fatalf("find %v: %v, want %v", p, found, wantFound)
		}
		isOwed := func(s slot) bool { return s.entry.Pos() < before }
		var first, last *stream.Entry
		if i >= 0 {
			if j := slices.IndexFunc(want[i:], isOwed); j >= 0 {
				first = want[i+j].entry
			}
		}
		for _, s := range want {
			if isOwed(s) {
				last = s.entry
			}
		}
		if _, got := o.owed(place, before); got != first {
			t.Fatalf("owed from %v before %d: %v, want %v", p, before, got, first)
		}
		if got := o.lastOwed(before); got != last {
			t.Fatalf("lastOwed before %d: %v, want %v", before, got, last)
		}
	}
}

// TestRunsLeaveFullChunks: a run in either direction wastes no room (R470).
func TestRunsLeaveFullChunks(t *testing.T) {
	const n = 10_000
	for name, seq := range map[string]func(i int) int64{
		"ascending":  func(i int) int64 { return int64(i) },
		"descending": func(i int) int64 { return int64(n - i) },
	} {
		var o ordered
		for _, e := range positioned(n, seq) {
			o.insert(slot{entry: e})
		}
		if got, limit := len(o.chunks), n/chunkSlots+2; got > limit {
			t.Errorf("%s: %d chunks, want at most %d", name, got, limit)
		}
	}
}

// TestKeySet compares the set with a map. Few homes make long probe runs that
// wrap around.
func TestKeySet(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, homes := range []int{1, 3, 7, 1 << 30} {
		var s keySet
		want := make(map[Key]bool)
		key := func() (k Key) {
			k[15] = byte(rnd.IntN(120)) // 0 with home 0 is the zero key
			h := rnd.IntN(homes)
			k[0], k[1], k[2], k[3] = byte(-h), byte(-h>>8), byte(-h>>16), byte(-h>>24)
			return k
		}
		for range 20_000 {
			k := key()
			switch rnd.IntN(3) {
			case 0:
				if got := s.add(k); got == want[k] {
					t.Fatalf("add = %v", got)
				}
				want[k] = true
			case 1:
				for k = range want { // any member
					break
				}
				s.remove(k)
				delete(want, k)
			default:
				s.remove(k)
				delete(want, k)
			}
			if k = key(); s.has(k) != want[k] {
				t.Fatalf("has = %v", s.has(k))
			}
			if len(want) == 0 && s.table != nil {
				t.Fatal("an empty set keeps its table")
			}
		}
		for k := range want {
			if !s.has(k) {
				t.Fatal("a member is missing")
			}
			s.remove(k)
		}
		if s.count != 0 || s.zero || s.table != nil {
			t.Fatalf("%d keys are left", s.count)
		}
	}
}
