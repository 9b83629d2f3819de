package aepws

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/loop"
)

const (
	all         = `{"types":"*"}`
	reliable    = `{"types":"*","delivery_mode":"at_least_once"}`
	bestEffort  = `{"types":"*","delivery_mode":"best_effort"}`
	letters     = `{"types":"event.dead_lettered"}`
	fromNothing = `{"from_cursor":"x:0"}`
)

// fromCursor is a filter that matches everything from a cursor on.
func fromCursor(cursor string) string { return fmt.Sprintf(`{"from_cursor":%q}`, cursor) }

// B46, B48, B50, B52, B57: who gets what is published, on every loop.
func TestLive(t *testing.T) {
	r := newFeedRig(t, feedConfig{loops: 2})
	r.publish(eventOf{})
	a, b := r.open(0), r.open(1)
	a.subscribe(all, `{"types":["memory.*","task.progress"],"source":"agent:b"}`)
	b.subscribe(all)
	other := r.openOf("t1", 1).subscribe(all)
	a.want("B50: the answers", "created sub_1", "created sub_2")
	b.want("B50: ids are the session's", "created sub_1")
	other.want("B50", "created sub_1")
	r.publish(eventOf{}, eventOf{source: "agent:b"}, eventOf{tenant: "t1"}, eventOf{typ: "memory.updated", source: "agent:b"}, eventOf{typ: "task.failed", source: "agent:b"})
	r.run()
	// Groups of one socket are served one after the other.
	if got := strings.Join(a.got(), ","); got != "2,3,5,6,3 sub_2,5 sub_2" && got != "3 sub_2,5 sub_2,2,3,5,6" {
		t.Errorf("B57: an event that matches two subscriptions is sent once for each: %s", got)
	}
	b.want("B46: no other tenant's", "2", "3", "5", "6")
	other.want("B46, case 24: its tenant's only", "4")
}

// B57: the mode of a delivery is the lower of the two wishes.
func TestModes(t *testing.T) {
	f := func(wish, event, want string) {
		t.Helper()
		r := newFeedRig(t, feedConfig{})
		filter := all
		if wish != "" {
			filter = fmt.Sprintf(`{"types":"*","delivery_mode":%q}`, wish)
		}
		n := r.open().subscribed(filter)
		r.publish(eventOf{mode: event})
		r.run()
		n.want(fmt.Sprintf("B57: %q of %q", event, wish), strings.TrimSuffix("1 "+want, " best_effort"))
	}
	f("", "", "best_effort")
	f("", "at_least_once", "at_least_once")
	f("", "replayable", "replayable")
	f("best_effort", "replayable", "best_effort")
	f("at_least_once", "", "at_least_once")
	f("at_least_once", "replayable", "at_least_once")
	f("replayable", "at_least_once", "at_least_once")
	f("replayable", "best_effort", "best_effort")
	f("replayable", "", "replayable")
}

// B51, cases 25 to 28: where a cursor leads, with the events in memory and in the
// log. Of ten events the log keeps the last six: O is 5, E is 4, H is 10.
func TestCursors(t *testing.T) {
	for _, tail := range []int{1 << 10, 2} {
		f := func(cursor, status string, first int64, oldest string) {
			t.Helper()
			r := newFeedRig(t, feedConfig{keep: 6, tail: tail})
			r.publishMany(10, eventOf{})
			n := r.open().subscribe(fromCursor(cursor))
			to, what := "e10:10", fmt.Sprintf("B51: %s with a tail of %d", cursor, tail)
			if first == 11 {
				to = ""
			}
			replayed := joinWords("replayed", "sub_1", cursor, to, fmt.Sprint(11-first))
			n.want(what, listOf(one(joinWords("created sub_1", status, oldest)), numbers(first, 10), one(replayed))...)
			r.publish(eventOf{})
			r.run()
			n.want(what+", then live", "11")
		}
		f("e10:10", "complete", 11, "") // case 25
		f("e9:9", "complete", 10, "")
		f("e5:5", "complete", 6, "")
		f("e4:4", "complete", 5, "")
		f("nobody:4", "complete", 5, "") // the id cannot be checked
		f("e3:3", "gap", 5, "e5:5")      // case 27
		f("x:0", "gap", 5, "e5:5")
		f("evt_x:7", "gap cursor_unknown", 5, "e5:5") // case 26
		f("evt_x:10", "gap cursor_unknown", 5, "e5:5")
		f("e11:11", "gap cursor_in_future", 5, "e5:5") // case 28
		f("e9:9223372036854775807", "gap cursor_in_future", 5, "e5:5")
		f("e9:9999999999999999999", "gap cursor_in_future", 5, "e5:5") // told as given
		f("e5:0005", "complete", 6, "")
	}
}

