package session

import (
	"container/list"
	"sync"

	"github.com/sluice-relay/sluice/engine/stream"
)

// record remembers the sessions that were dropped whole (R170): their names
// and highest positions, a bounded number of them, oldest forgotten first.
type record struct {
	limit int // immutable after construction

	mu sync.Mutex

	// Guarded by mu.
	byName map[string]*list.Element
	order  list.List // of droppedSession, oldest first
}

type droppedSession struct {
	name    string
	highest stream.Sequence
}

func (r *record) init(limit int) {
	r.limit = limit
	r.byName = make(map[string]*list.Element)
}

// add remembers a session that is dropped now. The name is not in the record:
// making the session took it out.
func (r *record) add(name string, highest stream.Sequence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.order.Len() >= r.limit {
		r.removeLocked(r.order.Front())
	}
	r.byName[name] = r.order.PushBack(droppedSession{name, highest})
}

// forget ends the record of a name, if there is one.
func (r *record) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byName[name]; e != nil {
		r.removeLocked(e)
	}
}

// look returns the record of a name, if there is one.
func (r *record) look(name string) (highest stream.Sequence, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byName[name]
	if e == nil {
		return stream.Sequence{}, false
	}
	return e.Value.(droppedSession).highest, true
}

// removeLocked needs r.mu.
func (r *record) removeLocked(e *list.Element) {
	delete(r.byName, r.order.Remove(e).(droppedSession).name)
}
