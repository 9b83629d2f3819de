package aepwsfaults

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// fromStart is a cursor of which everything that is kept follows (B51).
const fromStart = "x:0"

// filterFrom is a filter for all types, behind a cursor unless it is "", with a
// mode unless that is "".
func filterFrom(cursor, mode string) string {
	filter := `{"types":"*"`
	if cursor != "" {
		filter += fmt.Sprintf(`,"from_cursor":%q`, cursor)
	}
	if mode != "" {
		filter += fmt.Sprintf(`,"delivery_mode":%q`, mode)
	}
	return filter + "}"
}

// follower reads one subscription in a goroutine until it ends, and acknowledges
// what it gets.
type follower struct {
	a       *agent
	created event
	done    chan struct{} // closed at the end

	mu       sync.Mutex
	repeats  bool    // a delivery may be repeated
	items    []event // deliveries
	replayed int64   // of event.replayed, -1 before it
	dropped  int64   // the sum of delivery.dropped
	expired  *event  // the subscription ended early (B60)
	err      error   // why the socket ended
}

// follow opens a session with one subscription and reads all of it. Errors of
// opening are returned; the follower is waited for when the test ends.
func follow(t *testing.T, addr, session, filter string) (*follower, error) {
	t.Helper()
	a, err := connect(addr, session, relaytest.WSOptions{})
	if err != nil {
		return nil, err
	}
	return a.follow(t, filter)
}

// follow subscribes and reads on in a goroutine.
func (a *agent) follow(t *testing.T, filter string) (*follower, error) {
	t.Helper()
	created, err := a.subscribe(filter)
	if err != nil {
		a.close()
		return nil, err
	}
	f := &follower{a: a, created: created, done: make(chan struct{}), replayed: -1}
	t.Cleanup(f.stop)
	go func() {
		defer close(f.done)
		defer a.close()
		for f.step() {
		}
	}()
	return f, nil
}

// mustFollow is follow where it has to work.
func mustFollow(t *testing.T, addr, session, filter string) *follower {
	t.Helper()
	f, err := follow(t, addr, session, filter)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// errFollow tells that a follower was sent what it must not be.
var errFollow = errors.New("delivery")

// step takes one event and tells whether to go on.
func (f *follower) step() bool {
	e, err := f.a.next()
	if err == nil && e.isDomain() {
		err = f.a.acknowledge(e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.repeats && err == nil && (e.Type == "event.redelivered" || e.isDomain() && e.Delivery.Attempt > 1) {
		return true
	}
	if e.isDomain() {
		f.items = append(f.items, e) // it has come, whatever became of the answer
		f.dropped += e.Delivery.Dropped
	}
	switch {
	case err != nil:
		f.err = err
	case e.isDomain():
		last := len(f.items) - 1
		if last > 0 && e.Delivery.Sequence <= f.items[last-1].Delivery.Sequence {
			f.err = fmt.Errorf("%w: K3: %v after %v", errFollow, e, f.items[last-1])
		}
	case e.Type == "event.replayed" && f.replayed < 0:
		if f.replayed = e.Payload.Replayed; f.replayed != int64(len(f.items)) {
			f.err = fmt.Errorf("%w: B52: %d events replayed, %d are told", errFollow, len(f.items), f.replayed)
		}
	case e.Type == "subscription.expired":
		f.expired = &e
	case e.closed == 0 && e.Type != "session.closed":
		f.err = fmt.Errorf("%w: %v", errFollow, e)
	}
	return f.err == nil && e.closed == 0
}

// letRepeat has it pass over what is sent again because an acknowledgement was
// not in time.
func (f *follower) letRepeat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repeats = true
}

// stop closes the session and waits for the reader.
func (f *follower) stop() {
	f.a.close()
	<-f.done
}

// got returns the deliveries so far.
func (f *follower) got() []event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.items)
}

// last returns the highest number so far, or 0.
func (f *follower) last() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.items) == 0 {
		return 0
	}
	return f.items[len(f.items)-1].Delivery.Sequence
}

// isReplayed tells whether event.replayed has come.
func (f *follower) isReplayed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replayed >= 0
}

// end waits for the end of the socket and returns the deliveries. Nothing that
// must not be sent may have come.
func (f *follower) end(t *testing.T) []event {
	t.Helper()
	<-f.done // each read has a deadline
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(f.err, errFollow) || errors.Is(f.err, errMessage) || relaytest.IsTimeout(f.err) {
		t.Fatal(f.err)
	}
	return f.items
}

// whole reads everything that is kept, at best_effort, up to the number last.
func whole(t *testing.T, addr string, last int64) []event {
	t.Helper()
	f := mustFollow(t, addr, "whole", filterFrom(fromStart, "best_effort"))
	await(t, fmt.Sprintf("the whole log up to %d", last), func() bool {
		select {
		case <-f.done:
			return true
		default:
			return f.isReplayed() && f.last() >= last
		}
	})
	f.stop()
	return f.end(t)
}

// wantRun holds deliveries to be every number from first to last, in order: a
// follower of all types without a tenant is sent the whole log, whose numbers are
// dense.
func wantRun(t *testing.T, name string, items []event, first, last int64) {
	t.Helper()
	for i, e := range items {
		if e.Delivery.Sequence != first+int64(i) {
			t.Fatalf("K3: %s: number %d in place of %d", name, e.Delivery.Sequence, first+int64(i))
		}
		if want := fmt.Sprintf("%s:%d", e.ID, e.Delivery.Sequence); e.Delivery.Cursor != want {
			t.Fatalf("B57: %s: cursor %q, want %q", name, e.Delivery.Cursor, want)
		}
	}
	if int64(len(items)) != last-first+1 {
		t.Fatalf("K3: %s: %d events, want the numbers %d to %d", name, len(items), first, last)
	}
}
