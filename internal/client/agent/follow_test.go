package agent

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
)

const (
	again     = "# connection lost: the relay has ended the connection; connecting again"
	connected = "# connected, after "
)

// B31, B36, B47: what is sent to open a session and to subscribe. A filter
// without a member that is required means all types.
func TestOpening(t *testing.T) {
	f := func(o Options, want func(opened, asked heard) bool) {
		t.Helper()
		s := startScript(t, func(_ int64, w *wire) {
			opened := w.ready(aepws.Capabilities{})
			asked := w.created(nil)
			if !want(opened, asked) {
				t.Errorf("%s\n%s", opened.text, asked.text)
			}
			w.say(event(9))
			w.hold()
		})
		p := at(t, s.URL)
		p.SessionID, p.Tenant = o.SessionID, o.Tenant
		o.Peer = p
		o.Count = 1
		if err := startFollow(t, o, newCollector()).wait(t); err != nil {
			t.Error(err)
		}
	}
	f(Options{}, func(opened, asked heard) bool {
		return opened.Payload.SessionID == "" && opened.TenantID == "" && opened.Payload.Capabilities["heartbeat_interval_ms"] == 20_000 &&
			reflect.DeepEqual(asked.Payload.Types, []string{"*"}) && asked.SessionID == "sess_given" && asked.cursor() == "none"
	})
	f(Options{Peer: Peer{SessionID: "mine", Tenant: "t"}, Filter: Filter{Tasks: []string{"x"}, Mode: aepws.Replayable}, Cursor: "a:b:7"},
		func(opened, asked heard) bool {
			return opened.Payload.SessionID == "mine" && opened.TenantID == "t" && asked.SessionID == "mine" && asked.Payload.Mode == "replayable" &&
				reflect.DeepEqual(asked.Payload.Types, []string{"*"}) && reflect.DeepEqual(asked.Payload.Task, []string{"x"}) && asked.cursor() == "a:b:7"
		})
	f(Options{Filter: Filter{Targets: []string{"a", "b"}}}, func(_, asked heard) bool {
		return asked.Payload.Types == nil && reflect.DeepEqual(asked.Payload.Target, []string{"a", "b"}) && asked.Payload.Mode == ""
	})
}

// B51, B52: a cut connection is resumed behind the last event, and nothing is
// handed on twice, whatever a relay repeats.
func TestResume(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) {
		asked := w.subscribe(&aepws.Replay{})
		switch cursor := asked.cursor(); {
		case n == 1 && cursor == "none":
			w.say(event(10), event(9), event(10), event(11))
		case n == 2 && cursor == "e11:11":
			w.say(event(11), event(12), w.a.AppendReplayed(nil, w.head(""), "sub_1", "e11:11", "e12:12", 1))
		case n == 3 && cursor == "e12:12":
		case n == 4 && cursor == "e12:12":
			w.say(event(20))
			w.hold()
		default:
			t.Errorf("connection %d asks for %q", n, cursor)
		}
	})
	c := newCollector()
	r := startFollow(t, Options{Peer: at(t, s.URL)}, c)
	c.await(t, "20")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	c.want(t, "10", "# left out an event that was there already: e9:9, which came after number 10",
		"# left out an event that was there already: e10:10, which came after number 10", "11",
		again, connected+"e11:11", "# left out an event that was there already: e11:11, which came after number 11", "12",
		"# 1 event replayed, live from here", again, connected+"e12:12", again, connected+"e12:12", "20")
	if r.got != (Stats{Events: 4, NotRising: 3, Connected: 4}) {
		t.Errorf("%+v", r.got)
	}
}

// Without a cursor to resume from that is told.
func TestLostBeforeTheFirstEvent(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) {
		if asked := w.subscribe(nil); asked.cursor() != "none" {
			t.Errorf("asks for %q", asked.cursor())
		}
		if n == 2 {
			w.say(event(1))
			w.hold()
		}
	})
	c := newCollector()
	r := startFollow(t, Options{Peer: at(t, s.URL), Count: 1}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	c.want(t, again, "# connected, without a cursor to resume from: events may be missing", "1")
}

