package fanout

import (
	"slices"

	"github.com/sluice-relay/sluice/engine/stream"
)

// Selector decides which entries a subscription gets. Implementations are
// immutable; the methods may be called by any goroutine.
type Selector interface {
	// Match tells whether the event is selected. It allocates nothing.
	Match(stream.Event) bool
	// Candidates returns the sets of index keys under which the selector may be
	// filed. An event that matches yields at least one key of each set. Sets
	// come most selective first; none means that every event must be tried.
	Candidates() [][]uint64
	// Canonical returns a text that equal selectors share.
	Canonical() string
}

// filed is one selector of a group in the index.
type filed struct {
	g     *Group
	sub   uint16
	scan  bool     // in the scan list, at at[0]
	keys  []uint64 // else filed under these; none: it matches nothing
	at    []int    // at[i]: place in the bucket of keys[i]
	stamp stream.Pos
}

// place is one entry of a bucket: the filed selector and which of its keys.
type place struct {
	f *filed
	k int
}

// index finds the groups that an event touches by the event's attributes, not
// by a scan: each selector is filed under its most selective equality. Owned by
// the loop.
type index struct {
	byKey map[uint64][]place
	maybe sieve // of the keys of byKey
	scan  []place
	keys  []uint64 // scratch

	hits   []*filed // of the last match
	trying *filed   // whose selector is being asked
}

// add files a selector under the candidate set with the fewest neighbours.
func (x *index) add(f *filed, candidates [][]uint64) {
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
		} else {
			delete(x.byKey, k)
			if x.maybe.drop(); len(x.byKey) == 0 {
				x.byKey, x.maybe = nil, sieve{}
			}
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

// match adds each filed selector that selects e to x.hits, once. While one is
// asked it stands in x.trying. When it panics, match can be called again for the
// same entry: it goes on with those that were not asked.
func (x *index) match(e *stream.Entry) {
	for _, p := range x.scan {
		x.try(e, p.f)
	}
	if len(x.byKey) > 0 {
		x.keys = e.Event.AppendKeys(x.keys[:0])
		for _, k := range x.keys {
			if !x.maybe.has(k) {
				continue
			}
			for _, p := range x.byKey[k] {
				x.try(e, p.f)
			}
		}
	}
}

func (x *index) try(e *stream.Entry, f *filed) {
	if f.stamp == e.Pos() {
		return
	}
	f.stamp = e.Pos()
	x.trying = f
	if f.g.subs[f.sub].Selector.Match(e.Event) {
		x.hits = append(x.hits, f)
	}
	x.trying = nil
}
