package netloop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/sluice-relay/sluice/engine/loop"
)

// reactor is one event loop of the library with the loop.Loop that runs on it.
type reactor struct {
	// Immutable after construction.
	srv  *Server
	loop *loop.Loop

	// Set once, before the loop is woken.
	el   gnet.EventLoop
	bell int // the keeper's other end: a byte written to it is a turn

	// Owned by the loop.
	waking   []*conn // the half of writable being worked off
	wakingAt int
	doomed   []*conn         // to be closed, each at most once
	closing  bool            // closeDoomed is scheduled
	current  *conn           // inside its OnOpen or OnTraffic
	reasons  map[*conn]error // why they are doomed, unless it is an orderly end
	scratch  []byte          // for input that nobody reads

	// Guarded by mu.
	mu       sync.Mutex
	writable []*conn // each at most once: events are one-shot

	// Atomic.
	conns atomic.Int64 // placed here, being enrolled included
}

const (
	// drainStride is how many connections are worked off between looks at the
	// clock; a write costs 7 to 9 us.
	drainStride = 8
	// keptList is the capacity above which an emptied list is given back.
	keptList = 1024
	// scratchBytes is the size of a loop's buffer for discarded input.
	scratchBytes = 16 << 10
)

// execute is the doorbell of the loop: any goroutine. Before the loops run it
// does nothing, since starting rings each of them once.
func (r *reactor) execute() error {
	s := r.srv
	s.bell.RLock()
	defer s.bell.RUnlock()
	switch {
	case s.bellShut:
		return ErrStopped
	case r.el == nil:
		return nil
	}
	return ringBell(r.bell)
}

// run is one turn, when the reactor has come to the doorbell. Loop only.
func (r *reactor) run() {
	r.turn()
	r.closeSoon() // who was doomed after Drain had its say
}

func (r *reactor) turn() {
	defer r.loop.Recover()
	r.loop.Turn()
}

// wake notes that c is writable. Any goroutine.
func (r *reactor) wake(c *conn) {
	r.mu.Lock()
	r.writable = append(r.writable, c)
	r.mu.Unlock()
	r.loop.Ring()
}

// Drain implements loop.Drainer: it passes on writability and has closed what is
// to be closed.
func (r *reactor) Drain(deadline time.Time) (more bool) {
	r.closeSoon()
	for n := 1; r.nextWritable(); n++ {
		if n%drainStride == 0 && !r.loop.Now().Before(deadline) {
			return r.wakingAt < len(r.waking)
		}
	}
	return false
}

// closeSoon has Run called if there is anything for it. A failure means that the
// loops end, and the connections with them.
func (r *reactor) closeSoon() {
	if len(r.doomed) > 0 && !r.closing {
		r.closing = r.el.Execute(context.Background(), r) == nil
	}
}

// Run closes the doomed, called by the reactor (gnet.Runnable). It does that as
// a task, which comes after all events of a round: a turn is one of them, and
// those that come after it may be of a connection that was just closed. Loop
// only. It returns nil always: an error of a task could end the reactor.
func (r *reactor) Run(context.Context) error {
	r.closing = false
	deadline := r.loop.Now().Add(loop.PassBudget)
	for n := 1; len(r.doomed) > 0; n++ {
		r.closeDoomed()
		if n%drainStride == 0 && len(r.doomed) > 0 && !r.loop.Now().Before(deadline) {
			r.loop.Ring() // the sockets first
			break
		}
	}
	return nil
}

// nextWritable passes on one event and tells whether there was one.
func (r *reactor) nextWritable() bool {
	if r.wakingAt == len(r.waking) {
		r.wakingAt = 0
		spent := r.waking[:0]
		if cap(spent) > keptList {
			spent = nil
		}
		r.mu.Lock()
		r.waking, r.writable = r.writable, spent
		r.mu.Unlock()
		if len(r.waking) == 0 {
			return false
		}
	}
	c := r.waking[r.wakingAt]
	r.waking[r.wakingAt] = nil
	r.wakingAt++
	c.becameWritable()
	return true
}

// doom puts c on the list of connections to close. Loop only.
func (r *reactor) doom(c *conn) {
	if r.current == c {
		return // the event's return value closes it
	}
	r.doomed = append(r.doomed, c)
	r.closeSoon()
}

func (r *reactor) closeDoomed() {
	last := len(r.doomed) - 1
	c := r.doomed[last]
	r.doomed[last] = nil
	r.doomed = r.doomed[:last]
	if last == 0 && cap(r.doomed) > keptList {
		r.doomed = nil
	}
	if !c.closed {
		_ = r.el.Close(c.g)
	}
}

// discardBuffer returns the loop's buffer for input that nobody reads.
func (r *reactor) discardBuffer() []byte {
	if r.scratch == nil {
		r.scratch = make([]byte, scratchBytes)
	}
	return r.scratch
}
