package aepws

import (
	"errors"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// start is where a subscription with a cursor begins (B51).
type start struct {
	from   int64 // number of the first event that it may get
	replay aepws.Replay
	page   []*entry // that begins at from, when it was read
}

// startOf returns where a cursor leads, from what is in memory. known is false
// when the log has to be asked: by readStart, in a job.
func (h *hub) startOf(id string, n int64) (s start, known bool) {
	evicted := h.evicted()
	newest := h.tail.next() - 1
	switch {
	case n == 0 && evicted == 0:
		return start{from: 1}, true
	case n > newest:
		return h.gapStart(evicted, aepws.ReasonCursorInFuture)
	case n < evicted:
		return h.gapStart(evicted, "")
	case n == evicted: // its id cannot be checked any more
		return start{from: n + 1}, true
	}
	switch e := h.tail.at(n); {
	case e == nil:
		return start{}, false
	case e.id != id:
		return h.gapStart(evicted, aepws.ReasonCursorUnknown)
	}
	return start{from: n + 1}, true
}

// gapStart begins at the oldest event kept, if it is in memory or there is none.
func (h *hub) gapStart(evicted int64, reason string) (s start, known bool) {
	s = start{from: evicted + 1, replay: aepws.Replay{Gap: true, Reason: reason}}
	if s.from == h.tail.next() {
		return s, true
	}
	e := h.tail.at(s.from)
	if e == nil {
		return s, false
	}
	s.replay.OldestCursor = cursorOf(e.id, e.number)
	return s, true
}

// readStart is startOf with the log's help. It blocks. What it finds comes with
// its first page, since retention may take it before it is read again.
func (h *hub) readStart(id string, n int64) (start, error) {
	for range oldestTries {
		s, known := h.startOf(id, n)
		if known {
			return s, nil
		}
		if !s.replay.Gap { // the id has to be checked
			list, err := h.page(n-1, pageEvents)
			switch {
			case errors.Is(err, eventlog.ErrEvicted):
				continue
			case err != nil:
				return s, err
			case list[0].number == n && list[0].id == id:
				return start{from: n + 1, page: list[1:]}, nil
			}
			if s, known = h.gapStart(h.evicted(), aepws.ReasonCursorUnknown); known {
				return s, nil
			}
		}
		list, err := h.page(s.from-1, pageEvents)
		switch {
		case errors.Is(err, eventlog.ErrEvicted):
			continue
		case err != nil:
			return s, err
		}
		s.from, s.page = list[0].number, list
		s.replay.OldestCursor = cursorOf(list[0].id, list[0].number)
		return s, nil
	}
	return start{}, eventlog.ErrEvicted
}

// cursorOf returns the cursor of an event.
func cursorOf(id string, number int64) string {
	return string(aepws.AppendCursor(nil, id, number))
}
