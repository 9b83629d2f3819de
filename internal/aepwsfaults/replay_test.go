package aepwsfaults

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestCursors: hard cases 25 to 28: what a subscriber gets for a cursor, on a log
// of ten events of which five are kept, before and after a restart.
func TestCursors(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "AEPWS_RETENTION_EVENTS=5")
	pub := join(t, p.Addr, "publisher")
	pub.mustPublishMany(t, "e", 10, 0) // e0 has number 1, e9 number 10
	f := func(rule, cursor, status, reason string, first int64, oldest string) {
		t.Helper()
		f := mustFollow(t, p.Addr, "reader", filterFrom(cursor, ""))
		r := f.created.Payload.Replay
		if r == nil || r.Status != status || r.Reason != reason || r.OldestCursor != oldest {
			t.Fatalf("%s: %s: replay %+v, want %s %q, oldest %q", rule, cursor, r, status, reason, oldest)
		}
		await(t, "event.replayed", f.isReplayed)
		last := int64(10)
		if got := f.got(); int64(len(got)) != last-first+1 {
			t.Fatalf("%s: %s: %d events before event.replayed, want from number %d on", rule, cursor, len(got), first)
		}
		f.stop()
		wantRun(t, rule, f.end(t), first, last)
	}
	for range 2 {
		f("case 25", "e9:10", "complete", "", 11, "")
		f("B51", "e6:7", "complete", "", 8, "")
		f("B51: the event is gone, nothing after it", "e4:5", "complete", "", 6, "")
		f("B51: the id cannot be checked", "other:5", "complete", "", 6, "")
		f("B51: from the start", fromStart, "gap", "", 6, oldestOf(t, p.Addr))
		f("case 26", "e5:7", "gap", "cursor_unknown", 6, oldestOf(t, p.Addr))
		f("case 27", "e0:1", "gap", "", 6, oldestOf(t, p.Addr))
		f("case 28", "e9:11", "gap", "cursor_in_future", 6, oldestOf(t, p.Addr))
		stop(t, p)
		p = start(t, dir, "AEPWS_RETENTION_EVENTS=5")
	}
	// Case 25 goes on live.
	reader := mustFollow(t, p.Addr, "reader", filterFrom("e9:10", ""))
	await(t, "event.replayed", reader.isReplayed)
	if n := join(t, p.Addr, "publisher").mustPublish(t, plain("live")); n != 11 {
		t.Errorf("number %d, want 11", n)
	}
	await(t, "the live event", func() bool { return reader.last() == 11 })
	stop(t, p)
	wantRun(t, "case 25", reader.end(t), 11, 11)
}

// oldestOf returns the cursor of the oldest event, as a replay from the start
// names it; it is the first that is sent.
func oldestOf(t *testing.T, addr string) string {
	t.Helper()
	f := mustFollow(t, addr, "oldest", filterFrom(fromStart, ""))
	await(t, "event.replayed", f.isReplayed)
	f.stop()
	return f.end(t)[0].Delivery.Cursor
}

// load is a publisher that goes on until it is told to end.
type load struct {
	over, done chan struct{}
	once       sync.Once
	last       int64 // number; valid once done is closed
}

// startLoad publishes so many events at least.
func startLoad(t *testing.T, pub *agent, prefix string, least int) *load {
	const step = 50
	l := &load{over: make(chan struct{}), done: make(chan struct{})}
	t.Cleanup(func() { l.end() })
	go func() {
		defer close(l.done)
		for sent := 0; ; sent += step {
			ended := false
			select {
			case <-l.over:
				ended = sent >= least
			default:
			}
			_, last, err := pub.publishMany(fmt.Sprint(prefix, sent, "-"), step, 8, 100)
			if err != nil {
				t.Error(err)
				return
			}
			if l.last = last; ended {
				return
			}
		}
	}()
	return l
}

// end has it publish a few more events, waits for that and returns the last
// number.
func (l *load) end() int64 {
	l.once.Do(func() { close(l.over) })
	<-l.done
	return l.last
}