// B51: cursors where nothing was evicted, nothing is kept, or nothing ever was.
func TestCursorsOfEmptyLogs(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	r.open().subscribe(fromNothing).want("an unused log", "created sub_1 complete", "replayed sub_1 x:0 0")
	r.open().subscribe(fromCursor("x:1")).want("an unused log", "created sub_1 gap cursor_in_future", "replayed sub_1 x:1 0")
	r.publishMany(3, eventOf{})
	r.open().subscribe(fromNothing).want("B51: :0 of a log that evicted nothing",
		listOf(one("created sub_1 complete"), numbers(1, 3), one("replayed sub_1 x:0 e3:3 3"))...)
	r.log.evictAll()
	r.open().subscribe(fromNothing).want("an emptied log", "created sub_1 gap", "replayed sub_1 x:0 0")
	r.open().subscribe(fromCursor("e3:3")).want("an emptied log", "created sub_1 complete", "replayed sub_1 e3:3 0")
	r.open().subscribe(fromCursor("e2:2")).want("an emptied log", "created sub_1 gap", "replayed sub_1 e2:2 0")
}

// B51, B62: after a restart everything is in the log alone.
func TestCursorsAfterRestart(t *testing.T) {
	r := newFeedRig(t, feedConfig{keep: 700, before: 1000})
	n := r.open().subscribe(fromCursor("e500:500"))
	n.want("B51", listOf(one("created sub_1 complete"), numbers(501, 1000), one("replayed sub_1 e500:500 e1000:1000 500"))...)
	n = r.open().subscribe(fromCursor("other:500"))
	n.want("B51", listOf(one("created sub_1 gap cursor_unknown e301:301"), numbers(301, 1000), one("replayed sub_1 other:500 e1000:1000 700"))...)
}

// B51: the answers to one connection keep their order while the log is asked,
// and what is published meanwhile is not for those who wait without a cursor.
func TestAnswersInOrder(t *testing.T) {
	r := newFeedRig(t, feedConfig{keep: 6, tail: 2})
	r.publishMany(10, eventOf{})
	r.jobs.hold = true
	n := r.open()
	for range 3 {
		n.ask(fromCursor("e6:6"))
		n.ask(all)
	}
	r.run()
	n.want("all wait for the first")
	r.publish(eventOf{})
	r.jobs.hold = false
	r.run()
	var order []string
	for _, answer := range n.got() {
		if strings.HasPrefix(answer, "created") {
			order = append(order, answer)
		}
	}
	want := "[created sub_1 complete created sub_2 created sub_3 complete created sub_4 created sub_5 complete created sub_6]"
	if fmt.Sprint(order) != want {
		t.Errorf("B51: %v, want %s", order, want)
	}
	r.publish(eventOf{})
	r.run()
	if got := n.got(); len(got) != 6 {
		t.Errorf("event 12 came as %q, want it for all six", got)
	}
}

// A connection that closes while the log is asked hears nothing more, and what
// the log answers is dropped (B45).
func TestClosedWhileAsking(t *testing.T) {
	r := newFeedRig(t, feedConfig{keep: 6, tail: 2})
	r.publishMany(10, eventOf{})
	r.jobs.hold = true
	n := r.open().subscribe(fromCursor("e6:6"), all)
	n.f.closed(n)
	r.jobs.hold = false
	r.run()
	n.want("B45")
	n.subscribe(all)
	n.want("B41: nothing is answered behind the end")
}

// B52, case 31: nothing is lost or sent twice between replay and live, whatever
// is published meanwhile.
func TestReplayThenLive(t *testing.T) {
	for _, tail := range []int{1 << 12, 64} {
		r := newFeedRig(t, feedConfig{tail: tail})
		r.publishMany(500, eventOf{size: 100})
		n := r.open()
		n.only(2000)
		n.subscribe(fromCursor("e100:100"))
		for i := range 1000 {
			r.publish(eventOf{})
			n.Room(i % 700)
			r.run()
		}
		n.Room(-1)
		r.run()
		got := n.got()
		want := listOf(one("created sub_1 complete"), numbers(101, 500), one("replayed sub_1 e100:100 e500:500 400"), numbers(501, 1500))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("B52 with a tail of %d: got %d messages, want %d: %.300q", tail, len(got), len(want), got)
		}
	}
}

