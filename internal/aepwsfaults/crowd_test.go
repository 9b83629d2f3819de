package aepwsfaults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// window is how many events a writer has under way at most.
const window = 16

// writer publishes over all lives of a relay: what was not acknowledged in one is
// sent again in the next, with the same ids. One goroutine in each life.
type writer struct {
	name    string
	random  *rand.Rand
	ledger  *ledger
	next    int
	pending []draft // sent or not, without an answer
	again   int     // acknowledgements of events that had been sent in another life
	old     int     // of pending, from another life
}

// draft makes the next event.
func (w *writer) draft() draft {
	w.next++
	d := plain(fmt.Sprint(w.name, "-", w.next))
	d.mode = []string{"", "", "at_least_once", "replayable", "best_effort"}[w.random.IntN(5)]
	d.padBytes = w.random.IntN(400)
	return d
}

// run publishes until the socket ends. An error is a fault of the relay.
func (w *writer) run(addr string) error {
	a, err := connect(addr, "writer-"+w.name, relaytest.WSOptions{})
	if err != nil {
		return nil // killed before
	}
	defer a.close()
	w.old = len(w.pending)
	for _, d := range w.pending {
		if a.ws.SendText(d.text()) != nil {
			return nil
		}
	}
	for {
		for len(w.pending) < window {
			d := w.draft()
			if d.mode != "best_effort" { // those get no answer (B55)
				w.pending = append(w.pending, d)
			}
			if a.ws.SendText(d.text()) != nil {
				return nil
			}
		}
		e, err := a.next()
		if errors.Is(err, errMessage) {
			return err
		}
		if err != nil || e.closed != 0 || e.Type == "session.closed" {
			return nil
		}
		if err := w.answer(e); err != nil {
			return err
		}
	}
}

// answer takes an answer, which is for the oldest event. While the relay ends,
// events are rejected that may be sent again.
func (w *writer) answer(e event) error {
	d := w.pending[0]
	if e.Type == "event.rejected" && e.Payload.Error != nil && e.Payload.Error.Retryable {
		return nil // it stays, for the next life
	}
	if e.Type != "event.acknowledged" || e.Payload.Acknowledged != d.id {
		return fmt.Errorf("B55: %v of %q, want an acknowledgement of %q", e, e.Payload.Acknowledged, d.id)
	}
	w.pending = w.pending[1:]
	if w.old > 0 {
		w.old--
		w.again++
	}
	return w.ledger.enter(d.id, number(e.Payload.Cursor), true)
}

// crowd is what several writers do in one life.
type crowd struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	faults []error
}

func startCrowd(addr string, writers []*writer) *crowd {
	c := &crowd{}
	for _, w := range writers {
		c.wg.Go(func() {
			if err := w.run(addr); err != nil {
				c.mu.Lock()
				c.faults = append(c.faults, err)
				c.mu.Unlock()
			}
		})
	}
	return c
}

// wait waits until all have ended and fails the test if one was answered wrongly.
func (c *crowd) wait(t *testing.T) {
	t.Helper()
	c.wg.Wait()
	for _, err := range c.faults {
		t.Error(err)
	}
}

// flush publishes what is left of a writer, and nothing new.
func (w *writer) flush(t *testing.T, addr string) {
	t.Helper()
	a := join(t, addr, "writer-"+w.name)
	w.old = len(w.pending)
	for len(w.pending) > 0 {
		e, err := a.publish(w.pending[0])
		if err == nil {
			err = w.answer(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a.close()
}
