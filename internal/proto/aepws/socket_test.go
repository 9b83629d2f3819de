package aepws

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// B31 to B35, cases 6 to 8: how a session is opened, over the wire.
func TestOpened(t *testing.T) {
	f := func(name string, events []string, want ...string) {
		t.Helper()
		r := newRig(t, rigConfig{})
		w := r.connect(0, "")
		w.tell(events...)
		w.want(name, want...)
		if n := len(r.kept()); n != 0 {
			t.Errorf("%s: %d events are in the log", name, n)
		}
	}
	const tooEarly = "event.rejected e1 protocol_error OPENED"
	f("B31: without a version", []string{opened("s")}, "session.ready s")
	f("B31: with it", []string{opened("s", `,"version":"0.1"`)}, "session.ready s")
	f("case 8", []string{opened("s", `,"version":"9.9"`)}, "session.error unsupported_version", "close 1002")
	f("B32: of the envelope", []string{`{"type":"session.opened","session_id":"env"}`}, "session.ready env")
	f("B32: not visible", []string{opened("a b"), opened("ok")}, "event.rejected o1 invalid_envelope", "session.ready ok")
	f("case 7", []string{event("e1"), opened("s")}, tooEarly, "session.ready s")
	f("B33: subscription", []string{`{"type":"subscription.requested","id":"e1","payload":{"types":"*"}}`}, tooEarly)
	f("B33: what the relay sends", []string{`{"type":"subscription.created","id":"e1"}`}, tooEarly)
	f("B33: heartbeat", []string{`{"type":"session.heartbeat"}`, opened("s")}, "session.ready s")
	f("B33: capabilities", []string{`{"type":"capabilities.requested"}`}, "capabilities.declared")
	f("B33: an error", []string{`{"type":"session.error","payload":{"error":7}}`, opened("s")}, "session.ready s")
	f("B33: closed", []string{`{"type":"session.closed"}`}, "close 1000")
	f("B34: the same", []string{opened("s"), opened("s"), `{"type":"session.opened"}`}, "session.ready s", "session.ready s", "session.ready s")
	f("B34: another", []string{opened("s"), opened("t"), opened("s")}, "session.ready s", "event.rejected o1 protocol_error", "session.ready s")
	f("a client's session.ready", []string{opened("s"), `{"type":"session.ready"}`, `{"type":"capabilities.changed"}`}, "session.ready s")

	r := newRig(t, rigConfig{settings: func(s *Settings) { s.Heartbeat = 7 * time.Second }})
	w := r.connect(0, "")
	w.tell(`{"type":"session.opened","id":"x","correlation_id":"c"}`)
	e := w.last()
	if !strings.HasPrefix(e.SessionID, "sess_") || len(e.SessionID) != 31 || e.CausationID != "x" || e.CorrelationID != "c" {
		t.Errorf("B32, section 5: %+v", e)
	}
	want := `{"protocol":"aep","aep_version":"0.1","spec_version":"0.1","transports":["websocket"],` +
		`"delivery_modes":["best_effort","at_least_once","replayable"],` +
		`"features":["envelope","subscription","error_model","ack","replay","dead_letter"],"max_payload_size":1048576,` +
		`"compression":[],"heartbeat_interval_ms":7000,"delivery":{"modes":["best_effort","at_least_once","replayable"],` +
		`"replay_window_ms":86400000,"max_retention_events":1000000,"dead_letter_support":true},"auth":{"required":false}}`
	if got := string(e.Payload.Capabilities); got != want {
		t.Errorf("B35: %s", got)
	}
	r.wantRecords("B42", "opened")
}

