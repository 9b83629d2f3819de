package sync

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-relay/sluice/internal/store"
)

// waits knows which devices wait for which owner's events (S52). A waiter is
// entered before its page is looked for, so that no commit falls between the two:
// whoever is entered when a notice comes is taken out and looks again.
type waits struct {
	limit    int64
	sleeping atomic.Int64 // those that found nothing: at most limit

	// Guarded by mu. Nothing else is locked meanwhile.
	mu      sync.Mutex
	owners  map[string]*waiter // first of a list
	stopped bool
}

// wakes are the waiters of one loop that are to look, for the first time or
// because they were woken.
type wakes struct {
	// Guarded by waits.mu.
	fresh []*waiter // since the loop was last told
	told  bool      // mail is on its way to the loop

	// Owned by the loop.
	queue   []*waiter // look again when their turn comes
	looking int       // jobs under way for them
}

func (ws *waits) init(limit int64) { ws.limit, ws.owners = limit, map[string]*waiter{} }

// enter makes notices of its owner wake wt. Loop of wt only.
func (ws *waits) enter(wt *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wt.woken, wt.asleep, wt.entered = false, false, true
	wt.prev, wt.next = nil, ws.owners[wt.auth.Owner]
	if wt.next != nil {
		wt.next.prev = wt
	}
	ws.owners[wt.auth.Owner] = wt
}

// leave takes wt out; nothing wakes it any more. Loop of wt only.
func (ws *waits) leave(wt *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wt.asleep = false
	if !wt.entered {
		return
	}
	wt.entered = false
	if wt.next != nil {
		wt.next.prev = wt.prev
	}
	switch {
	case wt.prev != nil:
		wt.prev.next = wt.next
	case wt.next != nil:
		ws.owners[wt.auth.Owner] = wt.next
	default:
		delete(ws.owners, wt.auth.Owner)
	}
	wt.prev, wt.next = nil, nil
}

// sleep lets wt wait, unless a notice came since it was entered. Loop of wt only.
func (ws *waits) sleep(wt *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wt.asleep = !wt.woken && !ws.stopped
	return wt.asleep
}

// rouse tells whether wt slept, and that is over then: nobody else wakes it. Loop
// of wt only.
func (ws *waits) rouse(wt *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	slept := wt.asleep
	wt.asleep = false
	return slept
}

// seat counts wt among those that sleep, and tells whether there was a seat.
func (ws *waits) seat() bool {
	if ws.sleeping.Add(1) <= ws.limit {
		return true
	}
	ws.sleeping.Add(-1)
	return false
}

func (ws *waits) unseat() { ws.sleeping.Add(-1) }

func (ws *waits) isStopped() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.stopped
}

// Notify takes a notice of the store: whoever waits for that owner looks again.
// Any goroutine; it does not block.
func (s *Surface) Notify(n store.Notice) {
	s.waits.mu.Lock()
	tell := s.waits.wake(n.Owner, nil)
	s.waits.mu.Unlock()
	s.tell(tell)
}

// StopWaiting ends all waits, and those that are still to begin, with what they
// would have got at their end: called once the relay goes down, because a wait
// outlasts the time for an orderly end. Any goroutine.
func (s *Surface) StopWaiting() {
	s.waits.mu.Lock()
	s.waits.stopped = true
	var tell []*worker
	for owner := range s.waits.owners {
		tell = s.waits.wake(owner, tell)
	}
	s.waits.mu.Unlock()
	s.tell(tell)
}

// wake takes out all waiters of an owner, and adds to tell the workers that must
// be told and were not. Under mu.
func (ws *waits) wake(owner string, tell []*worker) []*worker {
	first := ws.owners[owner]
	if first == nil {
		return tell
	}
	delete(ws.owners, owner)
	for wt := first; wt != nil; {
		next := wt.next
		wt.prev, wt.next, wt.entered, wt.woken = nil, nil, false, true
		if wt.asleep {
			wt.asleep = false
			k := &wt.w.wakes
			k.fresh = append(k.fresh, wt)
			if !k.told {
				k.told = true
				tell = append(tell, wt.w)
			}
		}
		wt = next
	}
	return tell
}

func (s *Surface) tell(workers []*worker) {
	for _, w := range workers {
		post(w.Loop(), func() { s.takeWoken(w) })
	}
}

const (
	// wakeJobs bounds the jobs of one loop for devices that wait, so that
	// thousands that come or are woken at once leave room in the pool.
	wakeJobs = 4
	// wakeSlice is how many are answered in one go without a job: about 0.5 ms.
	wakeSlice = 64
)

// takeWoken queues those that were woken since it was last called. Loop only.
func (s *Surface) takeWoken(w *worker) {
	k := &w.wakes
	s.waits.mu.Lock()
	k.queue = append(k.queue, k.fresh...)
	clear(k.fresh)
	k.fresh = k.fresh[:0]
	k.told = false
	s.waits.mu.Unlock()
	s.nextWoken(w)
}

// queueLook lets wt look when its turn comes. Loop only.
func (s *Surface) queueLook(wt *waiter) {
	wt.w.wakes.queue = append(wt.w.wakes.queue, wt)
	s.nextWoken(wt.w)
}

// nextWoken lets as many of the queue look as may at once. Loop only.
func (s *Surface) nextWoken(w *worker) {
	k := &w.wakes
	stopped := s.waits.isStopped()
	for n := 0; len(k.queue) > 0 && k.looking < wakeJobs; n++ {
		if n == wakeSlice {
			w.Loop().Later(func() { s.nextWoken(w) })
			return
		}
		wt := k.queue[0]
		k.queue[0] = nil
		k.queue = k.queue[1:]
		switch {
		case wt.over:
		case stopped:
			wt.answerNothing()
		default:
			if wt.look(func() { k.looking--; s.nextWoken(w) }) {
				k.looking++
			}
		}
	}
	if len(k.queue) == 0 {
		k.queue = nil
	}
}
