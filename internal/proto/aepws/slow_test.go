package aepws

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// B60, case 38: a live best_effort subscription that owes more than the send
// queue has skips its oldest, wherever they are by then, and is told how many.
// One that wishes no mode is best_effort as long as the events are.
func TestDropped(t *testing.T) {
	for _, filter := range []string{all, bestEffort} {
		for _, tail := range []int{1 << 12, 64, 4} {
			r := newFeedRig(t, feedConfig{sendQueue: 10, tail: tail})
			n := r.open().subscribed(filter)
			what := fmt.Sprintf("B60: %s with a tail of %d", filter, tail)
			n.only(0)
			r.publishMany(11, eventOf{})
			r.run()
			n.Room(-1)
			r.run()
			n.want(what+": one is under way, ten are owed", numbers(1, 11)...)
			n.only(0)
			r.publishMany(1000, eventOf{})
			r.run()
			n.Room(-1)
			r.run()
			n.want(what, listOf(one("12", "1002 dropped=989"), numbers(1003, 1011))...)
			r.publish(eventOf{})
			r.run()
			n.want(what+": it is live again", "1012")
			if got := r.hub.counts.dropped.Load(); got != 989 {
				t.Errorf("%s: %d are counted", what, got)
			}
		}
	}
}

// B60: a filter that selects few events owes few, however many there were.
func TestSparseIsNotDropped(t *testing.T) {
	for _, tail := range []int{1 << 12, 16} {
		r := newFeedRig(t, feedConfig{sendQueue: 10, tail: tail})
		n := r.open().subscribed(`{"types":"*","source":"agent:rare"}`)
		n.only(0)
		for i := range 3000 {
			e := eventOf{}
			if i%300 == 0 {
				e.source = "agent:rare"
			}
			r.publish(e)
			r.run()
		}
		n.Room(-1)
		r.run()
		n.want("B60", "1", "301", "601", "901", "1201", "1501", "1801", "2101", "2401", "2701")
	}
}

// B60: the mode of what is owed decides when the subscription wishes none: up to
// the last event that has to be acknowledged nothing is dropped.
func TestFirmIsNotDropped(t *testing.T) {
	for _, tail := range []int{1 << 12, 16} {
		r := newFeedRig(t, feedConfig{sendQueue: 10, tail: tail})
		n := r.open().subscribed(all)
		n.only(0)
		r.publishMany(50, eventOf{})
		r.publish(eventOf{mode: "at_least_once"})
		r.publishMany(50, eventOf{})
		r.run()
		n.Room(-1)
		r.run()
		n.want("B60", listOf(numbers(1, 50), one("51 at_least_once"), numbers(52, 65), one("92 dropped=26"), numbers(93, 101))...)
	}
}

// B60: best_effort that was skipped and whose remaining events expired is told
// with the next one.
func TestDroppedIsToldLater(t *testing.T) {
	r := newFeedRig(t, feedConfig{sendQueue: 5})
	n := r.open().subscribed(all)
	n.only(0)
	r.publishMany(20, eventOf{expires: time.Second})
	r.run()
	r.passTime(2 * time.Second)
	n.Room(-1)
	r.run()
	n.want("B61", "1")
	r.publish(eventOf{})
	r.run()
	n.want("B60", "21 dropped=14")
	r.publish(eventOf{})
	r.run()
	n.want("B60", "22")
}

// B60: a replay never drops anything, in any mode, and what a best_effort one
// owes after it is live again.
func TestReplayDropsNothing(t *testing.T) {
	r := newFeedRig(t, feedConfig{sendQueue: 5, before: 100, tail: 16})
	n := r.open()
	n.only(700)
	n.subscribe(`{"from_cursor":"e1:1","delivery_mode":"best_effort"}`)
	r.publishMany(100, eventOf{})
	r.run()
	n.Room(-1)
	r.run()
	n.want("B60", listOf(one("created sub_1 complete"), numbers(2, 100), one("replayed sub_1 e1:1 e100:100 99"),
		one("196 dropped=95"), numbers(197, 200))...)
}

// B60: the other modes read from the log at their own pace, and end when their
// next event has left it; they are told where they were.
func TestTooSlow(t *testing.T) {
	for _, tail := range []int{1 << 12, 4} {
		r := newFeedRig(t, feedConfig{keep: 100, sendQueue: 5, tail: tail})
		n := r.open().subscribed(reliable)
		n.only(0)
		r.publishMany(90, eventOf{})
		r.run()
		n.Room(-1)
		r.run()
		n.want("B60: its own pace", numbers(1, 90, " at_least_once")...)
		for i := range 90 {
			n.ack(fmt.Sprint("e", i+1))
		}
		n.only(0)
		for range 102 {
			r.publish(eventOf{})
			r.run()
		}
		r.passTime(2 * sweepInterval)
		n.Room(-1)
		r.run()
		n.want("B60", "91 at_least_once", "expired sub_1 subscription_error consumer_too_slow e91:91")
		n.cancel("sub_1")
		n.want("B53: it has ended", "refused q2 subscription_error")
		if r.hub.counts.tooSlow.Load() != 1 {
			t.Error("it is not counted")
		}
	}
}