// TestReplayUnderLoad: hard case 31: subscriptions start at any moment while
// 1,000 events or more are published, from the start, from a cursor and live:
// each gets every event once, ascending, and event.replayed stands where the
// replay ended.
func TestReplayUnderLoad(t *testing.T) {
	random := newRand(t)
	p := start(t, t.TempDir(), "SLUICE_LOOPS=2")
	pub := join(t, p.Addr, "publisher")
	_, before := pub.mustPublishMany(t, "before-", 500, 100)
	load := startLoad(t, pub, "e", 1000)
	middle := int64(random.IntN(int(before))) + 1
	var starts, cursors, lives []*follower
	for i := range 8 {
		mode := []string{"", "at_least_once", "replayable"}[i%3]
		starts = append(starts, mustFollow(t, p.Addr, fmt.Sprint("start", i), filterFrom(fromStart, mode)))
		cursors = append(cursors, mustFollow(t, p.Addr, fmt.Sprint("cursor", i), filterFrom(fmt.Sprintf("before-%d:%d", middle-1, middle), mode)))
		lives = append(lives, mustFollow(t, p.Addr, fmt.Sprint("live", i), filterFrom("", mode)))
	}
	last := load.end()
	if t.Failed() {
		t.FailNow()
	}
	check := func(name string, list []*follower, first func([]event) int64) {
		t.Helper()
		for _, f := range list {
			await(t, name, func() bool { return f.last() == last })
			f.stop()
			items := f.end(t)
			wantRun(t, name, items, first(items), last)
		}
	}
	check("from the start", starts, func([]event) int64 { return 1 })
	check("from a cursor", cursors, func([]event) int64 { return middle + 1 })
	check("live", lives, func(items []event) int64 { return items[0].Delivery.Sequence })
	for _, f := range append(starts, cursors...) {
		if f.replayed < 0 {
			t.Error("B52: no event.replayed")
		}
	}
	healthy(t, p)
}

// TestPongInReplay: hard case 21: a Ping of 125 bytes is answered with the same
// bytes before a replay of 10,000 events ends.
func TestPongInReplay(t *testing.T) {
	const events = 10_000
	p := start(t, t.TempDir(), "SLUICE_SEND_BUFFER=16384")
	pub := join(t, p.Addr, "publisher")
	_, last := pub.mustPublishMany(t, "e", events, 500)
	reader := joinWith(t, p.Addr, "reader", relaytest.WSOptions{RecvBytes: 4096})
	reader.mustSubscribe(t, filterFrom(fromStart, ""))
	ping := strings.Repeat("0123456789", 13)[:125]
	got, ponged := int64(0), int64(-1)
	for got < last || ponged < 0 {
		if got == 100 {
			if err := reader.ws.SendFrame(relaytest.Frame{Opcode: relaytest.OpPing, Payload: []byte(ping)}); err != nil {
				t.Fatal(err)
			}
		}
		e := reader.must(t)
		switch {
		case e.pong == ping:
			ponged = got
		case e.isDomain():
			if got++; e.Delivery.Sequence != got {
				t.Fatalf("K3: number %d in place of %d", e.Delivery.Sequence, got)
			}
		case ponged < 0:
			t.Fatalf("B38: %v before the Pong, after %d events", e, got)
		default:
			t.Fatalf("%v after %d events", e, got)
		}
	}
	if e := reader.must(t); e.Type != "event.replayed" || e.Payload.Replayed != events {
		t.Errorf("B52: %v of %d events", e, e.Payload.Replayed)
	}
	t.Logf("the Pong came after %d of %d events", ponged, events)
	if ponged > events/2 {
		t.Errorf("B38: the Pong waited for %d events", ponged)
	}
	healthy(t, p)
}

// TestCancel: hard case 32: after the confirmation of a cancel no event of the
// subscription follows, also under load and in the middle of a replay.
func TestCancel(t *testing.T) {
	p := start(t, t.TempDir())
	pub := join(t, p.Addr, "publisher")
	pub.mustPublishMany(t, "before-", 2000, 100)
	for round, filter := range []string{filterFrom(fromStart, ""), filterFrom("", ""), filterFrom(fromStart, "replayable")} {
		load := startLoad(t, pub, fmt.Sprint("during-", round, "-"), 500)
		reader := join(t, p.Addr, "reader")
		id := reader.mustSubscribe(t, filter).Payload.Subscription
		for range 20 {
			if e := reader.must(t); !e.isDomain() || e.Delivery.Subscription != id {
				t.Fatalf("round %d: %v", round, e)
			}
		}
		if err := reader.send("subscription.cancelled", fmt.Sprintf(`{"subscription_id":%q}`, id)); err != nil {
			t.Fatal(err)
		}
		for e := reader.must(t); e.Type != "subscription.cancelled"; e = reader.must(t) {
			if !e.isDomain() && e.Type != "event.replayed" {
				t.Fatalf("round %d: %v", round, e)
			}
		}
		// What is sent after it belongs to another subscription.
		marker := fmt.Sprint("marker-", round)
		if err := reader.send("subscription.requested", `{"types":"memory.updated"}`); err != nil {
			t.Fatal(err)
		}
		reader.want(t, "case 32", "subscription.created")
		load.end()
		d := plain(marker)
		d.kind = "memory.updated"
		n := pub.mustPublish(t, d)
		reader.want(t, "case 32", fmt.Sprint("memory.updated ", marker, " ", n))
		// B53: cancelled twice is refused and harms nothing.
		if err := reader.send("subscription.cancelled", fmt.Sprintf(`{"subscription_id":%q}`, id)); err != nil {
			t.Fatal(err)
		}
		reader.want(t, "B53", "event.rejected subscription_error ")
		reader.close()
	}
	healthy(t, p)
}
