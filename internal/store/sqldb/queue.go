package sqldb

import "sync"

// Queue holds the requests that wait for the goroutine that writes a database. A
// request counts, with its bytes, from Put until Release. Any goroutine; what is
// taken from it belongs to the writer.
type Queue[R any] struct {
	// Immutable after construction.
	maxCount int
	maxBytes int64
	stopped  error
	ready    chan struct{} // holds one token when the writer should look

	// Guarded by mu.
	mu      sync.Mutex
	waiting []R
	count   int
	size    int64
	ended   bool
}

// NewQueue returns a queue with bounds, of which Put returns stopped after Stop.
func NewQueue[R any](maxCount int, maxBytes int64, stopped error) *Queue[R] {
	return &Queue[R]{maxCount: maxCount, maxBytes: maxBytes, stopped: stopped, ready: make(chan struct{}, 1)}
}

// Put adds r, which holds so many bytes, or tells why not: ErrBusy, or the error of
// a queue that was stopped. A request larger than the bound passes an empty queue.
func (q *Queue[R]) Put(r R, bytes int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return q.stopped
	}
	if q.count > 0 && (q.count >= q.maxCount || q.size+bytes > q.maxBytes) {
		return ErrBusy
	}
	q.count++
	q.size += bytes
	q.waiting = append(q.waiting, r)
	q.Ring()
	return nil
}

// Ring makes the writer look.
func (q *Queue[R]) Ring() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Ready has a token when the writer should look.
func (q *Queue[R]) Ready() <-chan struct{} { return q.ready }

// Take returns the oldest request, or the zero R.
func (q *Queue[R]) Take() R {
	q.mu.Lock()
	defer q.mu.Unlock()
	var none R
	if len(q.waiting) == 0 {
		return none
	}
	r := q.waiting[0]
	q.waiting[0] = none
	q.waiting = q.waiting[1:]
	return r
}

// Release takes a request that held so many bytes off the sums.
func (q *Queue[R]) Release(bytes int64) {
	q.mu.Lock()
	q.count--
	q.size -= bytes
	q.mu.Unlock()
}

// State tells what the writer's loop has to know.
func (q *Queue[R]) State() (waiting int, stopped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.ended
}

// Load returns how many requests count, and their bytes.
func (q *Queue[R]) Load() (count int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count, q.size
}

// Stop lets nothing more in.
func (q *Queue[R]) Stop() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.Ring()
}