// B52: a replay passes over what the filter does not select.
func TestFilteredReplay(t *testing.T) {
	for _, tail := range []int{1 << 12, 8} {
		r := newFeedRig(t, feedConfig{tail: tail})
		for i := range 3000 {
			e := eventOf{}
			if i%1000 == 0 {
				e.source = "agent:rare"
			}
			r.publish(e)
		}
		n := r.open().subscribe(`{"source":"agent:rare","from_cursor":"e1:1"}`)
		n.want("B52", "created sub_1 complete", "1001", "2001", "replayed sub_1 e1:1 e2001:2001 2")
	}
}

// B53, case 32: nothing follows the confirmation; unknown ids are harmless.
func TestCancel(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	n := r.open().subscribed(all, all)
	r.publish(eventOf{})
	n.cancel("sub_1")
	r.publish(eventOf{})
	r.run()
	n.want("B53: what was committed before may still have come", "cancelled sub_1", "1 sub_2", "2 sub_2")
	n.cancel("sub_1")
	n.cancel("sub_9")
	n.want("B53: ended and unknown", "refused q2 subscription_error", "refused q2 subscription_error")
	n.only(0)
	r.publishMany(10, eventOf{})
	r.run()
	n.cancel("sub_2")
	n.Room(-1)
	r.run()
	got := n.got()
	if len(got) == 0 || got[len(got)-1] != "cancelled sub_2" || len(got) > 2 {
		t.Errorf("B53: a subscription that was behind ended with %q", got)
	}
	if c := r.hub.counts.subscriptions.Load(); c != 0 {
		t.Errorf("%d subscriptions are counted", c)
	}
}

// B54: at its time a subscription ends, live or behind.
func TestExpires(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	at := r.clock.Now().Add(2 * time.Second)
	filter := fmt.Sprintf(`{"types":"*","expires_at":%q}`, at.Format(time.RFC3339Nano))
	a, b := r.open().subscribe(filter, all), r.open()
	stamp := at.UTC().Format("2006-01-02T15:04:05.000Z")
	a.want("B54: created tells it", "created sub_1 "+stamp, "created sub_2")
	b.only(600)
	b.subscribe(filter)
	r.publishMany(5, eventOf{size: 200})
	r.passTime(1900 * time.Millisecond)
	a.cancel("sub_2")
	a.got()
	r.passTime(200 * time.Millisecond)
	r.publish(eventOf{})
	r.run()
	a.want("B54: nothing follows", "expired sub_1")
	b.Room(-1)
	r.run()
	got := b.got()
	if last := len(got) - 1; last < 0 || got[last] != "expired sub_1" {
		t.Errorf("B54: one that was behind ended with %q", got)
	}
}

// B61, case 39: what has expired is not delivered, live, later or in a replay.
func TestExpiredEvents(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	n, slow := r.open().subscribed(all), r.open().subscribed(reliable)
	r.publish(eventOf{expires: -time.Second}, eventOf{}, eventOf{expires: time.Hour})
	r.run()
	n.want("B61: live", "2", "3")
	slow.want("B61: live", "2 at_least_once", "3 at_least_once")
	slow.only(10)
	r.publish(eventOf{}, eventOf{expires: time.Minute}, eventOf{})
	r.run()
	n.want("B61: not yet", "4", "5", "6")
	r.passTime(time.Second)
	r.clock.Jump(2 * time.Minute)
	r.clock.Fire()
	slow.f.acknowledge(slow, &codec.AckRequest{EventID: []byte("e2")})
	slow.f.acknowledge(slow, &codec.AckRequest{EventID: []byte("e3")})
	slow.f.acknowledge(slow, &codec.AckRequest{EventID: []byte("e4")})
	slow.Room(-1)
	r.run()
	slow.want("B61: it expired while it was owed", "4 at_least_once", "6 at_least_once")
	r.open().subscribe(fromNothing).want("B61: a replay", "created sub_1 complete", "2", "3", "4", "6", "replayed sub_1 x:0 e6:6 4")
}

