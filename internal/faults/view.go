package faults

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrView tells that a consumer got something else than it was due.
var ErrView = errors.New("faults: wrong view")

// View is what one consumer has seen of each session, over any number of
// connections. Each session counts up by one (F2).
type View struct {
	// Droppable tells which events may be missing: those of severity debug and
	// info, for a consumer that is slow (R420). They have to be counted as shed
	// (R424a). Nil stands for none.
	Droppable func(seq uint64) bool
	// Sessions, when not nil, are the only sessions that may come.
	Sessions []string

	Events  int    // seen
	Bytes   int64  // of these
	Missing uint64 // droppable ones that were left out
	Shed    uint64 // as told
	Resets  int    // how often the relay announced that a replay is exhausted

	seen map[string]*seen
}

// seen is how far one session was seen.
type seen struct {
	name string
	next uint64
	// jump, when it is not 0, is where delivery goes on, as announced.
	jump uint64
	// reborn tells that the relay has forgotten the session since: the first
	// event that its new run has is reborn-1.
	reborn uint64
}

// Take judges the next item.
func (v *View) Take(it Item) error {
	if it.Event != nil {
		return v.event(it)
	}
	switch it.Note.Kind {
	case "replay-exhausted":
		s, known := v.seen[it.Note.Session]
		if !known { // trimming has overtaken a replay before its first event
			v.Expect(it.Note.Session, it.Note.Earliest)
			v.Resets++
			return nil
		}
		if it.Note.Earliest <= s.next {
			return fmt.Errorf("%w: R166: %s announced to be exhausted up to %d, stood at %v", ErrView, it.Note.Session, it.Note.Earliest, s)
		}
		s.jump = it.Note.Earliest
		v.Resets++
	case "shed":
		if v.Droppable == nil {
			return fmt.Errorf("%w: R420: %d events shed, none may be", ErrView, it.Note.Count)
		}
		v.Shed += it.Note.Count
	case "closing":
		return v.closing(it.Note)
	case "error", "invalid-event":
		return fmt.Errorf("%w: %+v", ErrView, it.Note)
	}
	return nil
}

// event judges one event: unaltered, the next one of its session, and on a
// stream with its own position as id.
func (v *View) event(it Item) error {
	e, err := Unseal(it.Event)
	if err != nil {
		return err
	}
	s, known := v.seen[string(e.Session)]
	if !known {
		s = &seen{name: string(e.Session), next: e.Seq}
		if v.Sessions != nil && !slices.Contains(v.Sessions, s.name) {
			return fmt.Errorf("%w: event of session %s", ErrView, s.name)
		}
		if v.seen == nil {
			v.seen = map[string]*seen{}
		}
		v.seen[s.name] = s
	}
	if err := v.step(s, e); err != nil {
		return err
	}
	s.next, s.jump, s.reborn = e.Seq+1, 0, 0
	v.Events++
	v.Bytes += int64(len(it.Event))
	if it.ID != "" {
		id := strings.TrimPrefix(it.ID, s.name+":0:")
		if n, err := strconv.ParseUint(id, 10, 64); err != nil || n != e.Seq {
			return fmt.Errorf("%w: R272: id %q of %s %d", ErrView, it.ID, s.name, e.Seq)
		}
	}
	return nil
}

// step tells whether e may come now.
func (v *View) step(s *seen, e Event) error {
	switch {
	case e.Seq == s.next && s.jump == 0:
		return nil
	case s.jump != 0 && e.Seq == s.jump:
		return nil
	case s.reborn != 0 && e.Seq >= s.reborn-1 && e.Seq <= max(s.next, s.reborn-1):
		// What the new run has starts with its first one. It may have been sent
		// again because the old run did not acknowledge it.
		return nil
	case v.Droppable != nil && e.Seq > s.next && s.jump == 0:
		for seq := s.next; seq < e.Seq; seq++ {
			if !v.Droppable(seq) {
				return fmt.Errorf("%w: R420: %s %d is missing and was notice or above", ErrView, s.name, seq)
			}
			v.Missing++
		}
		return nil
	}
	return fmt.Errorf("%w: got seq %d of %s, which %v", ErrView, e.Seq, s.name, s)
}

// String tells where a session stands.
func (s *seen) String() string {
	if s == nil {
		return "was never seen"
	}
	text := fmt.Sprintf("stands at %d", s.next)
	if s.jump != 0 {
		text += fmt.Sprintf(", announced to go on at %d", s.jump)
	}
	if s.reborn != 0 {
		text += fmt.Sprintf(", forgotten, goes on at %d", s.reborn-1)
	}
	return text
}

// closing compares the positions that the relay says to have delivered with
// what has come (R430).
func (v *View) closing(n Note) error {
	for _, d := range n.Delivered {
		s, known := v.seen[d.Session]
		if !known || d.Seq+1 != s.next {
			return fmt.Errorf("%w: R430: told that %s was delivered up to %d, which %v", ErrView, d.Session, d.Seq, s)
		}
	}
	return nil
}

// Next returns the sequence that is due next in a session, 0 for one never
// seen.
func (v *View) Next(session string) uint64 {
	if s, known := v.seen[session]; known {
		return s.next
	}
	return 0
}

// Expect says that a session starts with seq, so that an event after it is a
// hole.
func (v *View) Expect(session string, seq uint64) {
	if v.seen == nil {
		v.seen = map[string]*seen{}
	}
	v.seen[session] = &seen{name: session, next: seq}
}

// Lose says that a session was never seen and may start anywhere: it is asked
// for from its earliest event, and that is not announced (R168).
func (v *View) Lose(session string) {
	if s, known := v.seen[session]; known && s.next == 0 {
		delete(v.seen, session)
	}
}

// Forget says that the relay was started anew, has forgotten what it had, and
// that the first event of the session which it gets is first. Positions stay
// what they are: a consumer that stands behind first goes on there, and one that
// stands beyond it, because the old run had not acknowledged what it saw, may
// see that again.
func (v *View) Forget(session string, first uint64) {
	if s, known := v.seen[session]; known {
		s.reborn, s.jump = first+1, 0
	}
}

// From returns the resume positions of the sessions as JSON (R165): from the
// earliest event for one that was never seen.
func (v *View) From(sessions ...string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, name := range sessions {
		if i > 0 {
			b.WriteByte(',')
		}
		last := int64(-1)
		if s, known := v.seen[name]; known {
			last = int64(s.next) - 1
		}
		fmt.Fprintf(&b, `{"session":%q,"seq":%d}`, name, last)
	}
	b.WriteByte(']')
	return b.String()
}

// FilterOf returns a filter for the sessions.
func FilterOf(sessions ...string) string {
	return `{"session":["` + strings.Join(sessions, `","`) + `"]}`
}
