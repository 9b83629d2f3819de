package aepws

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// realRig is a feedRig over a real log and a real job pool. Their goroutines ring
// the loops; the test's goroutine runs them.
type realRig struct {
	*feedRig
	events *eventlog.Log
	bell   chan struct{}
}

func newRealRig(t *testing.T, cfg feedConfig, log eventlog.Config) *realRig {
	t.Helper()
	x := &realRig{feedRig: &feedRig{t: t, clock: simloop.NewClock(), jobs: &heldJobs{}}, bell: make(chan struct{}, 1)}
	var ready sync.WaitGroup // the log is open before the hub is there
	ready.Add(1)
	log.Path = filepath.Join(t.TempDir(), "aepws.db")
	log.Committed = func(batch []eventlog.Stored) {
		ready.Wait()
		x.hub.committed(batch)
	}
	var err error
	if x.events, err = eventlog.Open(log); err != nil {
		t.Fatal(err)
	}
	jobs := loop.NewJobs(2, 64)
	t.Cleanup(func() {
		jobs.Close()
		if err := x.events.Close(); err != nil {
			t.Error(err)
		}
	})
	x.budget = newFeedBudget()
	x.setUp(cfg, x.events, jobs)
	for _, l := range x.loops {
		l.Bind(func() error {
			select {
			case x.bell <- struct{}{}:
			default:
			}
			return nil
		})
		l.BindHop(func(f func()) { f() })
	}
	ready.Done()
	return x
}

// await runs the loops until cond holds.
func (x *realRig) await(what string, cond func() bool) {
	x.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			x.t.Fatalf("%s does not come", what)
		}
		for _, l := range x.loops {
			l.Poll()
			l.Loop.Turn()
		}
		select {
		case <-x.bell:
		case <-time.After(time.Millisecond):
		}
	}
}

// append publishes count events from first on, and waits for their commit.
func (x *realRig) append(first, count int) {
	x.t.Helper()
	done := make(chan error, count)
	for i := range count {
		e := x.stored(eventOf{id: fmt.Sprint("e", first+i), source: fmt.Sprint("agent:", i%3)})
		x.events.Append(e, func(_ eventlog.Result, err error) { done <- err })
	}
	for range count {
		if err := <-done; err != nil {
			x.t.Fatal(err)
		}
	}
}

// B51, B52, B55, B60, case 31: over a real log, whose commits and pages come from
// other goroutines, each subscription gets everything once and in order.
func TestRealLog(t *testing.T) {
	x := newRealRig(t, feedConfig{loops: 2, tail: 64}, eventlog.Config{})
	x.append(1, 1500)
	live := x.open(0)
	live.ask(all)
	behind := x.open(1)
	behind.only(20_000)
	behind.ask(fromCursor("e500:500"))
	gap := x.open(0)
	gap.ask(fromCursor("other:700"))
	var publishers sync.WaitGroup
	publishers.Add(1)
	failed := make(chan error, 1000)
	list := make([]eventlog.Event, 1000)
	for i := range list {
		list[i] = x.stored(eventOf{id: fmt.Sprint("e", 1501+i)})
	}
	go func() {
		defer publishers.Done()
		for _, e := range list {
			x.events.Append(e, func(_ eventlog.Result, err error) {
				if err != nil {
					failed <- err
				}
			})
		}
	}()
	steps := 0
	x.await("the end", func() bool {
		steps++
		behind.Room(5000)
		return x.hub.counts.delivered.Load() >= 1000+2000+2500
	})
	publishers.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	behind.Room(simloop.Unlimited)
	behind.Poll(x)
	live.want("live", listOf(one("created sub_1"), numbers(1501, 2500))...)
	x.isRun("behind", behind.got(), 501, 2500)
	got := gap.got()
	if got[0] != "created sub_1 gap cursor_unknown e1:1" {
		t.Errorf("B51: %s", got[0])
	}
	x.isRun("gap", got, 1, 2500)
}

// Poll lets a line's socket take what is left.
func (n *line) Poll(x *realRig) {
	for _, l := range x.loops {
		l.Poll()
		l.Loop.Turn()
	}
}

// isRun wants the events from first to last, in order, and one event.replayed.
func (x *realRig) isRun(what string, got []string, first, last int64) {
	x.t.Helper()
	replayed := 0
	for _, text := range got[1:] {
		if len(text) > 8 && text[:8] == "replayed" {
			replayed++
			continue
		}
		if text != fmt.Sprint(first) {
			x.t.Errorf("%s: got %s, want %d", what, text, first)
			return
		}
		first++
	}
	if first != last+1 || replayed != 1 {
		x.t.Errorf("%s: it ends before %d, want %d, and %d replays ended", what, first, last+1, replayed)
	}
}

// B58: dead letters are stored in the log's own table.
func TestRealDeadLetter(t *testing.T) {
	x := newRealRig(t, feedConfig{retry: quickRetry}, eventlog.Config{})
	n, named := x.open(), x.open()
	n.ask(reliable)
	named.ask(letters)
	x.append(1, 1)
	x.await("the event", func() bool { return x.hub.counts.delivered.Load() == 1 })
	for range 100 {
		x.clock.Advance(dueTick)
		for _, l := range x.loops {
			l.Loop.Turn()
		}
	}
	x.await("the dead letter", func() bool { return x.hub.counts.letters.Load() == 1 })
	x.await("its delivery", func() bool { return bytes.Contains(named.Received(), []byte(`"type":"event.dead_lettered"`)) })
	named.want("B58", "created sub_1", "dead sub_1 e1 3 subscription_error max_attempts")
	kept, err := x.events.DeadLetters(10)
	if err != nil || len(kept) != 1 || kept[0].Original != "e1" || kept[0].OriginalSeq != 1 {
		t.Errorf("B58: stored %+v, %v", kept, err)
	}
}
