package fanout

import "time"

// skimShare is the part of the log's window after whose passing members that
// catch up are looked at: an eighth, so that they are seen several times before
// the window has moved past them.
const skimShare = 8

// skimPlan begins a round of skimming when the log has moved far enough.
func (s *Set) skimPlan() {
	entries, bytes := s.log.Capacity()
	passed := s.passed.Load()
	if int(s.cursor-s.skimmedAt) < entries/skimShare && passed-s.skimmedBytes < bytes/skimShare {
		return
	}
	s.skimmedAt, s.skimmedBytes = s.cursor, passed
	clear(s.skims)
	s.skims = s.skims[:0]
	for m := range s.catching {
		s.skims = append(s.skims, m)
	}
}

// skim moves members that catch up, and are blocked by their reader or their
// replay, past entries that none of their subscriptions selects. So traffic that
// is not for them does not make the log overtake them; only what they are owed
// can (R423). It returns false when the deadline came first.
func (s *Set) skim(deadline time.Time) bool {
	for len(s.skims) > 0 {
		last := len(s.skims) - 1
		if m := s.skims[last]; m.state == stateCatchUp && !s.skimContained(m, deadline) {
			return false
		}
		s.skims[last] = nil
		s.skims = s.skims[:last]
		if !s.lp.Now().Before(deadline) {
			return len(s.skims) == 0
		}
	}
	return true
}

func (s *Set) skimContained(m *Member, deadline time.Time) (done bool) {
	defer func() {
		if r := recover(); r != nil {
			s.lp.CountPanic(r)
			s.cut(m, CutPanic)
			done = true
		}
	}()
	return m.skim(deadline)
}

// skim moves the cursor to the first entry that is owed, and tells whether it
// got there before the deadline.
func (m *Member) skim(deadline time.Time) bool {
	edge := m.set.edge()
	for n := 1; m.cursor < edge; n++ {
		e, err := m.set.log.At(m.cursor)
		if err != nil {
			return true // overtaken: it is cut when it reads on
		}
		for _, s := range m.subs {
			if s.from <= m.cursor && m.cursor < s.until && s.Selector.Match(e.Event) {
				return true
			}
		}
		m.cursor++
		if n%feedEntries == 0 && !m.set.lp.Now().Before(deadline) {
			return false
		}
	}
	return true
}