// B51, hard cases 26 to 28: a gap is told with its reason. A log that does not
// know the cursor may begin its numbers anew; one that is only shorter does not.
func TestGaps(t *testing.T) {
	f := func(r aepws.Replay, notice string, lines ...string) {
		t.Helper()
		s := startScript(t, func(n int64, w *wire) {
			w.subscribe(&r)
			w.say(event(3), event(51), event(52))
			w.hold()
		})
		c := newCollector()
		run := startFollow(t, Options{Peer: at(t, s.URL), Cursor: "e50:50"}, c)
		c.await(t, "52")
		if err := run.end(t); err != nil || run.got.Gaps != 1 {
			t.Errorf("%v, %+v", err, run.got)
		}
		c.want(t, append([]string{"# events after the cursor are missing: " + notice}, lines...)...)
	}
	left := "# left out an event that was there already: e3:3, which came after number 50"
	f(aepws.Replay{Gap: true, OldestCursor: "e51:51"}, "the oldest held is e51:51", left, "51", "52")
	f(aepws.Replay{Gap: true}, "they are not held any more", left, "51", "52")
	f(aepws.Replay{Gap: true, Reason: "cursor_unknown", OldestCursor: "e3:3"}, "cursor_unknown: the oldest held is e3:3", "3", "51", "52")
	f(aepws.Replay{Gap: true, Reason: "cursor_in_future"}, "cursor_in_future", "3", "51", "52")
}

// B58, B59: events of the reliable modes are acknowledged once they were
// flushed, again when they come again, and before an orderly end (B41).
func TestAcknowledge(t *testing.T) {
	var flushed atomic.Int64
	acks := make(chan string, 100)
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		w.say(delivered(1, "at_least_once", ""), delivered(2, "best_effort", ""), delivered(3, "replayable", ""))
		for range 2 {
			h := w.hear()
			if h.Payload.Subscription != "sub_1" || h.Payload.Cursor == "" || flushed.Load() == 0 {
				t.Errorf("%s, flushed up to %d", h.text, flushed.Load())
			}
			acks <- h.Payload.Acknowledged
		}
		w.say(w.a.AppendRedelivered(nil, w.head(""), "e1", 2, "sub_1"), delivered(1, "at_least_once", `,"attempt":2`))
		acks <- w.hear().Payload.Acknowledged
		w.say(delivered(4, "replayable", ""))
		acks <- w.hear().Payload.Acknowledged
		if h := w.hear(); h.Type != "session.closed" || h.Payload.Reason != "normal" || h.SessionID != "sess_given" {
			t.Errorf("B41: ends with %s", h.text)
		}
		close(acks)
		_ = w.Close(websocket.StatusNormalClosure, "")
	})
	c := newCollector()
	c.flush = func() error { flushed.Add(1); return nil }
	r := startFollow(t, Options{Peer: at(t, s.URL), Count: 4}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	var got []string
	for id := range acks {
		got = append(got, id)
	}
	if strings.Join(got, " ") != "e1 e3 e1 e4" {
		t.Errorf("acknowledged %v", got)
	}
	c.want(t, "1", "2", "3", "# the relay sends again: e1, attempt 2", "4")
	if r.got.Redelivered != 1 || r.got.NotRising != 1 {
		t.Errorf("%+v", r.got)
	}
}

// G1: what the sink could not flush is not acknowledged.
func TestNoAcknowledgementWithoutFlush(t *testing.T) {
	ended := make(chan string, 1)
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		w.say(delivered(1, "replayable", ""))
		ended <- w.hear().Type
	})
	c, broken := newCollector(), errors.New("broken")
	c.flush = func() error { return broken }
	if err := startFollow(t, Options{Peer: at(t, s.URL)}, c).wait(t); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got := <-ended; got != "" {
		t.Errorf("the relay gets %s", got)
	}
}

