package aepwsclients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/nodetest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// starter starts a client in its place: Node, or a browser.
type starter func(t *testing.T, s settings) *client

// emitsAndReplays: a client subscribes and emits: each event is acknowledged and
// delivered to it too (B55, B57). Another one gets them replayed.
func emitsAndReplays(t *testing.T, start starter) {
	const events = 20
	s := startSource(t, t.TempDir(), "0")
	emitter := following(url(s.relay.Addr()))
	for n := range events {
		emitter.Emit = append(emitter.Emit, event(fmt.Sprint("e", n)))
	}
	c := start(t, emitter)
	c.opened()
	c.subscribed()
	c.wantEvents(0, false)
	acked := 0
	for acked < events || c.last < events {
		l := c.next()
		m := l.Message
		switch {
		case m.Type == "event.acknowledged" && m.Payload.Cursor == fmt.Sprintf("e%d:%d", acked, acked+1):
			acked++
		case m.Type == "task.progress" && m.ID == fmt.Sprint("e", c.last) && m.Delivery.Sequence == c.last+1:
			c.last++
		default:
			t.Fatalf("%+v after %d acknowledgements and %d events", l, acked, c.last)
		}
	}
	other := following(url(s.relay.Addr()))
	other.Session = "other"
	c = start(t, other)
	c.opened()
	c.subscribed()
	c.wantEvents(events, false)
}

// resumes breaks a client's connection in three ways, and publishes on while it is
// away: it must get every event once, in order.
func resumes(t *testing.T, start starter) {
	s := startSource(t, t.TempDir(), "0")
	p := nodetest.StartProxy(t, s.relay.Addr())
	s.publish(3)
	c := start(t, following(through(p)))
	c.opened()
	c.subscribed()
	c.wantEvents(s.last, false)
	for _, cut := range []func(){
		func() { p.Drop(false) },
		func() { p.Drop(true) },
		func() { // in mid-frame: that one is lost and must come again
			p.CutAfter(100)
			s.publish(1)
		},
	} {
		s.publish(2) // live
		c.wantEvents(s.last, true)
		cut()
		c.lost()
		s.publish(5)
		p.Release()
		c.opened()
		c.subscribed()
		c.wantEvents(s.last, false)
	}
	if n := len(p.Targets()); n != 4 {
		t.Errorf("the client has come %d times", n)
	}
}

// emitsThroughCuts: a client emits while its connection is cut again and again. It
// sends again what has no answer, and each event is in the log once (B56).
func emitsThroughCuts(t *testing.T, start starter) {
	const events, cuts = 400, 5
	s := startSource(t, t.TempDir(), "0")
	p := nodetest.StartProxy(t, s.relay.Addr())
	emitter := session(through(p))
	emitter.Resume = true
	for n := range events {
		emitter.Emit = append(emitter.Emit, event(fmt.Sprint("e", n)))
	}
	p.CutAfter(3000) // the answer to the handshake, and some acknowledgements
	c := start(t, emitter)
	acked := map[string]string{}
	for cut := 0; len(acked) < events; {
		l := c.next()
		m := l.Message
		switch {
		case m.Type == "event.acknowledged":
			id, cursor := m.Payload.Acknowledged, m.Payload.Cursor
			if was, ok := acked[id]; ok && was != cursor || !strings.HasPrefix(cursor, id+":") {
				t.Fatalf("B56: %q is acknowledged with %q and was with %q", id, cursor, was)
			}
			acked[id] = cursor
		case l.Event == "closed":
			if cut++; cut < cuts {
				p.CutAfter(int64(3000 + 2000*cut))
			}
			p.Release()
		case m.Type != "session.ready" && l.Event != "open" && l.Event != "error":
			t.Fatalf("%+v after %d acknowledgements", l, len(acked))
		}
	}
	if n := len(p.Targets()); n != cuts+1 {
		t.Errorf("the client has come %d times, want %d", n, cuts+1)
	}
	other := following(url(s.relay.Addr()))
	other.Session = "other"
	c = start(t, other)
	c.opened()
	c.subscribed()
	c.wantEvents(events, false)
}

// relayRestarts: the relay ends in an orderly way, which the client is told (B43),
// and comes back: it resumes there.
func relayRestarts(t *testing.T, start starter) {
	dir := t.TempDir()
	port := testrelay.FixedPort(t)
	s := startSource(t, dir, port)
	s.publish(3)
	c := start(t, following(url(s.relay.Addr())))
	c.opened()
	c.subscribed()
	c.wantEvents(3, false)
	testrelay.Stop(t, s.relay)
	if m := c.want("session.closed"); m.Payload.Reason != "peer_disconnected" {
		t.Errorf("B43: %+v", m)
	}
	if l := c.next(); l.Event != "closed" || l.Code != 1001 {
		t.Errorf("B43: %+v", l)
	}
	again := startSource(t, dir, port)
	again.last = s.last
	again.publish(3)
	c.opened()
	c.subscribed()
	// What is published while it comes back may be replayed or live.
	for replayed := false; c.last < again.last || !replayed; {
		m := c.next().Message
		switch {
		case m.Type == "event.replayed" && !replayed:
			replayed = true
		case m.Type == "task.progress" && m.Delivery.Sequence == c.last+1:
			c.last++
		default:
			t.Fatalf("%+v after number %d", m, c.last)
		}
	}
}
