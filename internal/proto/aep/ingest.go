package aep

import (
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/engine/loop"
)

// ingest is the step between admitting an event and appending it: what is
// ordinary goes to its session's buffer and, in the same step, to the log; the
// rest to the log alone (R141 to R144). It takes the event in only if the log has
// room for it. Any goroutine. The caller rings afterwards.
func (s *Surface) ingest(ev *aep.Event) bool {
	e := newEntry(ev)
	if !s.reserve(int64(e.SizeBytes)) {
		return false
	}
	defer s.reserved.Add(-int64(e.SizeBytes))
	if ev.Class() == aep.ClassOrdinary {
		s.cfg.Buffers.Put(e, dedupeKey(ev))
	} else {
		s.cfg.Events.Append(e)
	}
	return true
}

// reserve tells whether the log can take an event of so many bytes before its
// window overtakes a loop that follows it: ingest waits for loops, never the
// reverse. Half of the window is kept for members that catch up. What is being
// ingested elsewhere counts, so that many publishers together do not overtake a
// loop. An event of any size is taken when all loops have read everything.
func (s *Surface) reserve(size int64) bool {
	ahead := s.reserved.Add(size)
	entries, bytes := s.cfg.Events.Capacity()
	next, total := s.cfg.Events.Next(), s.cfg.Events.TotalBytes()
	for _, w := range s.workers {
		at, passed, ok := w.Set().Reached()
		if !ok {
			continue
		}
		behind := total - passed
		if int64(next-at) >= int64(entries/2) || behind+ahead > bytes/2 && behind+ahead > size {
			s.reserved.Add(-size)
			return false
		}
	}
	return true
}

// hasRoom tells whether the log would take a small event now. Any goroutine.
func (s *Surface) hasRoom() bool {
	if !s.reserve(entryBytes) {
		return false
	}
	s.reserved.Add(-entryBytes)
	return true
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
	done   func(ok bool)
}

// start ingests what fits into one slice and the rest later. done is called on
// the loop after the last event, possibly at once; with false if the relay
// failed at it.
func (b *batch) start() {
	defer func() {
		if r := recover(); r != nil {
			b.w.Loop().CountPanic(r)
			b.done(false)
		}
	}()
	if b.slice() {
		b.done(true)
	}
}

// slice ingests events until the budget is used up or the log has no room, and
// tells whether all are in.
func (b *batch) slice() bool {
	defer b.s.ring()
	deadline := b.w.Loop().Now().Add(loop.PassBudget)
	for i := 1; b.next < len(b.events); i++ {
		if !b.s.ingest(b.events[b.next]) {
			b.s.whenRoom(b.w, b.start)
			return false
		}
		b.events[b.next] = nil
		b.next++
		if i&15 == 0 && b.next < len(b.events) && !b.w.Loop().Now().Before(deadline) {
			b.w.Loop().Later(b.start)
			return false
		}
	}
	b.s.ingested.Add(int64(len(b.events)))
	return true
}

// roomRetry is how often a loop looks for room by itself.
const roomRetry = 50 * time.Millisecond

// whenRoom calls f on w's loop once the log has room. Loop only.
func (s *Surface) whenRoom(w *worker, f func()) {
	if len(w.room) == 0 {
		s.waiting.Add(1)
	}
	w.room = append(w.room, f)
	if !w.retry.Scheduled() {
		w.Loop().Schedule(&w.retry, w.Loop().Now().Add(roomRetry))
	}
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

// takeRoom lets those go on that wait for room, and looks again later while
// there are some. Loop only.
func (s *Surface) takeRoom(w *worker) {
	if len(w.room) == 0 {
		return
	}
	if s.hasRoom() {
		list := w.room
		w.room = nil
		s.waiting.Add(-1)
		for _, f := range list {
			w.Loop().Contain(f)
		}
	}
	if len(w.room) > 0 && !w.retry.Scheduled() {
		w.Loop().Schedule(&w.retry, w.Loop().Now().Add(roomRetry))
	}
}