// B30 and B25: what is answered with event.rejected, and closes nothing.
func TestRejected(t *testing.T) {
	r := newRig(t, rigConfig{})
	w := r.open("s")
	f := func(name, event, want string) {
		t.Helper()
		w.tell(event)
		w.want(name, want)
	}
	for _, typ := range []string{
		"subscription.created", "subscription.rejected", "subscription.expired", "capabilities.declared",
		"event.redelivered", "event.replayed", "event.dead_lettered", "session.foo",
	} {
		f("B30, B24: "+typ, fmt.Sprintf(`{"type":%q,"id":"x"}`, typ), "event.rejected x protocol_error")
	}
	f("case 15", strings.Replace(event("e"), `"id"`, `"spec_version":"0.2","id"`, 1), "event.rejected e unsupported_version")
	f("case 16", strings.Replace(event("e"), `,"payload":{"n":1}`, "", 1), "event.rejected e invalid_envelope")
	f("case 17", strings.Replace(event("e"), `"type"`, `"Type"`, 1), "event.rejected e invalid_envelope")
	f("B17: twice", event("e", `,"source":"b"`), "event.rejected e invalid_envelope")
	f("B23", event("e", `,"delivery":{"mode":"x"}`), "event.rejected e invalid_envelope")
	f("B29: no id", `{"type":"task.progress"}`, "event.rejected invalid_envelope")
	f("B46: another tenant", event("e", `,"tenant_id":"t"`), "event.rejected e unauthorized")
	f("B64", strings.Replace(event("e"), "agent:a", "relay:sluice", 1), "event.rejected e unauthorized")
	f("B58: acknowledges nothing", `{"type":"event.acknowledged","id":"x"}`, "event.rejected x invalid_envelope")
	f("B53: cancels nothing", `{"type":"subscription.cancelled","id":"x"}`, "event.rejected x invalid_envelope")
	f("B47, case 22", `{"type":"subscription.requested","id":"x","payload":{}}`, "subscription.rejected subscription_rejected")
	w.tell(`{"type":"event.rejected","id":"x"}`)
	w.want("B26: a rejection is not answered")
	w.tell(`{"type":"task.progress","id":"x"}`)
	if e := w.last(); len(e.Payload.Errors) < 3 || e.Payload.Errors[0] != e.Payload.Error.Message {
		t.Errorf("B25: errors %q of %+v", e.Payload.Errors, e.Payload.Error)
	}
	if n := len(r.kept()); n != 0 {
		t.Errorf("%d events are in the log", n)
	}
	if n := r.surface.Counters().Rejected; n != 20-1 {
		t.Errorf("%d rejections were counted", n)
	}
}

// Case 18: strict types.
func TestStrictTypes(t *testing.T) {
	r := newRig(t, rigConfig{settings: func(s *Settings) { s.StrictTypes, s.ExtraTypes = true, []string{"custom.bar"} }})
	w := r.open("s")
	w.tell(strings.Replace(event("e1"), "task.progress", "custom.foo", 1),
		strings.Replace(event("e2"), "task.progress", "custom.bar", 1), event("e3"))
	r.answered()
	w.want("case 18", "event.rejected e1 invalid_event_type unknown_event_type", "event.acknowledged e2:1", "event.acknowledged e3:2")
	for _, extra := range []string{"x", "session.foo"} {
		set := DefaultSettings()
		set.ExtraTypes = []string{extra}
		if _, err := New(set, Parts{}); err == nil || set.Validate() == nil {
			t.Errorf("the extra type %q is taken", extra)
		}
	}
}