// B60: what the relay left out is told; a subscription that expires is made
// anew behind what the relay names as its last, if that is further.
func TestSlowReader(t *testing.T) {
	expired := func(w *wire, last string) []byte {
		return w.a.AppendExpired(nil, w.head(""), "sub_1", &aepws.Error{
			Code: aepws.SubscriptionError, Message: "too slow", Reason: aepws.ReasonTooSlow, LastCursor: last,
		})
	}
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		w.say(delivered(5, "", `,"dropped":3`), expired(w, "e8:8"))
		if h := w.created(&aepws.Replay{Gap: true, OldestCursor: "e12:12"}); h.cursor() != "e8:8" {
			t.Errorf("asks for %s", h.cursor())
		}
		w.say(event(12), expired(w, "e3:3"))
		if h := w.created(&aepws.Replay{}); h.cursor() != "e12:12" {
			t.Errorf("asks for %s", h.cursor())
		}
		w.say(event(13), w.a.AppendExpired(nil, w.head(""), "sub_1", nil))
		if h := w.created(&aepws.Replay{}); h.cursor() != "e13:13" {
			t.Errorf("B54: asks for %s", h.cursor())
		}
		w.say(event(14))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Peer: at(t, s.URL), Count: 4}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	const slow = "# the subscription has expired: subscription_error: consumer_too_slow: too slow; subscribing again"
	c.want(t, "# the relay left out 3 events: too slow for it", "5", slow, "# events after the cursor are missing: the oldest held is e12:12",
		"12", slow, "13", "# the subscription has expired: it came to its time; subscribing again", "14")
	if r.got != (Stats{Events: 4, Dropped: 3, Gaps: 1, Connected: 1}) {
		t.Errorf("%+v", r.got)
	}
}

// A relay that lets subscriptions expire without an event in between is left
// alone for a while.
func TestExpiresAgainAndAgain(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) {
		w.ready(aepws.Capabilities{})
		if n == 2 {
			w.created(nil)
			w.say(event(1))
			w.hold()
			return
		}
		for range maxExpiries + 1 {
			w.created(nil)
			w.say(w.a.AppendExpired(nil, w.head(""), "sub_1", nil))
		}
		w.hold()
	})
	c := newCollector()
	if err := startFollow(t, Options{Peer: at(t, s.URL), Count: 1}, c).wait(t); err != nil {
		t.Error(err)
	}
	if got := strings.Count(c.lines(), "has expired"); got != maxExpiries {
		t.Errorf("%d times\n%s", got, c.lines())
	}
	c.await(t, "# connection lost: the subscription expires again and again: it came to its time; connecting again")
}

// G3: what cannot be read, or is hostile, is left out and told, escaped; the
// events around it come. A member that only looks like delivery or type by its
// case is none (B17).
func TestHostileMessages(t *testing.T) {
	hostile := [][]byte{
		[]byte("\x1b[2J"),
		[]byte(`[]`),
		[]byte(`{"type":"task.progress"}`),
		bytes.Replace(event(5), []byte(`"sequence":5`), []byte(`"sequence":6`), 1),
		bytes.Replace(event(5), []byte(`e5:5`), []byte(`e5:-5`), 1),
		bytes.Replace(event(5), []byte(`,"delivery"`), []byte(`,"Delivery"`), 1),
		bytes.Replace(event(5), []byte(`"sequence":5`), []byte(`"sequence":"5\u001b"`), 1),
	}
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		w.say(event(1))
		w.say(hostile...)
		_ = w.Write(w.r.Context(), websocket.MessageBinary, event(6))
		w.say([]byte(`{"type":"session.odd` + "\\u001b" + `","payload":{}}`))
		w.say(w.a.AppendRejected(nil, w.head("x"), nil, aepws.Error{Message: "ack\x1b[2J\u202e"}, nil))
		w.say(bytes.Replace(event(7), []byte(`"type":`), []byte(`"Type":"session.closed","type":`), 1))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Peer: at(t, s.URL), Count: 2}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	if r.got.Malformed != int64(len(hostile))+2 || r.got.Events != 2 {
		t.Errorf("%+v\n%s", r.got, c.lines())
	}
	if strings.ContainsAny(c.lines(), "\x1b\u202e") || !strings.HasSuffix(c.lines(), "# the relay says protocol_error: ack\\x1b[2J\\u202e\n7") {
		t.Errorf("%q", c.lines())
	}
}

// Notices about bad messages are bounded.
func TestBadMessagesAreToldRarely(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		for range 500 {
			w.say([]byte(`[]`))
		}
		w.say(event(1))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Peer: at(t, s.URL), Count: 1}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	if n := strings.Count(c.lines(), "#"); r.got.Malformed != 500 || n != maxTold+4 {
		t.Errorf("%d told of %d", n, r.got.Malformed)
	}
}

