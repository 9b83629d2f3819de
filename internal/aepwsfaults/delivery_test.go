package aepwsfaults

import (
	"fmt"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestDeadLetter: hard case 37: a subscriber never acknowledges: three sends, two
// event.redelivered, and one dead letter for those who name it. Others go on.
func TestDeadLetter(t *testing.T) {
	p := start(t, t.TempDir(), "AEPWS_ACK_TIMEOUT_MS=500", "AEPWS_BACKOFF_MS=50", "AEPWS_MAX_ATTEMPTS=3")
	pub := join(t, p.Addr, "publisher")
	undertaker := join(t, p.Addr, "undertaker")
	undertaker.mustSubscribe(t, `{"types":"event.dead_lettered"}`)
	good := mustFollow(t, p.Addr, "good", filterFrom("", "at_least_once"))
	good.letRepeat() // on a machine so busy that its answer takes half a second
	mute := join(t, p.Addr, "mute")
	id := mute.mustSubscribe(t, filterFrom("", "at_least_once")).Payload.Subscription
	n := pub.mustPublish(t, plain("e"))
	sent := fmt.Sprint("task.progress e ", n)
	mute.want(t, "case 37", sent)
	for attempt := 2; attempt <= 3; attempt++ {
		e := mute.want(t, "case 37", "event.redelivered")
		if p := e.Payload; p.Original != "e" || p.Attempt != attempt || p.Subscription != id {
			t.Errorf("case 37: %+v", p)
		}
		if e := mute.want(t, "case 37", sent); e.Delivery.Attempt != attempt {
			t.Errorf("case 37: attempt %d, want %d", e.Delivery.Attempt, attempt)
		}
	}
	if e := undertaker.must(t); e.Type != "event.dead_lettered" || e.Payload.Original != "e" || e.Payload.Attempts != 3 {
		t.Errorf("case 37: %v %+v", e, e.Payload)
	}
	last := pub.mustPublish(t, plain("last"))
	mute.want(t, "B58", fmt.Sprint("task.progress last ", last))
	await(t, "the last event", func() bool { return good.last() == last })
	good.stop()
	wantRun(t, "who acknowledges", good.end(t), n, last)
	healthy(t, p)
}

// TestExpired: hard case 39: an event that has expired is acknowledged, and neither
// delivered nor replayed, after a restart neither.
func TestExpired(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir)
	pub := join(t, p.Addr, "publisher")
	live := mustFollow(t, p.Addr, "live", filterFrom("", ""))
	d := plain("late")
	d.expires = "2020-01-01T00:00:00Z"
	if n := pub.mustPublish(t, d); n != 1 {
		t.Errorf("number %d", n)
	}
	pub.mustPublish(t, plain("next"))
	await(t, "the next event", func() bool { return live.last() == 2 })
	live.stop()
	wantRun(t, "case 39", live.end(t), 2, 2)
	stop(t, p)
	p = start(t, dir)
	wantRun(t, "case 39, replayed", whole(t, p.Addr, 2), 2, 2)
}

