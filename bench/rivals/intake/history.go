package intake

import (
	"strings"
	"sync"
)

const (
	// maxHistory is how many events of a session are remembered.
	maxHistory = 10_000
	// maxSessions is how many sessions are remembered; then the one that was
	// written least recently goes.
	maxSessions = 1_000
)

// key is what makes two events of a session the same.
type key struct {
	epoch, seq int64
	id         string
}

// event is one that is kept for replay. Immutable.
type event struct {
	key  key // its id shares the memory of text
	text string
}

// history keeps the last maxHistory events of one session: a relay that could
// not replay them would be no rival.
type history struct {
	name string

	// guarded by mu
	mu   sync.Mutex
	seen map[key]struct{}
	ring []event // grows to maxHistory, then next is the oldest
	next int

	// guarded by histories.mu
	used uint64
}

// admit keeps an event and tells if it is new. k.id and text, which holds it,
// are borrowed.
func (h *history) admit(k key, text []byte) bool {
	if _, ok := h.seen[k]; ok {
		return false
	}
	e := event{key: k, text: string(text)}
	if i := strings.Index(e.text, k.id); i >= 0 {
		e.key.id = e.text[i : i+len(k.id)]
	} else { // written with escapes
		e.key.id = strings.Clone(k.id)
	}
	h.seen[e.key] = struct{}{}
	if len(h.ring) < maxHistory {
		h.ring = append(h.ring, e)
		return true
	}
	delete(h.seen, h.ring[h.next].key)
	h.ring[h.next] = e
	h.next = (h.next + 1) % maxHistory
	return true
}

// histories are the sessions' histories. Any goroutine.
type histories struct {
	// guarded by mu
	mu     sync.Mutex
	byName map[string]*history
	clock  uint64
}

func newHistories() *histories {
	return &histories{byName: make(map[string]*history)}
}

// of returns the history of a session and counts it as used now. The name is
// borrowed.
func (s *histories) of(name string) *history {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.byName[name]
	if h == nil {
		if len(s.byName) >= maxSessions {
			s.dropLocked()
		}
		h = &history{name: strings.Clone(name), seen: make(map[key]struct{})}
		s.byName[h.name] = h
	}
	s.clock++
	h.used = s.clock
	return h
}

// dropLocked drops the session that was written least recently.
func (s *histories) dropLocked() {
	var oldest *history
	for _, h := range s.byName {
		if oldest == nil || h.used < oldest.used {
			oldest = h
		}
	}
	delete(s.byName, oldest.name)
}