// B58: dead letters have no number and are handed on.
func TestDeadLetters(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {
		w.subscribe(nil)
		w.say(w.a.AppendDeadLettered(nil, w.head(""), &aepws.DeadLetter{EventID: "e1", SubscriptionID: "sub_9", Attempts: 3, Original: event(1)}))
		w.hold()
	})
	c := newCollector()
	if err := startFollow(t, Options{Peer: at(t, s.URL), Count: 1}, c).wait(t); err != nil {
		t.Error(err)
	}
	c.want(t, "event.dead_lettered")
}

// B37, B39: a relay whose heartbeats stop is given up; heartbeats keep it, and
// so do pings.
func TestSilence(t *testing.T) {
	beats := func(w *wire) {
		for range 6 {
			w.say(w.a.AppendHeartbeat(nil, w.head("")))
			time.Sleep(20 * time.Millisecond) // the beat itself
		}
	}
	s := startScript(t, func(n int64, w *wire) {
		w.ready(aepws.Capabilities{HeartbeatMillis: 20})
		w.created(nil)
		beats(w)
		if n >= 2 { // and again, if a busy machine has lost its beat
			w.say(event(1))
		}
		w.hold()
	})
	c, p := newCollector(), at(t, s.URL)
	p.minBeat = 20 * time.Millisecond
	if err := startFollow(t, Options{Peer: p, Count: 1}, c).wait(t); err != nil {
		t.Error(err)
	}
	c.await(t, "# connection lost: the relay is silent: it sends no heartbeats and answers no ping; connecting again")
}

// Without heartbeats the client asks: a relay that answers pings stays, one that
// does not is given up (B36, B38).
func TestSilenceWithoutHeartbeats(t *testing.T) {
	release := make(chan struct{})
	s := startLoose(t, func(n int64, w *wire) {
		w.subscribe(nil)
		if n == 1 {
			<-release // reads nothing, so answers no ping
			return
		}
		go func() {
			time.Sleep(200 * time.Millisecond) // some pings that are answered
			w.say(event(1))
		}()
		w.hold()
	})
	defer close(release)
	c, p := newCollector(), at(t, s.URL)
	p.heartbeat = 40 * time.Millisecond
	if err := startFollow(t, Options{Peer: p, Count: 1}, c).wait(t); err != nil {
		t.Error(err)
	}
	if got := strings.Count(c.lines(), "the relay is silent"); got < 1 || !strings.HasSuffix(c.lines(), "\n1") {
		t.Errorf("%s", c.lines())
	}
}

// A relay that says nothing after the upgrade, or to a subscription, is tried
// again. One that a busy machine makes late is so too, and comes to the same.
func TestNoAnswer(t *testing.T) {
	asked := 0 // subscriptions
	s := startScript(t, func(n int64, w *wire) {
		if n == 1 {
			w.hold()
			return
		}
		w.ready(aepws.Capabilities{})
		h := w.hear()
		if h.Type != "subscription.requested" {
			return // it has left
		}
		if asked++; asked > 1 {
			w.grant(h, nil)
			w.say(event(1))
		}
		w.hold()
	})
	c, p := newCollector(), at(t, s.URL)
	p.open = 50 * time.Millisecond
	if err := startFollow(t, Options{Peer: p, Count: 1}, c).wait(t); err != nil {
		t.Error(err)
	}
	const (
		without  = "# no connection: the relay does not answer in time; trying again\n"
		anew     = "# connected, without a cursor to resume from: events may be missing\n"
		lateLoss = "# connection lost: the relay does not answer in time; connecting again\n"
	)
	got := c.lines()
	for before := ""; before != got; {
		before, got = got, strings.Replace(got, lateLoss+anew+lateLoss, lateLoss, 1)
	}
	if got != without+anew+lateLoss+anew+"1" {
		t.Errorf("got\n%s", c.lines())
	}
}

// What comes in one burst with session.ready is not lost.
func TestEarlyMessages(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {
		h := w.hear()
		w.id = "s"
		w.say(w.a.AppendReady(nil, w.head(h.ID), &aepws.Capabilities{}), event(1), event(2))
		w.hold()
	})
	c := newCollector()
	if err := startFollow(t, Options{Peer: at(t, s.URL), Count: 2}, c).wait(t); err != nil {
		t.Error(err)
	}
	c.want(t, "1", "2")
}
