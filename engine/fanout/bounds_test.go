package fanout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

// TestSetComesToRest: a set whose last member left in the middle of a pass
// follows the log no longer, and appenders need not wait for it.
func TestSetComesToRest(t *testing.T) {
	e := simloop.New(simloop.Config{Limits: fanout.Limits{LookWrites: 1}})
	var conns []*simloop.Conn
	for i := range 4 {
		c := e.Connect(fmt.Sprint("c", i), 0, simloop.Unlimited, false)
		c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
		conns = append(conns, c)
	}
	settle(t, e)
	set := e.Sets[0]
	if _, _, ok := set.Reached(); !ok || !set.Active() {
		t.Error("the set does not follow the log")
	}
	e.Append(event("s1", 1))
	e.Loops[0].Turn(2)
	for _, c := range conns {
		c.Close()
	}
	settle(t, e)
	if _, _, ok := set.Reached(); ok || set.Active() || set.Members() != 0 || set.Groups() != 0 {
		t.Errorf("active %v, %d members, %d groups", set.Active(), set.Members(), set.Groups())
	}
	for range 3 { // an overrun ends the last member, too
		c := e.Connect("late", 0, simloop.Unlimited, false)
		c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
		for i := range int64(5000) {
			e.Append(event("s1", i))
		}
		settle(t, e)
		if _, _, ok := set.Reached(); ok || c.Reason != fanout.CutOverrun {
			t.Errorf("follows the log %v, cut %v", ok, c.Reason)
		}
	}
}

// TestReached: appenders are told how far a loop has read, in positions and in
// bytes.
func TestReached(t *testing.T) {
	e := simloop.New(simloop.Config{})
	for i := range int64(10) {
		e.Append(event("s1", i))
	}
	c := e.Connect("c", 0, simloop.Unlimited, false)
	c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
	for i := range int64(10) {
		e.Append(event("s1", i))
	}
	f := func(want stream.Pos, behind int64) {
		t.Helper()
		p, passed, ok := e.Sets[0].Reached()
		if p != want || e.Log.TotalBytes()-passed != behind || !ok {
			t.Errorf("reached %d (%v), %d bytes behind, want %d, %d", p, ok, e.Log.TotalBytes()-passed, want, behind)
		}
	}
	f(11, 1000)
	settle(t, e)
	f(21, 0)
}

// TestPositionsOfEndedSubscriptions are dropped with them (R473).
func TestPositionsOfEndedSubscriptions(t *testing.T) {
	e := simloop.New(simloop.Config{})
	c := e.Connect("c", 0, simloop.Unlimited, false)
	c.Subscribe(subscription(t, "b", "session:s1"), fanout.Plan{})
	for i := range 20 {
		c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
		settle(t, e)
		e.Append(event(fmt.Sprint("s", i), 1))
		settle(t, e)
		if i%2 == 0 {
			e.Append(event(fmt.Sprint("t", i), 1)) // the loop is behind at the end
		}
	}
	c.Unsubscribe("a")
	settle(t, e)
	if n := c.Member.OwnPositions(); n != 1 {
		t.Errorf("%d positions are kept, want 1", n)
	}
}

// TestPositionsAreBounded: positions are kept for twice 1,024 sessions at most,
// and the 1,024 newest are told (R430, L2).
func TestPositionsAreBounded(t *testing.T) {
	e := simloop.New(simloop.Config{Buffers: session.Config{Sessions: 10_000}})
	c := e.Connect("c", 0, simloop.Unlimited, false)
	c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
	settle(t, e)
	for i := range 5000 {
		e.Append(event(fmt.Sprint("s", i), 1))
		if i%100 == 0 {
			settle(t, e)
		}
	}
	settle(t, e)
	if n := c.Member.Positions(); n < fanout.MaxPositions || n > 2*fanout.MaxPositions {
		t.Errorf("the group keeps %d positions", n)
	}
	c.Member.StopLive()
	list := c.Member.Delivered()
	if len(list) != fanout.MaxPositions {
		t.Fatalf("%d positions are told", len(list))
	}
	for i, p := range list {
		if want := fmt.Sprint("s", 5000-fanout.MaxPositions+i); p.Session != want {
			t.Fatalf("position %d is of %s, want %s", i, p.Session, want)
		}
	}
}

// TestEndingsAreBounded: a peer that does not read, and replaces its
// subscription for ever, does not pile up what its former ones are owed (L2).
func TestEndingsAreBounded(t *testing.T) {
	e := simloop.New(simloop.Config{})
	c := e.Connect("c", 0, 5, false) // takes a part of the first answer
	for range 2000 {
		c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
		e.Append(event("s1", 1))
		settle(t, e)
	}
	if n := c.Member.Endings(); n > 300 {
		t.Errorf("%d ended subscriptions are kept", n)
	}
	c.Socket.Room(simloop.Unlimited)
	settle(t, e)
	if n := c.Member.Endings(); n != 0 || !c.Member.Live() {
		t.Errorf("%d ended subscriptions are kept, live %v", n, c.Member.Live())
	}
}

// TestWritableIsBounded: however much a member owes, and however small the
// pieces, one event of its socket costs a bounded number of writes (L1).
func TestWritableIsBounded(t *testing.T) {
	e := simloop.New(simloop.Config{Limits: fanout.Limits{LagBytes: 100}})
	c := e.Connect("c", 0, len("[subscribed a]"), false)
	c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
	settle(t, e)
	for i := range int64(500) {
		e.Append(event("s1", i))
		settle(t, e)
	}
	for range 500 {
		c.Reply("x")
	}
	c.Unsubscribe("a") // it must not go on before the queue is empty
	c.Socket.Room(simloop.Unlimited)
	for c.Member.QueuedBytes() > 0 {
		before := c.Socket.Writes
		e.Loops[0].Poll()
		if n := c.Socket.Writes - before; n > 200 {
			t.Fatalf("%d writes at once", n)
		}
		e.Loops[0].Turn(0)
	}
	settle(t, e)
	got := frameTexts(t, c)
	if len(got) != 1+500+500+1 || got[len(got)-1] != "[unsubscribed a]" {
		t.Errorf("%d frames, the last is %s", len(got), got[len(got)-1])
	}
}

// TestFrameFlood: frames that a peer asks for and does not read cost constant
// time each, up to HARD (R422).
func TestFrameFlood(t *testing.T) {
	e := simloop.New(simloop.Config{})
	c := e.Connect("c", 0, 10, false)
	c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
	e.Append(event("s1", 1))
	settle(t, e)
	n := 0
	for start := time.Now(); c.Reason == 0; n++ {
		c.Reply("x")
		c.Urgent("y")
		if time.Since(start) > 2*time.Minute { // constant, it is two seconds
			t.Fatalf("%d frames in 2 minutes", n)
		}
	}
	if c.Reason != fanout.CutHard || n < 8<<20/20 {
		t.Errorf("cut for %v after %d rounds", c.Reason, n)
	}
}
