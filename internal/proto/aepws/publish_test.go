package aepws

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// B55, B56, B61, B63, cases 19, 34, 35 and 39: what a publisher is told, and
// what is kept.
func TestPublish(t *testing.T) {
	r := newRig(t, rigConfig{})
	w := r.open("s")
	f := func(name, event string, want ...string) {
		t.Helper()
		w.tell(event)
		r.answered()
		w.want(name, want...)
	}
	f("B55", event("e1", `,"correlation_id":"c"`), "event.acknowledged e1:1")
	if e := w.last(); e.CausationID != "e1" || e.CorrelationID != "c" || e.SessionID != "s" || *e.Payload.EventID != "e1" {
		t.Errorf("section 5: %+v", e)
	}
	f("B55: best_effort", event("e2", `,"delivery":{"mode":"best_effort"}`))
	f("B55: the other modes", event("e3", `,"delivery":{"mode":"replayable"}`), "event.acknowledged e3:3")
	f("case 34", event("e1"), "event.acknowledged e1:1")
	f("case 34: best_effort", event("e2", `,"delivery":{"mode":"best_effort"}`))
	f("case 34: another mode is the same event", event("e2"), "event.acknowledged e2:2")
	f("case 35", strings.Replace(event("e1"), `{"n":1}`, `{"n":2}`, 1), "event.rejected e1 invalid_envelope duplicate_id")
	f("case 35: best_effort", strings.Replace(event("e1", `,"delivery":{"mode":"best_effort"}`), `{"n":1}`, `{"n":2}`, 1),
		"event.rejected e1 invalid_envelope duplicate_id")
	f("B56: another source", strings.Replace(event("e1"), "agent:a", "agent:b", 1), "event.acknowledged e1:4")
	f("case 39", event("e5", `,"expires_at":"2001-01-01T00:00:00Z"`), "event.acknowledged e5:5")
	f("case 16", strings.Replace(event("e6"), `{"n":1}`, "null", 1), "event.acknowledged e6:6")
	f("B63", strings.Replace(event("e7"), "task.progress", "command.requested", 1), "event.acknowledged e7:7")
	f("case 19", strings.Replace(event("e8"), `{"n":1}`, `{"n":12345678901234567890,"m":1.10}`, 1), "event.acknowledged e8:8")
	kept := r.kept()
	if len(kept) != 8 || !strings.Contains(kept[7], `"payload":{"n":12345678901234567890,"m":1.10}`) {
		t.Errorf("kept %q", kept)
	}
	if c := r.surface.Counters(); c.Published != 13 || c.Acknowledged != 9 || c.Rejected != 2 {
		t.Errorf("counters %+v", c)
	}
}

// B46: tenants of publishers.
func TestPublishTenants(t *testing.T) {
	r := newRig(t, rigConfig{})
	w := r.connect(0, "")
	w.tell(`{"type":"session.opened","payload":{"session_id":"s"},"tenant_id":"acme"}`,
		event("e1"), event("e2", `,"tenant_id":"acme"`), event("e3", `,"tenant_id":"other"`))
	none := r.open("s")
	none.tell(event("e1"), event("e4", `,"tenant_id":"acme"`))
	r.answered()
	w.want("B46", "session.ready s", "event.rejected e3 unauthorized", "event.acknowledged e1:1", "event.acknowledged e2:2")
	none.want("B46, B56: of another tenant", "event.rejected e4 unauthorized", "event.acknowledged e1:3")
	page, err := r.log.Page(0, 10, 1<<20, nil)
	if err != nil || len(page) != 3 || page[0].Tenant != "acme" || page[1].Tenant != "acme" || page[2].Tenant != "" {
		t.Errorf("kept %+v, %v", page, err)
	}
}

// The answers of one commit go out in one write, and behind a frame under way
// they stay apart, so that a Pong can go between.
func TestAnswersInOneWrite(t *testing.T) {
	r := newRig(t, rigConfig{gated: true})
	w := r.open("s")
	w.tell(event("first"))
	r.await("the first commit", func() bool { return r.log.Stats().Groups > 0 || r.log.Newest() > 0 })
	for i := range 20 {
		w.tell(event(fmt.Sprint("e", i)))
	}
	r.gate <- struct{}{}
	r.await("the first answer", func() bool { return len(w.frames()) == 1 })
	writes := w.Writes
	r.letGo()
	r.arrived(20) // the log answers one by one, and the loop sends what is there
	r.answered()
	if got := len(w.frames()); got != 20 || w.Writes-writes != 1 {
		t.Errorf("%d answers in %d writes", got, w.Writes-writes)
	}
	w.Room(30)
	w.tell(event("f1"), event("f2"))
	r.answered()
	w.say(clientFrame(relaytest.OpPing, "p"))
	w.Room(-1)
	r.run()
	w.want("B38", "event.acknowledged f1:22", "pong p", "event.acknowledged f2:23")
}

