//go:build linux

package load

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// accountant returns a client and a run of published events without sockets.
func accountant(events int, classes ...Class) (*Client, *run) {
	c := &Client{}
	s := span{end: events}
	var readers []int
	for i, cl := range classes {
		c.classes = append(c.classes, class{Class: cl})
		readers = append(readers, cl.Count)
		for range cl.Count {
			c.consumers = append(c.consumers, consumer{fd: -1, class: int32(i)})
		}
	}
	missing, err := owe(&Load{}, s, c.classes, readers)
	if err != nil {
		panic(err)
	}
	c.run = &run{
		span: s, total: events, published: events, missing: missing, inFlight: events,
		intended: make([]int64, events), flawed: make([]bool, events), gaps: map[int32]gaps{}, measuring: true,
		out: Outcome{Latency: new(Histogram), LastLatency: new(Histogram), PublishLag: new(Histogram)},
	}
	return c, c.run
}

// L1 to L3: what a consumer receives, against what is said of it.
func TestAccounting(t *testing.T) {
	even := func(n int) bool { return n%2 == 0 }
	f := func(name string, cl Class, received []int64, want faults, deliveries, flight int) {
		t.Helper()
		cl.Count = 1
		c, r := accountant(8, cl)
		r.inFlight = 0
		for _, n := range r.missing {
			if n > 0 {
				r.inFlight++
			}
		}
		r.deliver(&c.consumers[0], &c.classes[0], 0, received, 5)
		inFlight := r.inFlight
		out := c.finish()
		if got := faultsOf(out); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if out.Deliveries != int64(deliveries) || inFlight != flight {
			t.Errorf("%s: %d deliveries, %d in flight; want %d, %d", name, out.Deliveries, inFlight, deliveries, flight)
		}
		if owed := int64(c.classes[0].owed.count()); out.Deliveries+out.Lost != owed {
			t.Errorf("%s: L3: %d delivered, %d lost of %d", name, out.Deliveries, out.Lost, owed)
		}
	}
	f("all", Class{}, []int64{0, 1, 2, 3, 4, 5, 6, 7}, faults{}, 8, 0)
	f("tail lost", Class{}, []int64{0, 1, 2, 3, 4}, faults{Lost: 3}, 5, 3)
	f("nothing", Class{}, nil, faults{Lost: 8}, 0, 8)
	f("two lost", Class{}, []int64{0, 1, 4, 5, 6, 7}, faults{Lost: 2}, 6, 0)
	f("repeated", Class{}, []int64{0, 1, 1, 2, 0, 3, 4, 5, 6, 7}, faults{Repeated: 2}, 8, 0)
	f("disordered", Class{}, []int64{0, 2, 1, 3, 7, 5, 6, 4}, faults{Disordered: 4}, 8, 0)
	f("disordered, then repeated", Class{}, []int64{0, 3, 2, 2, 3, 4, 5, 6, 7}, faults{Lost: 1, Disordered: 1, Repeated: 2}, 7, 0)
	f("not published", Class{}, []int64{0, 1, 2, 8, 9_999_999_999, 3, 4, 5, 6, 7}, faults{Foreign: 2}, 8, 0)
	f("selected", Class{Select: even}, []int64{0, 2, 4, 6}, faults{}, 4, 0)
	f("not selected", Class{Select: even}, []int64{0, 1, 2, 3, 6, 5}, faults{Foreign: 3, Lost: 1}, 3, 0)
	f("resumed", Class{First: 5}, []int64{5, 6, 7}, faults{}, 3, 0)
	f("from before the position", Class{First: 5}, []int64{4, 5, 6, 7}, faults{Repeated: 1}, 3, 0)
	f("stalled", Class{Stalled: true}, nil, faults{}, 0, 0)
}

// Any sequence of numbers comes to the same as with a naive model.
func TestAccountingAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		const events = 30
		c, r := accountant(events, Class{Count: 1, Select: func(n int) bool { return n%3 != 1 }})
		var want faults
		got, high := map[int]bool{}, -1
		var received []int64
		for range 60 {
			n := rnd.IntN(events + 2)
			received = append(received, int64(n))
			switch {
			case n >= events || n%3 == 1:
				want.Foreign++
			case got[n]:
				want.Repeated++
			case n < high:
				want.Disordered++
				got[n] = true
			default:
				high = n
				got[n] = true
			}
		}
		want.Lost = int64(c.classes[0].owed.count() - len(got))
		for part := range slices.Chunk(received, 1+rnd.IntN(9)) {
			r.deliver(&c.consumers[0], &c.classes[0], 0, part, 1)
		}
		if out := c.finish(); faultsOf(out) != want || out.Deliveries != int64(len(got)) {
			t.Fatalf("seed %d: %v: got %+v and %d, want %+v and %d", seed, received, faultsOf(out), out.Deliveries, want, len(got))
		}
	}
}