// B60: who does not acknowledge while its next event leaves the log is told so
// though its socket has room.
func TestTooSlowWhilePaused(t *testing.T) {
	r := newFeedRig(t, feedConfig{keep: 20, retry: retryPolicy{ackTimeout: time.Hour, unacked: 5, attempts: 3}})
	n := r.open().subscribed(reliable)
	r.publishMany(25, eventOf{})
	r.run()
	n.want("B60", numbers(1, 5, " at_least_once")...)
	r.publishMany(1, eventOf{})
	r.passTime(2 * sweepInterval)
	n.want("B60", "expired sub_1 subscription_error consumer_too_slow e5:5")
}

// B60: a replay whose next event leaves the log ends as well.
func TestReplayTooSlow(t *testing.T) {
	r := newFeedRig(t, feedConfig{keep: 100, before: 100, tail: 4})
	n := r.open()
	n.only(2000)
	n.subscribe(fromCursor("e1:1"))
	r.publishMany(100, eventOf{})
	r.run()
	n.Room(-1)
	r.run()
	got := n.got()
	last := len(got) - 1
	if want := fmt.Sprintf("expired sub_1 subscription_error consumer_too_slow e%d:%d", last, last); got[last] != want || last < 3 {
		t.Errorf("B60: %q, want %q at the end", got, want)
	}
}

// B51, B60: a best_effort subscription whose oldest events have left the log is
// told how many it was spared.
func TestDroppedBeyondTheLog(t *testing.T) {
	for _, tail := range []int{1 << 12, 16} {
		r := newFeedRig(t, feedConfig{keep: 8, sendQueue: 10, tail: tail})
		n := r.open().subscribed(`{"types":"*","source":"agent:rare"}`)
		n.only(0)
		for i := range 200 {
			e := eventOf{}
			if i%25 == 0 {
				e.source = "agent:rare"
			}
			r.publish(e)
			r.run()
		}
		n.Room(-1)
		r.run()
		if tail > 16 {
			n.want("B60: what is in memory is sent", "1", "26", "51", "76", "101", "126", "151", "176")
			continue
		}
		n.want("B60: the rest is gone", "1")
		r.publish(eventOf{source: "agent:rare"})
		r.run()
		n.want("B60", "201 dropped=7")
	}
}

// Case 38: what a subscriber costs that does not read is one frame, however much
// is published, and the others get everything meanwhile.
func TestStalledCostNothing(t *testing.T) {
	r := newFeedRig(t, feedConfig{tail: 256, sendQueue: 100})
	good := r.open().subscribed(all)
	good.Forget = true
	var stalled []*line
	for i := range 60 {
		n := r.open().subscribed([]string{all, reliable, bestEffort}[i%3])
		n.only(50)
		stalled = append(stalled, n)
	}
	for range 200 {
		r.publishMany(50, eventOf{size: 100})
		r.run()
	}
	if got := r.hub.counts.delivered.Load(); got < 10_000 || got > 10_000+200 {
		t.Errorf("%d deliveries", got)
	}
	for i, n := range stalled {
		if owed := n.conn.QueuedBytes(); owed > 450 {
			t.Errorf("line %d owes %d bytes", i, owed)
		}
		if n.unacked != nil && n.unacked.used > 1 {
			t.Errorf("line %d: %d unacknowledged", i, n.unacked.used)
		}
	}
	if n := len(r.hub.feeds[0].behind); n != 60 {
		t.Errorf("%d are behind", n)
	}
	for _, n := range stalled {
		n.Room(-1)
	}
	r.run()
	for i, n := range stalled {
		got := strings.Join(n.got(), ",")
		if i%3 != 1 && !strings.HasPrefix(got, "1,9901 dropped=9899,") {
			t.Errorf("B60: line %d got %.100s", i, got)
		}
	}
}

// A loop that is late by more than the tail holds reads from the log what it has
// to pass over, and all is delivered as ever.
func TestLateLoop(t *testing.T) {
	r := newFeedRig(t, feedConfig{tail: 8})
	n, b := r.open().subscribed(reliable), r.open().subscribed(`{"types":"*","source":"agent:b"}`)
	m := r.open()
	m.only(300)
	m.subscribe(fromNothing)
	r.publishMany(400, eventOf{})
	r.publish(eventOf{source: "agent:b"})
	r.publishMany(400, eventOf{})
	r.run()
	n.want("late", numbers(1, 801, " at_least_once")...)
	b.want("late", "401")
	m.Room(-1)
	r.run()
	m.want("late and behind", listOf(one("created sub_1 complete", "replayed sub_1 x:0 0"), numbers(1, 801))...)
}

// Events that left the log before the loop came to them end the subscriptions
// that waited for them: nobody knows what they have missed.
func TestLoopTooLate(t *testing.T) {
	r := newFeedRig(t, feedConfig{tail: 8, keep: 20})
	n := r.open().subscribed(all)
	r.publish(eventOf{})
	r.run()
	r.publishMany(100, eventOf{})
	m := r.open()
	m.ask(all)
	r.publish(eventOf{})
	r.run()
	n.want("B60", "1", "expired sub_1 subscription_error consumer_too_slow e1:1")
	m.want("made later", "created sub_1", "102")
}

// A log that cannot be read while a loop is late is asked until it can.
func TestLateLoopAndFailingLog(t *testing.T) {
	r := newFeedRig(t, feedConfig{tail: 8})
	n := r.open().subscribed(all)
	r.log.fail = errDisk
	r.publishMany(100, eventOf{})
	r.run()
	n.want("nothing yet")
	r.log.fail = nil
	r.passTime(3 * readRetry)
	n.want("then all", numbers(1, 100)...)
}
