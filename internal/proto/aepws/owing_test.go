package aepws

import (
	"fmt"
	"strings"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
)

// quickRetry repeats after 1 s and 1.5 s, and gives up 1 s after that.
var quickRetry = retryPolicy{ackTimeout: time.Second, backoff: 250 * time.Millisecond, maxBackoff: time.Second, attempts: 3}

// B58, case 37: what is never acknowledged is sent three times, announced each
// time but the first, and then becomes one dead letter for those who name it.
func TestNeverAcknowledged(t *testing.T) {
	for _, tail := range []int{1 << 10, 2} {
		r := newFeedRig(t, feedConfig{loops: 2, retry: quickRetry, tail: tail})
		n := r.openOf("t1").subscribed(reliable)
		named := r.openOf("t1", 1).subscribed(letters)
		r.openOf("t1", 1).subscribed(bestEffort, `{"types":"event.*"}`, `{"types":"event.dead_lettered","topic":"x"}`)
		stranger := r.open(1).subscribed(letters)
		r.publish(eventOf{tenant: "t1", mode: "at_least_once"})
		r.run()
		n.want("the first send", "1 at_least_once")
		r.publishMany(8, eventOf{})
		r.passTime(1200 * time.Millisecond)
		n.want("not yet")
		r.passTime(2 * dueTick)
		n.want("B58", "redelivered sub_1 e1 2", "1 at_least_once attempt=2")
		r.passTime(1400 * time.Millisecond)
		n.want("the backoff doubles")
		r.passTime(2 * dueTick)
		n.want("B58", "redelivered sub_1 e1 3", "1 at_least_once attempt=3")
		named.want("no dead letter yet")
		r.passTime(1100 * time.Millisecond)
		n.want("B58: it stops")
		named.want("B58", "dead sub_1 e1 3 subscription_error max_attempts t1")
		stranger.want("B46: of another tenant")
		r.lines[2].want("B28, B58: only who names it exactly", "1")
		r.passTime(time.Minute)
		n.want("B58: it stops")
		if len(r.log.letters) != 1 {
			t.Fatalf("B58: %d dead letters are stored", len(r.log.letters))
		}
		d := r.log.letters[0]
		if d.Tenant != "t1" || d.Original != "e1" || d.OriginalSeq != 1 || d.Subscription != "sub_1" ||
			!strings.HasPrefix(d.ID, "evt_") || !strings.Contains(string(d.Text), `"id":"`+d.ID+`"`) {
			t.Errorf("B58: stored as %+v", d)
		}
		if want := `"delivery":{"mode":"at_least_once"}}}}`; !strings.HasSuffix(string(d.Text), want) {
			t.Errorf("B58: the original is not as published: %s", d.Text)
		}
	}
}

// B58, B59: what is acknowledged is not sent again, whenever that comes; twice,
// late and unknown acknowledgements change nothing.
func TestAcknowledged(t *testing.T) {
	r := newFeedRig(t, feedConfig{retry: quickRetry})
	n := r.open().subscribed(reliable, reliable)
	r.publish(eventOf{}, eventOf{}, eventOf{})
	r.run()
	n.got()
	n.ack("e1", "e1", "nobody")
	n.f.acknowledge(n, &codec.AckRequest{EventID: []byte("e2"), SubscriptionID: []byte("sub_2")})
	n.f.acknowledge(n, &codec.AckRequest{EventID: []byte("e3"), SubscriptionID: []byte("sub_9")})
	n.f.acknowledge(n, &codec.AckRequest{EventID: []byte("e3"), HasCursor: true, CursorID: []byte("e3"), CursorSequence: 3})
	if n.unacked.used != 1 {
		t.Errorf("B58: %d are unacknowledged, want 1", n.unacked.used)
	}
	r.passTime(1350 * time.Millisecond)
	n.want("B58", "redelivered sub_1 e2 2", "2 at_least_once attempt=2")
	n.ack("e2")
	r.passTime(time.Minute)
	n.want("B59: acknowledged after the second send")
	if n.unacked.used != 0 || n.unacked.slots != nil {
		t.Errorf("%d are unacknowledged, %d slots are kept", n.unacked.used, len(n.unacked.slots))
	}
}

