package eventlog

import "sync"

// request is one unit of work for the writer.
type request interface {
	// apply does the work in the open transaction. After a failed transaction it
	// is called again from the same state. What it returns and is no error of
	// SQLite has changed nothing.
	apply(w *writer) error
	// answer ends the request. It is called once, with no transaction open.
	answer(err error)
	// bytes is what the request holds until its answer.
	bytes() int64
}

// queue holds the requests that wait for the writer. A request counts from put
// until release, which goes before its answer.
type queue struct {
	// Immutable after construction.
	maxCount int
	maxBytes int64
	ready    chan struct{} // holds one token when the writer should look

	// Guarded by mu.
	mu      sync.Mutex
	waiting []request
	count   int
	size    int64
	stopped bool
}

func newQueue(maxCount int, maxBytes int64) *queue {
	return &queue{maxCount: maxCount, maxBytes: maxBytes, ready: make(chan struct{}, 1)}
}

// put adds r, or tells why not: ErrBusy, ErrStopped.
func (q *queue) put(r request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return ErrStopped
	}
	if q.count > 0 && (q.count >= q.maxCount || q.size+r.bytes() > q.maxBytes) {
		return ErrBusy
	}
	q.count++
	q.size += r.bytes()
	q.waiting = append(q.waiting, r)
	q.ring()
	return nil
}

func (q *queue) ring() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns the oldest request, or nil.
func (q *queue) take() request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	r := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return r
}

// release takes r off the sums.
func (q *queue) release(r request) {
	q.mu.Lock()
	q.count--
	q.size -= r.bytes()
	q.mu.Unlock()
}

// state tells what the writer's loop has to know.
func (q *queue) state() (waiting int, stopped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.stopped
}

// load is the gauges of Stats.
func (q *queue) load() (count int, size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count, q.size
}

func (q *queue) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
	q.ring()
}