// B10 to B16, cases 9 to 14: what ends the connection, and how.
func TestMessageFaults(t *testing.T) {
	limit := strings.Repeat("x", 2000)
	const protocol, ends = "session.error s protocol_error", "close 1002"
	f := func(name, in string, accept bool, want ...string) {
		t.Helper()
		r := newRig(t, rigConfig{settings: func(s *Settings) { s.MaxMessageBytes, s.AcceptFragments = 2000, accept }})
		w := r.open("s")
		w.say(in)
		r.answered()
		w.want(name, want...)
		if want[len(want)-1] == ends {
			r.wantRecords(name, "opened", "message_fault")
			r.wantCalls(name, "closed s")
			if n := len(r.kept()); n != 0 {
				t.Errorf("%s: %d events are in the log", name, n)
			}
			if len(want) == 2 && w.last().Payload.Error.Message == "" {
				t.Errorf("%s: no message", name)
			}
		}
	}
	e := event("e")
	cut := relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(e[:9]), NotFinal: true}
	fragments := string(cut.Bytes()) + clientFrame(relaytest.OpContinuation, e[9:])
	exact := event("e", `,"topic":"`+limit[:2000-len(event("e", `,"topic":""`))]+`"`)
	padded := e + strings.Repeat(" ", 2000-len(e))
	f("case 9", clientFrame(relaytest.OpBinary, e), false, protocol, ends)
	f("case 10", fragments, false, protocol, ends)
	f("B12: a continuation", clientFrame(relaytest.OpContinuation, e), false, protocol, ends)
	f("B12: accepted", fragments, true, "event.acknowledged e:1")
	f("case 11", text(`{"a":1}{"b":2}`), false, protocol, ends)
	f("case 12", text(`[]`), false, protocol, ends)
	f("B15: scalar", text(`"x"`), false, protocol, ends)
	f("B15: syntax", text(e[1:]), false, protocol, ends)
	f("B15: nothing", text(""), false, protocol, ends)
	f("B15: too deep", text(strings.Repeat(`{"a":`, 65)+"1"+strings.Repeat("}", 65)), false, protocol, ends)
	f("B15: white space is allowed", text(" \n"+e+"\t"), false, "event.acknowledged e:1")
	f("case 13: the limit", text(padded), false, "event.acknowledged e:1")
	f("case 13: an identity is shorter", text(exact), false, "event.rejected e invalid_envelope")
	f("case 13: one more", text(padded+" "), false, "close 1009")
	f("B14: in fragments", string(cut.Bytes())+clientFrame(relaytest.OpContinuation, limit), true, "close 1009")
	f("case 14", "\x81\xff\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", false, "close 1009")
	f("B13", text("{\"a\":\"\xff\"}"), false, "close 1007")
	f("B16: bits", "\xc1\x80\x00\x00\x00\x00", false, ends)
	f("B16: not masked", "\x81\x02{}", false, ends)
	f("B16: opcode", clientFrame(3, e), false, ends)
	f("B16: long ping", clientFrame(relaytest.OpPing, limit[:126]), false, ends)
	f("B42: a close code that may not be sent", closeFrame(1006), false, ends)

	r := newRig(t, rigConfig{})
	w := r.connect(0, "")
	w.say(fragments)
	if m := w.last().Payload.Error.Message; !strings.Contains(m, "fragment") || !strings.Contains(m, "AEPWS_FRAGMENTS") {
		t.Errorf("B12: %q", m)
	}
	w.want("B12 in OPENED", "session.error protocol_error", "close 1002")
	w.tell(event("e"))
	w.want("after the end")
}

// B38: Pongs in every state, before what is owed.
func TestPong(t *testing.T) {
	r := newRig(t, rigConfig{})
	payload := strings.Repeat("p", 125)
	ping := clientFrame(relaytest.OpPing, payload)
	w := r.connect(0, "")
	w.say(ping)
	w.want("OPENED", "pong "+payload)
	w.tell(opened("s"))
	w.want("READY", "session.ready s")
	w.Room(10)
	w.tell(`{"type":"capabilities.requested"}`, `{"type":"capabilities.requested"}`)
	w.say(ping)
	w.Room(-1)
	r.run()
	w.want("owed", "capabilities.declared", "pong "+payload, "capabilities.declared")
}

// B42, case 40: the peer's close.
func TestPeerCloses(t *testing.T) {
	f := func(code int, want, record string) {
		t.Helper()
		r := newRig(t, rigConfig{})
		w := r.open("s")
		w.say(closeFrame(code) + text(event("late")))
		w.want(record, want)
		w.wantState(record, "closed")
		r.wantRecords(fmt.Sprint(code), "opened", record)
		r.wantCalls(record, "closed s")
		if n := r.surface.Counters().Sessions; n != 0 || len(r.kept()) != 0 {
			t.Errorf("%d: the session is there", code)
		}
	}
	f(1000, "close 1000", "normal")
	f(0, "close 0", "normal")
	f(1001, "close 1001", "peer_disconnected")
	f(1002, "close 1002", "peer_protocol_error")
	f(1008, "close 1008", "peer_unauthorized")
	f(1011, "close 1011", "peer_internal_error")
	f(1003, "close 1003", "peer_code")
	f(4000, "close 4000", "peer_code")

	r := newRig(t, rigConfig{})
	r.open("s").Reset()
	r.run()
	r.wantRecords("lost", "opened", "lost")
	r.wantCalls("lost", "closed s")
}

