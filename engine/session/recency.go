package session

// The lists of a shard, each ordered by recency.
const (
	everySession   = iota // all sessions: who is dropped next (R164)
	holdingSession        // those that hold entries: who is trimmed next (R175)

	lists
)

// recency is a list of a shard's sessions, the least recently written first.
// The links are in the buffers, so that a refresh allocates nothing.
type recency struct {
	list        int // which of a buffer's links this is
	first, last *buffer
}

// links places a buffer in one recency list.
type links struct {
	prev, next *buffer
	listed     bool
}

// pushBack adds s, which is not listed, as the most recently written.
func (r *recency) pushBack(s *buffer) {
	s.links[r.list] = links{prev: r.last, listed: true}
	if r.last == nil {
		r.first = s
	} else {
		r.last.links[r.list].next = s
	}
	r.last = s
}

// remove takes s out. It does nothing when s is not listed.
func (r *recency) remove(s *buffer) {
	l := &s.links[r.list]
	if !l.listed {
		return
	}
	if l.prev == nil {
		r.first = l.next
	} else {
		l.prev.links[r.list].next = l.next
	}
	if l.next == nil {
		r.last = l.prev
	} else {
		l.next.links[r.list].prev = l.prev
	}
	*l = links{}
}

// moveToBack makes s, which is listed, the most recently written.
func (r *recency) moveToBack(s *buffer) {
	if r.last == s {
		return
	}
	r.remove(s)
	r.pushBack(s)
}