// B58: an acknowledgement that comes before the event could be sent again, since
// the socket was full or the log was read, is in time.
func TestAcknowledgedWhileWaiting(t *testing.T) {
	for _, tail := range []int{1 << 10, 2} {
		r := newFeedRig(t, feedConfig{retry: quickRetry, tail: tail})
		n := r.open().subscribed(`{"source":"agent:a","delivery_mode":"replayable"}`)
		r.publish(eventOf{mode: "replayable"})
		r.run()
		n.want("B58", "1 replayable")
		r.publishMany(10, eventOf{source: "other"})
		r.run()
		r.jobs.hold = true
		r.passTime(2 * time.Second)
		if tail > 2 {
			n.want("from memory", "redelivered sub_1 e1 2", "1 replayable attempt=2")
			continue
		}
		n.want("the log is still read")
		n.ack("e1")
		r.jobs.hold = false
		r.run()
		n.want("B59: it came in time")
	}
}

// B58: a rejection is final at once and tells the subscriber's error; others that
// were sent the event go on. At most one dead letter a second is made.
func TestRejections(t *testing.T) {
	r := newFeedRig(t, feedConfig{retry: quickRetry, tail: 2})
	n := r.open().subscribed(reliable, reliable)
	named := r.open().subscribed(letters)
	r.publish(eventOf{}, eventOf{}, eventOf{})
	r.publish(eventOf{source: "other"})
	r.run()
	n.got()
	first := []byte("sub_1")
	n.f.reject(n, &codec.RejectRequest{EventID: []byte("e1"), SubscriptionID: first, Error: []byte(`{"code":"unauthorized","message":"m","retryable":false}`)})
	n.f.reject(n, &codec.RejectRequest{EventID: []byte("e2"), SubscriptionID: first})
	n.f.reject(n, &codec.RejectRequest{EventID: []byte("e2"), SubscriptionID: first})
	n.f.reject(n, &codec.RejectRequest{EventID: []byte("nobody")})
	n.f.reject(n, &codec.RejectRequest{})
	r.run()
	named.want("B58", "dead sub_1 e1 1 unauthorized")
	if made, unmade := r.hub.counts.letters.Load(), r.hub.counts.unmade.Load(); made != 1 || unmade != 1 {
		t.Errorf("B58: %d dead letters are made and %d counted, want 1 and 1", made, unmade)
	}
	r.passTime(time.Second)
	n.f.reject(n, &codec.RejectRequest{EventID: []byte("e3")})
	r.run()
	if got := named.got(); len(got) != 2 {
		t.Errorf("B58: all subscriptions that were sent it: %q", got)
	}
	n.ack("e1", "e2", "e4")
	if n.unacked.used != 0 {
		t.Errorf("%d are unacknowledged", n.unacked.used)
	}
}

// B58: a dead letter that the log does not take is counted.
func TestLetterFails(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	n, named := r.open().subscribed(reliable), r.open().subscribed(letters)
	r.publish(eventOf{})
	r.run()
	r.log.fail = errDisk
	n.f.reject(n, &codec.RejectRequest{EventID: []byte("e1")})
	r.run()
	named.want("B58")
	if r.hub.counts.unmade.Load() != 1 {
		t.Error("it is not counted")
	}
}

// B58: a dead letter does not wait in memory for who does not read.
func TestUnheardLetters(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	n, named := r.open().subscribed(reliable), r.open().subscribed(letters)
	named.only(10)
	for i := range int64(20) {
		r.publish(eventOf{size: 50_000})
		r.run()
		n.f.reject(n, &codec.RejectRequest{EventID: fmt.Appendf(nil, "e%d", i+1)})
		r.passTime(time.Second)
	}
	if owed := named.conn.QueuedBytes(); owed > maxUnheard+60_000 {
		t.Errorf("%d bytes of dead letters wait", owed)
	}
	if heard := 20 - r.hub.counts.unheard.Load(); heard < 5 || heard > 7 {
		t.Errorf("%d dead letters were sent", heard)
	}
}

