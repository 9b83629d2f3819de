package session

import "github.com/sluice-relay/sluice/engine/stream"

// buffer is one session: its entries in order, their keys, and the floor. All
// of it is guarded by the lock of the session's shard.
type buffer struct {
	name string

	// floor is the lowest position from which the buffer can vouch for
	// completeness (R166). It never goes down.
	floor stream.Sequence

	// written is the position of the last entry put, its recency (B6);
	// created that of the first one.
	written, created stream.Pos

	// prior is the highest position of the session's former buffer, if that
	// was dropped and still in the record when this one was made: what a
	// reader with an older view needs instead of the record.
	prior    stream.Sequence
	hasPrior bool

	order ordered
	keys  keySet
	bytes int64 // what the entries count against the byte bound

	links [lists]links
}

// size is what a buffer counts in the totals.
type size struct {
	events int
	bytes  int64
}

// newBuffer returns the buffer of a session that is created by an event at
// seq (R166).
func newBuffer(name string, seq stream.Sequence) *buffer {
	return &buffer{name: name, floor: stream.Sequence{Epoch: seq.Epoch, Seq: seq.Seq - 1}}
}

func (s *buffer) size() size { return size{s.order.count, s.bytes} }

// put inserts e, which has its position, unless key is held (R161) or e is the
// lowest where one must go (R163). It tells whether e is held.
func (s *buffer) put(e *stream.Entry, key Key, limit int) bool {
	if s.order.count >= limit {
		if limit == 0 || e.Less(s.order.first().entry.Sequence) {
			if !s.keys.has(key) {
				s.raiseFloor(e.Sequence)
			}
			return false
		}
	}
	if !s.keys.add(key) {
		return false
	}
	if s.order.count >= limit {
		s.trimFirst()
	}
	s.order.insert(slot{e, key})
	s.bytes += entryBytes(e)
	return true
}

// trimFirst takes the lowest entry out and moves the floor (R166). The entry
// is forgotten: its key may be admitted again (R161).
func (s *buffer) trimFirst() {
	sl := s.order.removeFirst()
	s.keys.remove(sl.key)
	s.bytes -= entryBytes(sl.entry)
	s.raiseFloor(sl.entry.Sequence)
}

func (s *buffer) raiseFloor(seq stream.Sequence) {
	if s.floor.Less(seq) {
		s.floor = seq
	}
}

// highest returns the highest position that the buffer ever saw (R170).
// Entries leave lowest first, so it is held or it is the floor.
func (s *buffer) highest() stream.Sequence {
	if l := s.order.last(); l != nil && s.floor.Less(l.entry.Sequence) {
		return l.entry.Sequence
	}
	return s.floor
}

// exhausted tells whether something after position r is gone, as of position
// before of the log, and which position to announce as the earliest one (R166,
// R167).
func (s *buffer) exhausted(r stream.Sequence, before stream.Pos) (bool, stream.Sequence) {
	if r.Seq < 0 || !r.Less(s.floor) {
		return false, stream.Sequence{}
	}
	_, first := s.order.owed(place{}, before)
	switch {
	case first == nil:
		return true, s.floor.Next()
	case r.Next().Less(first.Sequence):
		return true, first.Sequence
	}
	return false, stream.Sequence{}
}

// entryBytes is what an entry counts against the byte bound (R175).
func entryBytes(e *stream.Entry) int64 { return int64(e.SizeBytes) + SlotBytes }
