package follow

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/aep"
)

const (
	// maxSessions bounds the sessions with a position.
	maxSessions = 10_000
	// maxAbove is how many events of a session may lie above its position while
	// something below them is missing. Emitters that share a session, or one
	// that sends on several connections, overtake each other by less.
	maxAbove = 64
	// maxAboveHidden is the same where a filter hides what is missing: so many
	// events are read again, and dropped, after a reconnect.
	maxAboveHidden = 16
)

// point is a place in a session (R162). A seq of -1 is before its epoch.
type point struct{ epoch, seq int64 }

func (p point) compare(q point) int {
	return cmp.Or(cmp.Compare(p.epoch, q.epoch), cmp.Compare(p.seq, q.seq))
}

// follows reports whether nothing fits between q and p. That an epoch is over
// when the next has begun is as good as known.
func (p point) follows(q point) bool {
	return p.epoch == q.epoch && p.seq > 0 && p.seq-1 == q.seq ||
		p.epoch >= q.epoch && p.seq == 0 && q.compare(p) < 0
}

// seen is an event above a session's position.
type seen struct {
	at point
	id identity
}

// track is what is known of one session: everything up to done was seen, or is
// not owed; of what is above, the events in above were seen, ascending.
type track struct {
	name  string
	done  point
	above []seen

	stamp   uint64 // of the last event; newer is higher
	born    int    // the connection that made it
	waiting int    // the request that catches up with it, 0 for none

	// asked: a request has asked for what is above done, and nothing has come.
	asked bool
	// read is the last event of an earlier relay, until this one has told where
	// the session begins; nil otherwise.
	read *point
}

// tracks are the sessions with a position.
type tracks struct {
	bySession map[string]*track
	window    int // of events above a position
	stamp     uint64
	// absorbed is told of each event that a position has reached from below:
	// the replay that brought what was missing brings it again.
	absorbed func(identity)
}

func newTracks(window int, absorbed func(identity)) *tracks {
	return &tracks{bySession: map[string]*track{}, window: window, absorbed: absorbed}
}

// start gives a session its position. Any that it had is replaced. A name that
// no request could repeat gets none.
func (ts *tracks) start(name string, done point, born int) (t *track, forgotten bool) {
	if !utf8.ValidString(name) {
		return nil, false
	}
	if _, ok := ts.bySession[name]; !ok && len(ts.bySession) >= maxSessions {
		ts.forget()
		forgotten = true
	}
	ts.stamp++
	t = &track{name: name, done: done, stamp: ts.stamp, born: born}
	ts.bySession[name] = t
	return t, forgotten
}

// forget drops the sixteenth part that is longest without an event.
func (ts *tracks) forget() {
	for _, t := range ts.newest()[maxSessions-maxSessions/16:] {
		delete(ts.bySession, t.name)
	}
}

// newest returns the sessions, the last active first.
func (ts *tracks) newest() []*track {
	all := make([]*track, 0, len(ts.bySession))
	for _, t := range ts.bySession {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *track) int { return cmp.Compare(b.stamp, a.stamp) })
	return all
}

// advance takes note of an event that was handed on.
func (ts *tracks) advance(t *track, at point, id identity) {
	ts.stamp++
	t.stamp = ts.stamp
	switch {
	case at.compare(t.done) <= 0:
		return
	case len(t.above) == 0 && at.follows(t.done):
		t.done = at
		return
	}
	i, _ := slices.BinarySearchFunc(t.above, at, func(s seen, at point) int { return s.at.compare(at) })
	t.above = slices.Insert(t.above, i, seen{at, id})
	ts.absorb(t)
	if len(t.above) > ts.window {
		t.done = t.above[0].at
		ts.absorb(t)
	}
}

// rewind sets all positions to the beginning: the relay is another. What comes
// again is known by its identity. It reports whether there are any.
func (ts *tracks) rewind() bool {
	for _, t := range ts.bySession {
		last := t.done
		for _, s := range t.above {
			ts.absorbed(s.id)
			last = s.at
		}
		if t.read == nil {
			t.read = &last
		}
		t.done, t.above = point{0, -1}, nil
	}
	return len(ts.bySession) > 0
}

// skip moves the position past what is gone, to just before earliest.
func (ts *tracks) skip(t *track, earliest point) {
	if earliest.seq--; t.done.compare(earliest) < 0 {
		t.done = earliest
		ts.absorb(t)
	}
}

// absorb advances done over the events above it that follow it.
func (ts *tracks) absorb(t *track) {
	n := 0
	for n < len(t.above) && (t.above[n].at.compare(t.done) <= 0 || t.above[n].at.follows(t.done)) {
		if t.done.compare(t.above[n].at) < 0 {
			t.done = t.above[n].at
		}
		ts.absorbed(t.above[n].id)
		n++
	}
	t.above = slices.Delete(t.above, 0, n)
}

// has reports whether an event above the position is id.
func (t *track) has(id identity) bool {
	return slices.ContainsFunc(t.above, func(s seen) bool { return s.id == id })
}

// position returns where to resume (R165).
func (t *track) position() aep.Position {
	return aep.Position{Session: t.name, Epoch: t.done.epoch, Seq: t.done.seq}
}