// TestStalled: hard case 38: subscribers that read nothing, or little, while
// 100,000 events flow. All are acknowledged, the relay's memory stays far below
// what the subscribers are owed together, and another reader gets everything. Those
// that read little are, if best_effort, told how much they have missed, and miss
// nothing if at_least_once.
func TestStalled(t *testing.T) {
	const rounds, events, padBytes, stalled = 100, 1000, 200, 20
	p := start(t, t.TempDir(), "SLUICE_SEND_BUFFER=16384", "AEPWS_ACK_TIMEOUT_MS=3600000")
	small := relaytest.WSOptions{RecvBytes: 4096}
	subscribe := func(name, mode string) *agent {
		a := joinWith(t, p.Addr, name, small)
		a.mustSubscribe(t, filterFrom("", mode))
		return a
	}
	for i := range stalled { // the relay may cut them while they take nothing
		subscribe(fmt.Sprint("lossy", i), "best_effort")
		subscribe(fmt.Sprint("careful", i), "at_least_once")
	}
	lossy := &slow{a: subscribe("lossy", "best_effort")}
	careful := &slow{a: subscribe("careful", "at_least_once")}
	reader := mustFollow(t, p.Addr, "reader", filterFrom("", "at_least_once"))
	pub := join(t, p.Addr, "publisher")
	last := int64(0)
	for round := range rounds {
		_, last = pub.mustPublishMany(t, fmt.Sprint("e", round, "-"), events, padBytes)
		for range events / 30 {
			lossy.take(t)
			careful.take(t)
		}
	}
	await(t, "all events", func() bool { return reader.last() == last })
	reader.stop()
	wantRun(t, "who reads", reader.end(t), 1, rounds*events)
	_, peak, err := p.Memory()
	if err != nil {
		t.Fatal(err)
	}
	owed := int64(2*stalled) * rounds * events * padBytes
	t.Logf("at most %d MiB of memory, %d MiB were owed", peak>>20, owed>>20)
	if peak > 512<<20 || owed < peak+256<<20 {
		t.Errorf("B60: %d bytes of memory, %d owed", peak, owed)
	}
	for lossy.n < last {
		lossy.take(t)
	}
	for careful.n < last {
		careful.take(t)
	}
	t.Logf("best_effort: %d events and %d dropped", lossy.got, lossy.dropped)
	if lossy.got+lossy.dropped != last || lossy.dropped == 0 {
		t.Errorf("B60: %d events and %d dropped, want %d together", lossy.got, lossy.dropped, last)
	}
	if careful.got != last || careful.dropped != 0 {
		t.Errorf("B60: at_least_once got %d events, and %d dropped", careful.got, careful.dropped)
	}
	healthy(t, p)
}

// slow reads a subscription of all types one event at a time.
type slow struct {
	a            *agent
	n            int64 // the last number
	got, dropped int64
}

// take reads and acknowledges one event. None is missing without a word.
func (s *slow) take(t *testing.T) {
	t.Helper()
	e := s.a.must(t)
	if !e.isDomain() || e.Delivery.Sequence != s.n+e.Delivery.Dropped+1 {
		t.Fatalf("B60: %v after number %d", e, s.n)
	}
	if err := s.a.acknowledge(e); err != nil {
		t.Fatal(err)
	}
	s.n = e.Delivery.Sequence
	s.got++
	s.dropped += e.Delivery.Dropped
}

// TestTooSlow: B60: what a subscriber is owed leaves the log before it reads: its
// subscription expires with its last cursor, from which it goes on with a gap that
// it is told of.
func TestTooSlow(t *testing.T) {
	p := start(t, t.TempDir(), "SLUICE_SEND_BUFFER=16384", "AEPWS_RETENTION_EVENTS=100", "AEPWS_ACK_TIMEOUT_MS=3600000")
	slow := joinWith(t, p.Addr, "slow", relaytest.WSOptions{RecvBytes: 4096})
	slow.mustSubscribe(t, filterFrom("", "replayable"))
	pub := join(t, p.Addr, "publisher")
	_, last := pub.mustPublishMany(t, "e", 5000, 1000)
	n := int64(0)
	e := slow.must(t)
	for ; e.isDomain(); e = slow.must(t) {
		if e.Delivery.Sequence != n+1 {
			t.Fatalf("K3: number %d after %d", e.Delivery.Sequence, n)
		}
		n = e.Delivery.Sequence
		if err := slow.acknowledge(e); err != nil {
			t.Fatal(err)
		}
	}
	if e.Type != "subscription.expired" || e.Payload.Error.Code != "subscription_error" || e.Payload.Error.Details.Reason != "consumer_too_slow" {
		t.Fatalf("B60: %v after number %d", e, n)
	}
	cursor := e.Payload.Error.Details.LastCursor
	if want := fmt.Sprintf("e%d:%d", n-1, n); cursor != want {
		t.Errorf("B60: last cursor %q, want %q", cursor, want)
	}
	slow.close()
	f := mustFollow(t, p.Addr, "slow", filterFrom(cursor, "replayable"))
	if r := f.created.Payload.Replay; r == nil || r.Status != "gap" {
		t.Errorf("B51: replay %+v", r)
	}
	await(t, "the last event", func() bool { return f.last() == last })
	f.stop()
	wantRun(t, "after the gap", f.end(t), last-99, last)
	healthy(t, p)
}
