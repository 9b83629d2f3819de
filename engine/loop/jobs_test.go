package loop_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
)

// goLoop is a loop that turns on a goroutine of its own.
type goLoop struct {
	*loop.Loop
	bell chan struct{}
	end  chan struct{}
	done sync.WaitGroup
}

// startLoop returns a loop that turns until the test ends, or one whose turns
// wait for hold to be closed.
func startLoop(t *testing.T, hold <-chan struct{}) *goLoop {
	l := &goLoop{bell: make(chan struct{}, 1), end: make(chan struct{})}
	l.Loop = loop.New(1, loop.SystemClock{}, func(err error) { t.Error(err) })
	l.Bind(func() error { l.bell <- struct{}{}; return nil })
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		if hold != nil {
			<-hold
		}
		for {
			select {
			case <-l.bell:
				l.Turn()
			case <-l.end:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(l.end)
		l.done.Wait()
	})
	return l
}

// await waits for ch, and fails a test that would hang.
func await(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(time.Minute):
		t.Fatal("it does not come")
	}
}

// TestJobs: work runs off the loop, its completion on the loop.
func TestJobs(t *testing.T) {
	l := startLoop(t, nil)
	jobs := loop.NewJobs(2, 4)
	onLoop := 0 // owned by the loop: the race detector tells if it is not
	done := make(chan struct{})
	for range 100 {
		finished := make(chan struct{})
		err := jobs.Submit(l.Loop, func() func() {
			return func() { onLoop++; close(finished) }
		})
		if err != nil {
			t.Fatal(err)
		}
		await(t, finished)
	}
	if err := jobs.Submit(l.Loop, func() func() { return nil }); err != nil {
		t.Error(err)
	}
	_ = l.Post(func() {
		if onLoop != 100 {
			t.Errorf("%d completions", onLoop)
		}
		close(done)
	})
	await(t, done)
	jobs.Close()
}

// TestJobsBounds: a pool takes what its workers and its queue hold, refuses more
// by name, and takes nothing once closed; closing waits for what was taken.
func TestJobsBounds(t *testing.T) {
	l := startLoop(t, nil)
	jobs := loop.NewJobs(1, 2)
	hold, started := make(chan struct{}), make(chan struct{})
	var ran sync.WaitGroup
	work := func() func() {
		<-hold
		return ran.Done
	}
	ran.Add(3)
	if err := jobs.Submit(l.Loop, func() func() { close(started); return work() }); err != nil {
		t.Fatal(err)
	}
	await(t, started)
	for range 2 {
		if err := jobs.Submit(l.Loop, work); err != nil {
			t.Fatal(err)
		}
	}
	if err := jobs.Submit(l.Loop, work); !errors.Is(err, loop.ErrJobsFull) {
		t.Errorf("over the bound: %v", err)
	}
	close(hold)
	jobs.Close()
	jobs.Close()
	if err := jobs.Submit(l.Loop, work); !errors.Is(err, loop.ErrJobsClosed) {
		t.Errorf("after closing: %v", err)
	}
	ran.Wait()
}

// TestJobsPanic: work that panics is contained and counted, and the pool goes
// on.
func TestJobsPanic(t *testing.T) {
	l := startLoop(t, nil)
	jobs := loop.NewJobs(1, 2)
	if err := jobs.Submit(l.Loop, func() func() { panic("job") }); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	if err := jobs.Submit(l.Loop, func() func() { return func() { close(done) } }); err != nil {
		t.Fatal(err)
	}
	await(t, done)
	if l.Panics() != 1 {
		t.Errorf("%d panics", l.Panics())
	}
	jobs.Close()
}

// TestJobsFullMailbox: a completion waits for room in the mailbox, and is given
// up when the loop stops.
func TestJobsFullMailbox(t *testing.T) {
	hold := make(chan struct{})
	l := startLoop(t, hold)
	for l.Post(func() {}) == nil {
	}
	jobs := loop.NewJobs(1, 1)
	done, worked := make(chan struct{}), make(chan struct{})
	_ = jobs.Submit(l.Loop, func() func() { close(worked); return func() { close(done) } })
	await(t, worked)
	l.Later(func() {}) // waits for room too
	close(hold)
	await(t, done)
	jobs.Close()

	hold = make(chan struct{})
	defer close(hold)
	l = startLoop(t, hold)
	for l.Post(func() {}) == nil {
	}
	jobs = loop.NewJobs(1, 1)
	worked = make(chan struct{})
	_ = jobs.Submit(l.Loop, func() func() { close(worked); return func() { t.Error("it ran") } })
	await(t, worked)
	l.SetStopping()
	jobs.Close()
}
