package relay

import (
	"slices"
	"testing"
)

// Memory is given back once after many connections were opened, when no more
// come, and again only after as many more.
func TestHerdSettles(t *testing.T) {
	f := func(name string, conns []int64, want ...int) {
		t.Helper()
		var h herd
		var got []int
		for i, n := range conns {
			if h.settled(n) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %v: settled at %v, want %v", name, conns, got, want)
		}
	}
	f("few", []int64{0, 10, 900, 999, 999, 999})
	f("a herd", []int64{0, 400, 2000, 5000, 5000, 5000, 5010}, 4)
	f("still coming", []int64{0, 2000, 4000, 6000, 8000})
	f("still going", []int64{0, 8000, 6000, 4000, 2000})
	f("slowly", []int64{0, 30, 60, 1500, 1530, 1530}, 4)
	f("twice", []int64{5000, 5000, 5900, 5900, 6000, 6000, 6000}, 1, 5)
	f("left and came back", []int64{5000, 5000, 100, 100, 5000, 5000}, 1, 5)
}