// More than the bounds of appends hold the input, which goes on behind their
// answers: all are stored once, in order.
func TestAppendsAreBounded(t *testing.T) {
	for name, pad := range map[string]int{"by count": 0, "by bytes": 30 << 10} {
		r := newRig(t, rigConfig{gated: true})
		w, other := r.open("s"), r.open("t")
		const count = 3 * maxAppends
		var want []string
		for i := range count {
			w.tell(event(fmt.Sprintf("e%03d", i), fmt.Sprintf(`,"metadata":%q`, strings.Repeat("x", pad))))
			want = append(want, fmt.Sprintf("event.acknowledged e%03d:%d", i, i+1))
			if pad > 0 && i == count/2 {
				want = want[:i+1]
				break
			}
		}
		if n, most := r.surface.Pending(), int64(maxAppends); n > most || n < 2 || pad > 0 && n > maxAppendBytes/int64(pad)+1 {
			t.Errorf("%s: %d appends are under way", name, n)
		}
		other.tell(`{"type":"capabilities.requested"}`)
		other.want("another socket goes on", "capabilities.declared")
		r.letGo()
		r.await("all", func() bool { return r.log.Newest() == int64(len(want)) && r.surface.Pending() == 0 })
		w.want(name, want...)
		if n := r.surface.Counters().Held; n == 0 {
			t.Error("no hold was counted")
		}
	}
}

// unhurried is for tests that let the clock run while the log works: however long
// that takes, no heartbeat is due.
func unhurried(s *Settings) { s.Heartbeat = 0 }

// What the log's queue has no room for is offered again, ahead of what its
// publisher says next; other publishers get theirs.
func TestBusyLog(t *testing.T) {
	r := newRig(t, rigConfig{settings: unhurried, gated: true, log: eventlog.Config{QueueCount: 2}})
	a, b := r.open("a"), r.open("b")
	a.tell(event("e0"))
	r.await("a commit", func() bool { return r.log.Newest() == 1 })
	var want []string
	for i := 1; i < 20; i++ {
		a.tell(event(fmt.Sprint("e", i)))
	}
	for i := range 20 {
		want = append(want, fmt.Sprint("event.acknowledged e", i))
	}
	b.tell(strings.Replace(event("f"), "agent:a", "agent:b", 1))
	r.pass(step)
	if c := r.surface.Counters(); c.BusyBytes == 0 || c.Held != 2 {
		t.Errorf("counters %+v", c)
	}
	r.letGo()
	r.await("all", func() bool {
		r.pass(step)
		return r.log.Newest() == 21 && r.surface.Pending() == 0
	})
	got := a.frames()
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], ":")
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("a was told %q", got)
	}
	if got := b.frames(); len(got) != 1 || !strings.HasPrefix(got[0], "event.acknowledged f:") {
		t.Errorf("b was told %q", got)
	}
	if n := r.surface.Counters().BusyBytes; n != 0 {
		t.Errorf("%d bytes wait", n)
	}
}

// A publisher that is gone leaves its events to the log; one whose log has ended
// is told that it may try again.
func TestPublisherGone(t *testing.T) {
	r := newRig(t, rigConfig{settings: unhurried, gated: true, log: eventlog.Config{QueueCount: 2}})
	w := r.open("s")
	for i := range 5 {
		w.tell(event(fmt.Sprint("e", i)))
	}
	w.Reset()
	r.run()
	r.letGo()
	r.await("answers", func() bool {
		r.pass(step)
		return r.surface.Pending() == 0
	})
	if n := len(r.kept()); n < 2 || n > 3 { // the rest was not read
		t.Errorf("%d events are kept", n)
	}
	w = r.open("t")
	if err := r.log.Close(); err != nil {
		t.Fatal(err)
	}
	w.tell(event("late"))
	r.answered()
	w.want("stopped", "event.rejected late internal_error")
	if x := w.last().Payload.Error; !*x.Retryable {
		t.Error("B27: it may be tried again")
	}
}