// An event whose deliveries are partly lost leaves flight, and has no
// LastLatency.
func TestLossEndsFlight(t *testing.T) {
	c, r := accountant(2, Class{Count: 2})
	r.deliver(&c.consumers[0], &c.classes[0], 0, []int64{0, 1}, 7)
	if r.inFlight != 2 {
		t.Fatalf("%d in flight", r.inFlight)
	}
	r.deliver(&c.consumers[1], &c.classes[0], 1, []int64{1}, 9)
	if out := c.finish(); r.inFlight != 0 || out.LastLatency.Count() != 1 || out.LastLatency.Max() != 9 || out.Lost != 1 {
		t.Fatalf("%d in flight, %+v", r.inFlight, out)
	}
}

// A whole read, from the bytes to the histogram, allocates nothing.
func TestDeliveryAllocatesNothing(t *testing.T) {
	c, r := accountant(3, Class{Count: 1})
	c.found.numbers = make([]int64, 0, 8)
	stream := join(event(0), event(1), event(2))
	allocs := testing.AllocsPerRun(100, func() {
		c.consumers[0].next, r.inFlight = 0, 3
		r.missing[0], r.missing[1], r.missing[2] = 1, 1, 1
		for _, piece := range [][]byte{stream[:50], stream[50:150], stream[150:]} {
			c.take(&c.consumers[0], 0, piece, 3)
		}
	})
	if allocs != 0 || r.inFlight != 0 || faultsOf(r.out) != (faults{}) {
		t.Errorf("%v allocations, %d in flight, %+v", allocs, r.inFlight, r.out)
	}
}

// Lists: by arithmetic, by Select and by Owners are the same.
func TestOwed(t *testing.T) {
	selects := []func(int) bool{nil, func(n int) bool { return n%2 == 0 }, func(int) bool { return false }, nil, func(n int) bool { return n > 6 }}
	var bySelect, byOwner []class
	for i, s := range selects {
		cl := Class{First: i * 2, Stalled: i == 3}
		byOwner = append(byOwner, class{Class: cl})
		cl.Select = s
		bySelect = append(bySelect, class{Class: cl})
	}
	owners := func(n int) (to []int) {
		for i, s := range selects {
			if s == nil || s(n) {
				to = append(to, i)
			}
		}
		return to
	}
	readers, s := []int{1, 2, 3, 4, 5}, span{low: 1, first: 4, end: 12}
	a, err := owe(&Load{}, s, bySelect, readers)
	if err != nil {
		t.Fatal(err)
	}
	b, err := owe(&Load{Owners: owners}, s, byOwner, readers)
	if err != nil || !slices.Equal(a, b) {
		t.Fatalf("missing: %v and %v, %v", a, b, err)
	}
	for i := range selects {
		x, y := &bySelect[i].owed, &byOwner[i].owed
		if x.count() != y.count() {
			t.Fatalf("class %d: %d and %d", i, x.count(), y.count())
		}
		for n := range 14 {
			kx, okx := x.index(n)
			ky, oky := y.index(n)
			if x.at(n) != y.at(n) || x.below(n) != y.below(n) || kx != ky || okx != oky {
				t.Errorf("class %d, %d: %d %d, %d %d, %d %d", i, n, x.at(n), y.at(n), x.below(n), y.below(n), kx, ky)
			}
		}
	}
	for _, bad := range [][]int{{5}, {-1}, {0, 0}} {
		if _, err := owe(&Load{Owners: func(int) []int { return bad }}, s, make([]class, 5), readers); err == nil {
			t.Errorf("owners %v are taken", bad)
		}
	}
}

// Gaps are a set of indexes.
func TestGaps(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		g, set := gaps{}, map[int32]bool{}
		for at := int32(0); at < 40; {
			from := at + rnd.Int32N(3)
			at = from + 1 + rnd.Int32N(5)
			g = append(g, [2]int32{from, at})
			for k := from; k < at; k++ {
				set[k] = true
			}
			at++
		}
		for range 100 {
			k := rnd.Int32N(45)
			if got := g.take(k); got != set[k] {
				t.Fatalf("seed %d: %d: %v", seed, k, got)
			}
			delete(set, k)
		}
	}
}