// B44, case 33: the new connection wins, on the same loop and on another.
func TestReplaced(t *testing.T) {
	for loop := range 2 {
		r := newRig(t, rigConfig{loops: 2})
		old := r.open("s")
		w := r.open("s", loop)
		old.want("case 33", "session.closed s replaced", "close 1000")
		r.wantCalls("B45", "closed s")
		r.wantRecords("B44", "opened", "opened", "replaced")
		old.say(closeFrame(1000))
		old.wantState("answered", "closed")
		w.tell(event("e"))
		r.answered()
		w.want("the new one goes on", "event.acknowledged e:1")
		if n := r.surface.Counters().Sessions; n != 1 {
			t.Errorf("%d sessions", n)
		}
	}
	// One that is gone when it is told.
	r := newRig(t, rigConfig{})
	old := r.open("s")
	w := r.connect(0, "")
	w.OnData([]byte(text(opened("s")))) // no turn yet
	old.Reset()
	r.run() // its end is seen before its mail
	w.want("B44", "session.ready s")
}

// B41: the subscriptions end at once, what was published is answered, and then
// the close comes, at most half a second later; later events are discarded.
func TestClientCloses(t *testing.T) {
	r := newRig(t, rigConfig{gated: true})
	w := r.open("s")
	w.tell(event("e"), `{"type":"session.closed"}`, event("late"))
	r.wantCalls("B41", "closed s")
	w.want("B41: waits for the answer")
	r.gate <- struct{}{}
	r.answered()
	w.want("B41", "event.acknowledged e:1", "close 1000")

	w = r.open("t")
	w.tell(event("f"), `{"type":"session.closed"}`, event("late"))
	r.pass(leaveTime - step)
	w.want("not yet")
	r.pass(2 * step)
	w.want("B41: within a second", "close 1000")
	r.letGo()
	r.answered()
	w.want("nothing follows a Close")
	if c := r.surface.Counters(); len(r.kept()) != 2 || c.Discarded != 2 || c.Acknowledged != 1 {
		t.Errorf("%d events kept, %+v", len(r.kept()), c)
	}
	r.wantRecords("B42", "opened", "opened", "client_closed", "client_closed")

	w = r.open("u")
	w.tell(`{"type":"session.closed","payload":{"reason":"done"}}`)
	w.want("at once", "close 1000")
	w = r.open("u") // while the other end of the old one is open
	w.Reset()
}

// B43, case 41: the relay goes down.
func TestShutdown(t *testing.T) {
	r := newRig(t, rigConfig{gated: true})
	var ws []*wire
	for i := range 50 {
		ws = append(ws, r.open(fmt.Sprint("s", i)))
	}
	unnamed := r.connect(0, "")
	ws[0].tell(event("e"))
	ws[1].tell(event("f"), `{"type":"session.closed"}`)
	r.surface.Seal()
	ws[2].tell(event("g"))
	ws[2].want("sealed", "event.rejected g internal_error")
	r.workers[0].Shutdown()
	r.run()
	ws[0].want("its event has no answer yet")
	unnamed.want("case 41", "session.closed peer_disconnected", "close 1001")
	for i, w := range ws[2:] {
		w.want("case 41", fmt.Sprint("session.closed s", i+2, " peer_disconnected"), "close 1001")
	}
	r.letGo()
	r.answered()
	ws[0].want("case 41", "event.acknowledged e:1", "session.closed s0 peer_disconnected", "close 1001")
	ws[1].want("case 41", "event.acknowledged f:2", "session.closed s1 peer_disconnected", "close 1001")
	r.pass(3 * time.Second)
	for _, w := range ws {
		w.wantState("nobody answered", "reset")
	}
}

// B43: a fault of the relay ends that session alone.
func TestInternalFault(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.panics = 1
	w, other := r.open("s"), r.open("t")
	r.feeds[0].hook = func(call string, _ outlet) {
		if strings.HasPrefix(call, "acknowledge") {
			panic(call)
		}
	}
	w.tell(`{"type":"event.acknowledged","payload":{"acknowledged_event_id":"x"}}`)
	w.want("B43", "session.error s internal_error", "close 1011")
	other.tell(event("e"))
	r.answered()
	other.want("another", "event.acknowledged e:1")
	r.wantRecords("B43", "opened", "opened", "internal_fault")
}

