package hub

import "sync"

// registry lists consumers by topic. Any goroutine.
type registry[C any] struct {
	// guarded by mu: read while events are given out, written by join and leave
	mu     sync.RWMutex
	groups map[string][]*entry[C] // "" gets all events
}

// entry is a consumer's place in the registry.
type entry[C any] struct {
	consumer C
	topic    string
	at       int
}

// join lists the consumer that upgrade makes. It is answered under the lock, so
// that an event published after the answer waits for the listing (H1).
func (r *registry[C]) join(topic string, upgrade func() (C, error)) (*entry[C], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := upgrade()
	if err != nil {
		return nil, err
	}
	if r.groups == nil {
		r.groups = make(map[string][]*entry[C])
	}
	e := &entry[C]{consumer: c, topic: topic, at: len(r.groups[topic])}
	r.groups[topic] = append(r.groups[topic], e)
	return e, nil
}

// leave takes a consumer off the list.
func (r *registry[C]) leave(e *entry[C]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[e.topic]
	last := g[len(g)-1]
	g[e.at], last.at = last, e.at
	g[len(g)-1] = nil
	if r.groups[e.topic] = g[:len(g)-1]; len(g) == 1 {
		delete(r.groups, e.topic)
	}
}

// wantedLocked tells if anybody gets events of a topic. It needs mu.
func (r *registry[C]) wantedLocked(topic string) bool {
	return len(r.groups[""])+len(r.groups[topic]) > 0
}

// eachLocked calls f for each consumer of a topic. It needs mu.
func (r *registry[C]) eachLocked(topic string, f func(C)) {
	for _, e := range r.groups[""] {
		f(e.consumer)
	}
	if topic == "" {
		return
	}
	for _, e := range r.groups[topic] {
		f(e.consumer)
	}
}

// all returns all consumers.
func (r *registry[C]) all() []C {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var list []C
	for _, g := range r.groups {
		for _, e := range g {
			list = append(list, e.consumer)
		}
	}
	return list
}
