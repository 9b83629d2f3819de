//go:build linux

package load

import (
	"fmt"
	"slices"
	"sort"
)

// owed is the list of events that each consumer of one class must receive, in
// order. Immutable during a run.
type owed struct {
	first, end int     // without list: the events [first, end)
	list       []int32 // ascending; only if selected
	selected   bool
}

// count returns the length of the list.
func (o *owed) count() int {
	if o.selected {
		return len(o.list)
	}
	return max(0, o.end-o.first)
}

// at returns the k-th event, -1 behind the last.
func (o *owed) at(k int) int {
	if o.selected {
		if k >= len(o.list) {
			return -1
		}
		return int(o.list[k])
	}
	if o.first+k >= o.end {
		return -1
	}
	return o.first + k
}

// below returns how many events of the list have numbers less than n.
func (o *owed) below(n int) int {
	if o.selected {
		return sort.Search(len(o.list), func(i int) bool { return int(o.list[i]) >= n })
	}
	return max(0, min(n, o.end)-o.first)
}

// index returns where an event stands in the list.
func (o *owed) index(n int) (int, bool) {
	k := o.below(n)
	return k, o.at(k) == n
}

// span is the event numbers of one run: [low, first) exist before it,
// [first, end) are published by it.
type span struct{ low, first, end int }

// spanOf returns the events that a load is about.
func spanOf(l *Load, classes []class) (span, error) {
	s := span{low: l.First, first: l.First, end: l.First + l.Events}
	if l.Published > 0 {
		if l.Events > 0 && l.First != l.Published {
			return s, fmt.Errorf("%w: First %d is not the number after the %d published events", ErrLoad, l.First, l.Published)
		}
		s = span{low: l.Published, first: l.Published, end: l.Published + l.Events}
		for i := range classes {
			s.low = min(s.low, classes[i].First)
		}
	}
	return s, nil
}

// owe sets what every class is owed and returns the missing deliveries of each
// event, s.low first (L2). readers has the number of consumers of each class
// that will read.
func owe(l *Load, s span, classes []class, readers []int) ([]int32, error) {
	missing := make([]int32, s.end-s.low+1)
	for i := range classes {
		c := &classes[i]
		first := min(max(c.First, s.low), s.end)
		c.owed = owed{first: first, end: s.end, selected: l.Owners != nil || c.Select != nil}
		switch {
		case c.Stalled:
			c.owed = owed{selected: true}
		case l.Owners != nil:
		case c.Select != nil:
			for n := first; n < s.end; n++ {
				if c.Select(n) {
					c.owed.list = append(c.owed.list, int32(n))
					missing[n-s.low] += int32(readers[i])
				}
			}
		}
	}
	if l.Owners != nil {
		if err := oweByOwner(l, s, classes, readers, missing); err != nil {
			return nil, err
		}
	}
	// Classes that get all are added as differences, so that many of them cost
	// little.
	steps := make([]int32, len(missing))
	for i := range classes {
		if o := &classes[i].owed; !o.selected {
			steps[o.first-s.low] += int32(readers[i])
		}
	}
	var all int32
	for i := range missing {
		all += steps[i]
		missing[i] += all
	}
	return missing[:s.end-s.low], nil
}

// oweByOwner asks Owners once per event.
func oweByOwner(l *Load, s span, classes []class, readers []int, missing []int32) error {
	for n := s.low; n < s.end; n++ {
		for _, i := range l.Owners(n) {
			if i < 0 || i >= len(classes) {
				return fmt.Errorf("%w: owner %d of event %d: there are %d classes", ErrLoad, i, n, len(classes))
			}
			c := &classes[i]
			if c.Stalled || n < c.First {
				continue
			}
			if k := len(c.owed.list); k > 0 && int(c.owed.list[k-1]) == n {
				return fmt.Errorf("%w: event %d has class %d as owner twice", ErrLoad, n, i)
			}
			c.owed.list = append(c.owed.list, int32(n))
			missing[n-s.low] += int32(readers[i])
		}
	}
	return nil
}

// gaps are the parts of a consumer's list that were skipped, as [from, to)
// pairs of indexes, ascending.
type gaps [][2]int32

// take removes an index from the gaps and reports whether it was in one.
func (g *gaps) take(k int32) bool {
	i := sort.Search(len(*g), func(i int) bool { return (*g)[i][1] > k })
	if i == len(*g) || (*g)[i][0] > k {
		return false
	}
	old := (*g)[i]
	left, right := [2]int32{old[0], k}, [2]int32{k + 1, old[1]}
	switch {
	case left[0] == left[1] && right[0] == right[1]:
		*g = slices.Delete(*g, i, i+1)
	case left[0] == left[1]:
		(*g)[i] = right
	case right[0] == right[1]:
		(*g)[i] = left
	default:
		(*g)[i] = left
		*g = slices.Insert(*g, i+1, right)
	}
	return true
}