// What goes to the feed, with its cause; and the end of it all, once (B45).
func TestFeedIsTold(t *testing.T) {
	r := newRig(t, rigConfig{})
	w := r.connect(0, "")
	w.tell(`{"type":"session.opened","payload":{"session_id":"s"},"tenant_id":"acme"}`)
	w.tell(`{"type":"subscription.requested","id":"i1","correlation_id":"c1","payload":{"types":"a.*"}}`,
		`{"type":"subscription.cancelled","id":"i2","payload":{"subscription_id":"sub_1"}}`,
		`{"type":"event.acknowledged","payload":{"acknowledged_event_id":"e1"}}`,
		`{"type":"event.rejected","payload":{"acknowledged_event_id":"e2"}}`)
	calls := r.calls(0)
	if len(calls) != 4 || !strings.HasSuffix(calls[0], " because i1 c1 s") || !strings.Contains(calls[0], "acme") {
		t.Fatalf("the feed was told %q", calls)
	}
	for i, want := range []string{"cancel sub_1 because i2  s", "acknowledge e1 s", "reject e2 s"} {
		if calls[i+1] != want {
			t.Errorf("the feed was told %q, want %q", calls[i+1], want)
		}
	}
	r.feeds[0].hook = func(_ string, k outlet) {
		unacked := k.inflight()
		if k.peer() == nil || k.author() == nil || k.subs() == nil || unacked == nil || k.inflight() != unacked || k.tenant() != "acme" {
			t.Error("the outlet lacks something")
		}
	}
	w.Reset()
	r.run()
	r.wantCalls("B45", "closed s")
}

// A client that does not read has its input held, so that its answers are
// bounded; it goes on when it reads, also while a feed fills its socket again
// and again.
func TestAnswersAreBounded(t *testing.T) {
	r := newRig(t, rigConfig{settings: func(s *Settings) { s.MaxMessageBytes = MinMessageBytes }})
	w := r.open("s")
	big := wsframe.AppendText(nil, []byte(`{"aep_version":"0.1","spec_version":"0.1","id":"evt_","type":"big","source":"relay:sluice","created_at":"Z"`+
		strings.Repeat(" ", maxOwed)+"}"))
	fills := 0
	r.feeds[0].hook = func(call string, k outlet) {
		if call == "drained" && fills < 10 {
			fills++
			k.peer().SendFrames(big, [][]byte{big})
			k.peer().NotifyDrained()
		}
	}
	w.Room(100)
	const count = 2000
	for range count {
		w.tell(`{"type":"capabilities.requested"}`)
	}
	conn := r.surface.holders
	k, _ := conn.holder(sessionKey{id: "s"})
	if n := k.conn.QueuedBytes(); n > MinMessageBytes+maxOwed+4096 || !k.holding {
		t.Fatalf("%d bytes are owed", n)
	}
	for range 10_000 { // the peer reads slowly
		w.Room(64 << 10)
		r.run()
	}
	w.Room(-1)
	r.run()
	declared := 0
	for _, f := range w.frames() {
		if f == "capabilities.declared" {
			declared++
		}
	}
	if declared != count || fills != 10 {
		t.Errorf("%d of %d answers came, and %d frames of the feed", declared, count, fills)
	}
	if n := r.surface.Counters().Held; n == 0 {
		t.Error("no hold was counted")
	}
}

// A socket that takes nothing for the write timeout is cut.
func TestWriteTimeout(t *testing.T) {
	r := newRig(t, rigConfig{})
	w := r.open("s")
	w.Stall()
	w.tell(`{"type":"capabilities.requested"}`)
	r.pass(DefaultSettings().WriteTimeout - step)
	w.wantState("before", "open")
	r.pass(DefaultSettings().WriteTimeout + step)
	w.wantState("after", "reset")
	if n := r.surface.Counters().Stalled; n != 1 {
		t.Errorf("%d were counted", n)
	}
	r.wantRecords("B42", "opened", "lost")
}