// B60: a session is sent at most so many unacknowledged events, over all of its
// subscriptions; what follows waits, and nothing is dropped.
func TestPause(t *testing.T) {
	for _, tail := range []int{1 << 10, 2} {
		r := newFeedRig(t, feedConfig{tail: tail, retry: retryPolicy{ackTimeout: time.Hour, attempts: 3, unacked: 5}})
		n := r.open().subscribed(reliable)
		m := r.open().subscribed(reliable, reliable)
		for range 12 {
			r.publish(eventOf{})
			r.run()
		}
		n.want("B60", numbers(1, 5, " at_least_once")...)
		m.got()
		if m.unacked.used != 5 {
			t.Errorf("B60: two subscriptions were sent %d", m.unacked.used)
		}
		r.publish(eventOf{mode: "best_effort"})
		r.run()
		n.want("in order: nothing overtakes")
		n.ack("e3", "e1")
		n.want("B60", numbers(6, 7, " at_least_once")...)
		n.ack("e2", "e4", "e5", "e6", "e7")
		n.want("B60, B57: a best_effort event needs no room", listOf(numbers(8, 12, " at_least_once"), one("13"))...)
		n.ack("e8")
		for i := range 13 {
			m.ack(fmt.Sprint("e", i+1))
		}
		r.publish(eventOf{})
		r.run()
		n.want("it is live again", "14 at_least_once")
		seen := map[string]int{}
		for _, text := range m.got() {
			seen[text]++
		}
		if m.unacked.used > 5 {
			t.Errorf("B60: %d", m.unacked.used)
		}
	}
}

// B58, B60: an event that has left the log before it is sent again ends the
// subscription.
func TestEvictedBeforeAgain(t *testing.T) {
	for _, tail := range []int{1 << 10, 2} {
		r := newFeedRig(t, feedConfig{keep: 5, tail: tail, retry: quickRetry})
		n := r.open().subscribed(`{"source":"agent:a","delivery_mode":"at_least_once"}`)
		r.publish(eventOf{}, eventOf{})
		r.run()
		r.publishMany(4, eventOf{source: "other"})
		r.run()
		n.want("B58", "1 at_least_once", "2 at_least_once")
		r.passTime(3 * time.Second)
		n.want("B58", "expired sub_1 subscription_error consumer_too_slow e2:2")
		if n.unacked.used != 0 {
			t.Errorf("%d are unacknowledged", n.unacked.used)
		}
	}
}

// B58, B61: an event that has expired is not sent again, nor a dead letter.
func TestExpiredBeforeAgain(t *testing.T) {
	r := newFeedRig(t, feedConfig{retry: quickRetry})
	n := r.open().subscribed(reliable)
	r.publish(eventOf{expires: 500 * time.Millisecond})
	r.run()
	n.want("B58", "1 at_least_once")
	r.passTime(time.Minute)
	n.want("B61")
	if n.unacked.used != 0 || len(r.log.letters) != 0 {
		t.Errorf("%d unacknowledged, %d dead letters", n.unacked.used, len(r.log.letters))
	}
}

// B58: what is due waits for a socket that takes nothing, and a replay is subject
// to acknowledgements as well.
func TestDueWhileStalled(t *testing.T) {
	r := newFeedRig(t, feedConfig{retry: quickRetry, before: 3})
	n := r.open().subscribe(`{"from_cursor":"e1:1","delivery_mode":"at_least_once"}`)
	n.want("B52", "created sub_1 complete", "2 at_least_once", "3 at_least_once", "replayed sub_1 e1:1 e3:3 2")
	n.only(0)
	r.publish(eventOf{})
	r.passTime(2 * time.Second)
	if owed := n.conn.QueuedBytes(); owed > 300 {
		t.Errorf("B58: %d bytes are owed to a socket that takes nothing", owed)
	}
	n.Room(-1)
	r.run()
	n.want("B58", "4 at_least_once", "redelivered sub_1 e2 2", "2 at_least_once attempt=2",
		"redelivered sub_1 e3 2", "3 at_least_once attempt=2", "redelivered sub_1 e4 2", "4 at_least_once attempt=2")
}
