package aep

import (
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/engine/loop"
)

// ingest is the step between admitting an event and appending it: what is
// ordinary goes to its session's buffer and, in the same step, to the log; the
// rest to the log alone (R141 to R144). Any goroutine. The caller rings
// afterwards.
func (s *Surface) ingest(ev *aep.Event) {
	e := newEntry(ev)
	if ev.Class() == aep.ClassOrdinary {
		s.cfg.Buffers.Put(e, dedupeKey(ev))
	} else {
		s.cfg.Events.Append(e)
	}
}

// ring wakes the loops that follow the log. Any goroutine, after ingest.
func (s *Surface) ring() {
	for _, w := range s.workers {
		if w.Set().Active() {
			w.Loop().Ring()
		}
	}
}

// batch is the events of one request on their way in, all admitted. It is
// worked off in slices, each within a loop's budget; once begun it is finished,
// also when its publisher has gone (R71, R79).
type batch struct {
	s      *Surface
	w      *worker
	events []*aep.Event
	next   int
	done   func()
}

// start ingests what fits into one slice and the rest later. done is called on
// the loop after the last event, possibly at once.
func (b *batch) start() {
	if b.slice() {
		b.done()
	}
}

// slice ingests events until the budget is used up or the log has no room, and
// tells whether all are in.
func (b *batch) slice() bool {
	deadline := b.w.Loop().Now().Add(loop.PassBudget)
	for i := 0; b.next < len(b.events); i++ {
		if i&15 == 0 {
			if !b.s.hasRoom() {
				b.s.ring()
				b.s.whenRoom(b.w, b.start)
				return false
			}
			if i > 0 && !b.w.Loop().Now().Before(deadline) {
				b.s.ring()
				b.w.Loop().Later(b.start)
				return false
			}
		}
		b.s.ingest(b.events[b.next])
		b.events[b.next] = nil
		b.next++
	}
	b.s.ingested.Add(int64(len(b.events)))
	b.s.ring()
	return true
}

// hasRoom tells whether the log can take more before its window overtakes a
// loop that follows it: ingest waits for loops, never the reverse. Half of the
// window is kept for members that catch up. Any goroutine.
func (s *Surface) hasRoom() bool {
	entries, bytes := s.cfg.Events.Capacity()
	next, total := s.cfg.Events.Next(), s.cfg.Events.TotalBytes()
	for _, w := range s.workers {
		at, passed, ok := w.Set().Reached()
		if ok && (int64(next-at) > int64(entries/2) || total-passed > bytes/2) {
			return false
		}
	}
	return true
}

// roomRetry is how often a loop looks for room by itself.
const roomRetry = 50 * time.Millisecond

// whenRoom calls f on w's loop once the log has room. Loop only.
func (s *Surface) whenRoom(w *worker, f func()) {
	if w.room == nil {
		s.waiting.Add(1)
		w.Loop().Schedule(&loop.Timer{Fire: func() { s.retryRoom(w) }}, w.Loop().Now().Add(roomRetry))
	}
	w.room = append(w.room, f)
}

// onProgress is called by a loop that has finished a pass.
func (s *Surface) onProgress() {
	if s.waiting.Load() == 0 || !s.hasRoom() {
		return
	}
	for _, w := range s.workers {
		// A full mailbox does no harm: the loop's own timer looks again.
		_ = w.Loop().Post(func() { s.takeRoom(w) })
	}
}

func (s *Surface) retryRoom(w *worker) {
	s.takeRoom(w)
	if w.room != nil {
		w.Loop().Schedule(&loop.Timer{Fire: func() { s.retryRoom(w) }}, w.Loop().Now().Add(roomRetry))
	}
}

// takeRoom lets those go on that wait for room. Loop only.
func (s *Surface) takeRoom(w *worker) {
	if w.room == nil || !s.hasRoom() {
		return
	}
	list := w.room
	w.room = nil
	s.waiting.Add(-1)
	for _, f := range list {
		f()
	}
}
