package session

import (
	"slices"

	"github.com/sluice-relay/sluice/engine/stream"
)

// model does what Buffers does in the plainest way: one sorted slice a session,
// no shards, every search from the start. It is told of an entry after the log
// has given it its position.
type model struct {
	cfg      Config
	slack    int64
	sessions map[string]*modelSession
	dropped  []droppedSession // oldest first
}

type modelSession struct {
	held             []slot // ascending
	floor, prior     stream.Sequence
	hasPrior         bool
	written, created stream.Pos
}

func newModel(b *Buffers) *model {
	return &model{cfg: b.cfg, slack: b.slackBytes, sessions: make(map[string]*modelSession)}
}

func (m *model) put(e *stream.Entry, key Key) (buffered bool) {
	s := m.sessions[e.Session]
	if s == nil {
		s = &modelSession{
			floor:   stream.Sequence{Epoch: e.Epoch, Seq: e.Seq - 1},
			created: e.Pos(),
		}
		s.prior, s.hasPrior = m.look(e.Session)
		for len(m.sessions) >= m.cfg.Sessions {
			m.drop()
		}
		m.dropped = slices.DeleteFunc(m.dropped, func(d droppedSession) bool { return d.name == e.Session })
		m.sessions[e.Session] = s
	}
	s.written = e.Pos()
	if !slices.ContainsFunc(s.held, func(sl slot) bool { return sl.key == key }) {
		i := 0
		for i < len(s.held) && !e.Less(s.held[i].entry.Sequence) {
			i++
		}
		s.held = slices.Insert(s.held, i, slot{e, key})
		for len(s.held) > m.cfg.EventsPerSession {
			s.trim()
		}
		buffered = slices.Contains(s.held, slot{e, key})
	}
	if total := m.bytes(); m.cfg.Bytes > 0 && total > m.cfg.Bytes {
		for total > m.cfg.Bytes-m.slack {
			_, s := m.oldest(func(s *modelSession) bool { return len(s.held) > 0 })
			total -= int64(s.held[0].entry.SizeBytes) + SlotBytes
			s.trim()
		}
	}
	return buffered
}

func (s *modelSession) trim() {
	if seq := s.held[0].entry.Sequence; s.floor.Less(seq) {
		s.floor = seq
	}
	s.held = slices.Delete(s.held, 0, 1)
}

func (m *model) drop() {
	name, s := m.oldest(func(*modelSession) bool { return true })
	highest := s.floor
	for _, sl := range s.held {
		if highest.Less(sl.entry.Sequence) {
			highest = sl.entry.Sequence
		}
	}
	delete(m.sessions, name)
	m.dropped = append(m.dropped, droppedSession{name, highest})
	m.dropped = m.dropped[max(0, len(m.dropped)-m.cfg.Sessions):]
}

// oldest returns the least recently written of the sessions that count.
func (m *model) oldest(counts func(*modelSession) bool) (name string, oldest *modelSession) {
	for n, s := range m.sessions {
		if counts(s) && (oldest == nil || s.written < oldest.written) {
			name, oldest = n, s
		}
	}
	return name, oldest
}

func (m *model) look(name string) (stream.Sequence, bool) {
	for _, d := range m.dropped {
		if d.name == name {
			return d.highest, true
		}
	}
	return stream.Sequence{}, false
}

func (m *model) events() (n int) {
	for _, s := range m.sessions {
		n += len(s.held)
	}
	return n
}

func (m *model) bytes() (n int64) {
	for _, s := range m.sessions {
		for _, sl := range s.held {
			n += int64(sl.entry.SizeBytes) + SlotBytes
		}
	}
	return n
}

// kept returns those of the entries that are held.
func (m *model) kept(entries []*stream.Entry) (kept []*stream.Entry) {
	held := make(map[*stream.Entry]bool)
	for _, s := range m.sessions {
		for _, sl := range s.held {
			held[sl.entry] = true
		}
	}
	for _, e := range entries {
		if held[e] {
			kept = append(kept, e)
		}
	}
	return kept
}

// start returns what a replay owes and announces: R165 to R170 word by word.
func (m *model) start(session string, after stream.Sequence, before stream.Pos) (
	owed []*stream.Entry, exhausted bool, earliest stream.Sequence,
) {
	s := m.sessions[session]
	highest, gone := m.look(session)
	if s != nil && s.created >= before {
		highest, gone, s = s.prior, s.hasPrior, nil
	}
	if s == nil {
		exhausted = gone && after.Seq >= 0 && after.Compare(highest) < 0
		return nil, exhausted, stream.Sequence{Epoch: highest.Epoch, Seq: highest.Seq + 1}
	}
	earliest = stream.Sequence{Epoch: s.floor.Epoch, Seq: s.floor.Seq + 1}
	exhausted = after.Seq >= 0 && after.Compare(s.floor) < 0
	first := true
	for _, sl := range s.held {
		if sl.entry.Pos() >= before {
			continue
		}
		if first {
			first, earliest = false, sl.entry.Sequence
			exhausted = exhausted && earliest.Compare(stream.Sequence{Epoch: after.Epoch, Seq: after.Seq + 1}) > 0
		}
		if sl.entry.Compare(after) > 0 {
			owed = append(owed, sl.entry)
		}
	}
	return owed, exhausted, earliest
}

// modelReplay is what a replay still owes.
type modelReplay struct {
	owed []*stream.Entry
	last stream.Sequence
}

// next returns the next entries, any loss since the last call, and where the
// replay goes on.
func (r *modelReplay) next(m *model, maxEntries, maxBytes int) (
	entries []*stream.Entry, gap bool, goesOn stream.Sequence,
) {
	kept := m.kept(r.owed)
	if gap = len(kept) < len(r.owed); gap {
		goesOn = stream.Sequence{Epoch: r.last.Epoch, Seq: r.last.Seq + 1}
		if len(kept) > 0 {
			goesOn = kept[0].Sequence
		}
	}
	size := 0
	for len(kept) > 0 {
		size += len(kept[0].Base())
		if len(entries) > 0 && (len(entries) >= maxEntries || size > maxBytes) {
			break
		}
		entries, kept = append(entries, kept[0]), kept[1:]
	}
	r.owed = kept
	return entries, gap, goesOn
}