// The number of subscriptions of a session is bounded, those that wait included,
// and so are the bytes of what waits.
func TestSubscriptionBounds(t *testing.T) {
	r := newFeedRig(t, feedConfig{subs: 3, keep: 6, tail: 2})
	r.publishMany(10, eventOf{})
	n := r.open().subscribe(all, all, all, all)
	n.want("the fourth", "created sub_1", "created sub_2", "created sub_3", "rejected subscription_rejected")
	n.cancel("sub_2")
	n.got()
	r.jobs.hold = true
	n.subscribe(fromCursor("e6:6"), all)
	n.want("one waits and counts", "rejected subscription_rejected")
	r.jobs.hold = false
	r.run()
	if got := n.got(); len(got) == 0 || got[0] != "created sub_4 complete" {
		t.Errorf("B50: ids are not given twice: %q", got)
	}

	m := r.open()
	r.jobs.hold = true
	pad := fmt.Sprintf(`{"from_cursor":"e6:6","note":%q}`, strings.Repeat("n", maxAskingBytes/3))
	m.subscribe(pad, pad, pad)
	m.want("bytes that wait", "rejected subscription_rejected")
	if got := m.kept.asked; got > maxAskingBytes+100 {
		t.Errorf("%d bytes wait", got)
	}
	r.jobs.hold = false
	r.run()
	if m.kept.asked != 0 || len(m.kept.asking) != 0 || len(m.kept.list) != 2 {
		t.Errorf("%d bytes and %d requests are left", m.kept.asked, len(m.kept.asking))
	}
}

// Reads of the log are bounded, and come when the job pool has room again.
func TestReadsAreBounded(t *testing.T) {
	r := newFeedRig(t, feedConfig{before: 50})
	r.jobs.limit = 2
	var list []*line
	for range 20 {
		list = append(list, r.open())
	}
	for _, n := range list {
		n.ask(fromCursor("e1:1"))
	}
	if r.jobs.most > 2 || r.hub.feeds[0].reads > maxReads {
		t.Errorf("%d jobs, %d reads", r.jobs.most, r.hub.feeds[0].reads)
	}
	for range 40 {
		r.run()
		r.passTime(readRetry)
	}
	for i, n := range list {
		n.want(fmt.Sprint("line ", i), listOf(one("created sub_1 complete"), numbers(2, 50), one("replayed sub_1 e1:1 e50:50 49"))...)
	}
	r.jobs.limit = 0
	r.jobs.hold = true
	for range 20 {
		r.open().ask(fromCursor("e1:1"))
	}
	if n := len(r.jobs.queue); n != maxReads {
		t.Errorf("%d reads are under way, want %d", n, maxReads)
	}
	r.jobs.hold = false
}

// A pool that is closed ends the reads: the relay is going down.
func TestClosedJobs(t *testing.T) {
	r := newFeedRig(t, feedConfig{before: 5})
	r.jobs.closed = true
	n := r.open().subscribe(fromCursor("e1:1"))
	n.want("nothing can be answered")
	if err := r.jobs.Submit(nil, nil); !errors.Is(err, loop.ErrJobsClosed) {
		t.Fatal(err)
	}
}

// When the log cannot be read requests are refused, and subscriptions end with a
// retryable error rather than wait.
func TestLogFails(t *testing.T) {
	r := newFeedRig(t, feedConfig{before: 600, tail: 16})
	r.log.fail = errDisk
	r.open().subscribe(fromCursor("e1:1")).want("the cursor cannot be checked", "rejected internal_error")
	r.log.fail = nil
	n := r.open()
	n.only(30_000)
	n.subscribe(fromCursor("e1:1"))
	r.log.fail = errDisk
	n.Room(-1)
	r.run()
	got := n.got()
	last := got[len(got)-1]
	if want := fmt.Sprint("expired sub_1 internal_error e", len(got)-1, ":", len(got)-1); last != want {
		t.Errorf("got %s, want %s", last, want)
	}
	if r.hub.counts.failed.Load() != 2 {
		t.Errorf("%d failures are counted", r.hub.counts.failed.Load())
	}
}

// B41, B45: subscriptions end with the connection, without a word.
func TestClosed(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	n := r.open().subscribed(all, reliable, letters)
	m := r.open().subscribed(all)
	r.publish(eventOf{})
	r.run()
	n.got()
	n.f.closed(n)
	n.f.closed(n)
	r.publish(eventOf{})
	r.passTime(40 * time.Second)
	n.want("B41")
	m.want("B45: the others go on", "1", "2")
	if n.unacked.used != 0 || len(r.hub.feeds[0].named) != 0 {
		t.Errorf("%d unacknowledged, %d named", n.unacked.used, len(r.hub.feeds[0].named))
	}
}
