package loop

import (
	"errors"
	"sync"
)

// ErrJobsFull tells that the job pool cannot take more work now.
var ErrJobsFull = errors.New("loop: job pool is full")

// ErrJobsClosed tells that the job pool was closed.
var ErrJobsClosed = errors.New("loop: job pool is closed")

// Jobs is a bounded pool of goroutines for work that may block and that no loop
// may do itself. Any goroutine.
type Jobs struct {
	queue chan job
	done  sync.WaitGroup

	// Guarded by mu.
	mu     sync.RWMutex
	closed bool
}

type job struct {
	loop *Loop
	work func() (completion func())
}

// NewJobs returns a pool of workers goroutines in front of which at most
// waiting jobs queue.
func NewJobs(workers, waiting int) *Jobs {
	j := &Jobs{queue: make(chan job, waiting)}
	for range workers {
		j.done.Add(1)
		go j.run()
	}
	return j
}

// Submit runs work off the loops and then the completion that it returns on l.
// A completion must check that what it was for still exists. It never blocks:
// ErrJobsFull tells that the work was not taken.
func (j *Jobs) Submit(l *Loop, work func() (completion func())) error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.closed {
		return ErrJobsClosed
	}
	select {
	case j.queue <- job{l, work}:
		return nil
	default:
		return ErrJobsFull
	}
}

// Close takes no more work and waits for what was taken.
func (j *Jobs) Close() {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.queue)
	}
	j.mu.Unlock()
	j.done.Wait()
}

func (j *Jobs) run() {
	defer j.done.Done()
	for job := range j.queue {
		j.one(job)
	}
}

func (j *Jobs) one(job job) {
	defer job.loop.Recover()
	if done := job.work(); done != nil {
		// A full mailbox means a loop that is far behind: the pool waits for it
		// rather than lose an answer.
		for job.loop.Post(done) != nil && !job.loop.stopping.Load() {
			job.loop.awaitMail()
		}
	}
}