// Events that wait for room in the log's queue are bounded for all sockets
// together.
func TestBusyBytesAreBounded(t *testing.T) {
	r := newRig(t, rigConfig{settings: unhurried, gated: true, log: eventlog.Config{QueueCount: 1}})
	r.open("first").tell(event("e0"))
	r.await("a commit", func() bool { return r.log.Newest() == 1 })
	pad := fmt.Sprintf(`,"metadata":%q`, strings.Repeat("x", 1<<20-300))
	rejected := 0
	for i := range maxBusyBytes>>20 + 10 {
		w := r.open(fmt.Sprint("s", i))
		w.tell(event(fmt.Sprint("f", i), pad))
		if f := w.frames(); len(f) == 1 && strings.Contains(f[0], "internal_error") {
			rejected++
		}
	}
	if n := r.surface.Counters().BusyBytes; n > maxBusyBytes || rejected < 8 || rejected > 11 {
		t.Errorf("%d bytes wait, %d events were rejected", n, rejected)
	}
	r.letGo()
	r.await("all", func() bool {
		r.pass(step)
		return r.surface.Pending() == 0
	})
	if n := r.log.Newest(); n != int64(1+maxBusyBytes>>20+10-rejected) {
		t.Errorf("%d events are kept", n)
	}
}

// An event that finds no room a second time and is refused, because other loops
// have taken the bytes meanwhile or the relay is going down, leaves nobody behind
// it waiting for ever.
func TestBusyBehindRefused(t *testing.T) {
	for name, full := range map[string]func(s *Surface) (undo func()){
		"other loops": func(s *Surface) func() {
			s.busy.Add(maxBusyBytes)
			return func() { s.busy.Add(-maxBusyBytes) }
		},
		"sealed": func(s *Surface) func() {
			s.Seal()
			return func() {}
		},
	} {
		r := newRig(t, rigConfig{settings: unhurried, gated: true, log: eventlog.Config{QueueCount: 1}})
		r.open("first").tell(event("e0"))
		r.await("a commit", func() bool { return r.log.Newest() == 1 })
		var waiting []*wire
		for i := range 4 {
			w := r.open(fmt.Sprint("s", i))
			w.tell(strings.Replace(event("f"), "agent:a", fmt.Sprint("agent:", i), 1))
			waiting = append(waiting, w)
		}
		undo := full(r.surface)
		r.pass(step)
		undo()
		r.letGo()
		r.await(name+": all are answered", func() bool {
			r.pass(step)
			return r.surface.Pending() == 0
		})
		for i, w := range waiting {
			if f := w.frames(); len(f) != 1 {
				t.Errorf("%s: socket %d was told %q", name, i, f)
			}
		}
	}
}

// A loop that has many answers hands them out over several turns.
func TestManyAnswers(t *testing.T) {
	r := newRig(t, rigConfig{settings: unhurried, gated: true})
	var ws []*wire
	for i := range 8 * lookAnswers {
		w := r.open(fmt.Sprint("s", i))
		w.tell(event(fmt.Sprint("e", i)))
		ws = append(ws, w)
	}
	r.letGo()
	r.arrived(len(ws))
	r.clock.SetLook(time.Millisecond)
	r.answered()
	r.clock.SetLook(0)
	for i, w := range ws {
		if f := w.frames(); len(f) != 1 || !strings.HasPrefix(f[0], fmt.Sprint("event.acknowledged e", i, ":")) {
			t.Errorf("%d: %q", i, f)
		}
	}
}

// Held input is bounded: a publisher that floods a log which does not answer is
// ended, with what it may do then (B27, B43).
func TestHeldInputIsBounded(t *testing.T) {
	r := newRig(t, rigConfig{gated: true})
	w := r.open("s")
	pad := fmt.Sprintf(`,"metadata":%q`, strings.Repeat("x", 100<<10))
	for i := 0; i < 400 && w.State() == "open"; i++ {
		w.tell(event(fmt.Sprint("e", i), pad))
		if len(w.Received()) > w.read+400 {
			break
		}
	}
	w.want("B43", "session.error s internal_error", "close 1011")
	r.wantRecords("B43", "opened", "internal_fault")
	r.wantCalls("B45", "closed s")
}
