package timeline

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/sluice-relay/sluice/internal/client/render"
)

const (
	// maxEvents is how many events a timeline has: what a relay holds of one
	// session by default (AEP_BUFFER) twenty times.
	maxEvents = 200_000
	// maxTextBytes bounds what is kept of them.
	maxTextBytes = 256 << 20
	// maxGaps bounds the announcements kept.
	maxGaps = 10_000
)

// position is a place in a session (R162).
type position struct{ epoch, seq int64 }

// Builder collects the events of one session. One goroutine.
type Builder struct {
	session string
	items   []item
	seen    map[[2]string]struct{} // source and id
	gaps    map[position]struct{}
	bytes   int

	repeated, leftOut int
	maxEvents         int
	silence           time.Duration // that Fetch bears
}

// New returns a builder for a session.
func New(session string) *Builder {
	return &Builder{
		session: session, maxEvents: maxEvents, silence: silence,
		seen: map[[2]string]struct{}{}, gaps: map[position]struct{}{},
	}
}

// Add takes an event, of which nothing is retained but copies. It reports
// false when text is no JSON object or belongs to another session. Over the
// bounds an event is only counted.
func (b *Builder) Add(text []byte) bool {
	e, ok := render.Parse(text)
	return ok && b.add(e)
}

func (b *Builder) add(e render.Event) bool {
	if e.Session != b.session {
		return false
	}
	i := newItem(e)
	key := [2]string{i.source, i.id}
	if _, again := b.seen[key]; again && i.id != "" {
		b.repeated++
		return true
	}
	if len(b.items) >= b.maxEvents || b.bytes+i.sizeBytes() > maxTextBytes {
		b.leftOut++
		return true
	}
	b.seen[key] = struct{}{}
	b.bytes += i.sizeBytes()
	b.items = append(b.items, i)
	return true
}

// Gap tells that the relay has announced the loss of what was before a
// position (R166, R274).
func (b *Builder) Gap(epoch, seq int64) {
	if len(b.gaps) < maxGaps {
		b.gaps[position{epoch, seq}] = struct{}{}
	}
}

// Len returns how many events are in.
func (b *Builder) Len() int { return len(b.items) }

// Timeline returns the timeline of what is in. The builder may be used on.
func (b *Builder) Timeline() *Timeline {
	w := newWeaver(b)
	for _, i := range ordered(b.items) {
		w.weave(i)
	}
	return w.finish()
}

// ordered returns the items in the order in which they are told (T1).
func ordered(items []item) []*item {
	var placed, floating []*item
	for i := range items {
		if items[i].hasSeq {
			placed = append(placed, &items[i])
		} else {
			floating = append(floating, &items[i])
		}
	}
	slices.SortStableFunc(placed, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.seq, b.seq),
			a.time.Compare(b.time), cmp.Compare(a.source, b.source), cmp.Compare(a.id, b.id))
	})
	if len(floating) == 0 {
		return placed
	}
	slices.SortStableFunc(floating, func(a, b *item) int {
		return cmp.Or(a.time.Compare(b.time), cmp.Compare(a.source, b.source), cmp.Compare(a.id, b.id))
	})
	return merge(placed, floating)
}

// merge puts floating items, sorted by time, among those with a position.
func merge(placed, floating []*item) []*item {
	byID := make(map[string]int, len(placed))
	effect := make(map[string]int)
	reached := make([]time.Time, len(placed)) // the latest time up to here
	for at, i := range placed {
		byID[i.id] = at
		if _, there := effect[i.cause]; !there && i.cause != "" {
			effect[i.cause] = at
		}
		reached[at] = i.time
		if at > 0 && reached[at-1].After(i.time) {
			reached[at] = reached[at-1]
		}
	}
	before := make([][]*item, len(placed)+1) // what comes before placed[at]
	for _, i := range floating {
		at := sort.Search(len(reached), func(at int) bool { return reached[at].After(i.time) })
		for _, id := range []string{i.cause, i.subject} {
			if cause, known := byID[id]; known && id != "" {
				at = max(at, cause+1)
			}
		}
		if first, known := effect[i.id]; known && i.id != "" {
			at = min(at, first)
		}
		before[at] = append(before[at], i)
	}
	all := make([]*item, 0, len(placed)+len(floating))
	for at, i := range placed {
		all = append(append(all, before[at]...), i)
	}
	return append(all, before[len(placed)]...)
}
