package relay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR142UnsequencedClasses: liveness and foreign events go out live, without
// an id, and are neither held nor a claim (R142, R143, R272).
func TestR142UnsequencedClasses(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	s, w := f.stream(t, "", relaytest.StreamOptions{}), f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"a"}`)
	emitter := f.socket(t, "")
	events := []string{
		relaytest.AgentEvent().JSON(),
		relaytest.Event{Type: "attention.routed", Session: "s", NoSeq: true}.JSON(),
		relaytest.Event{Type: "x.acme.a.b", Session: "s", Seq: 4}.JSON(),
		relaytest.Event{Type: "control.accepted", Session: "s", Seq: 5, Epoch: 2}.JSON(),
	}
	ids := []string{"", "", "s:0:4", "s:2:5"}
	for round, publish := range []func(...string){
		func(e ...string) { f.post(t, e...) },
		func(e ...string) { emitter.send(e...) },
	} {
		publish(events[:2]...)
		for i, want := range events[:2] {
			b := s.event()
			if b.Data != want || b.HasID || w.text() != want {
				t.Errorf("round %d: event %d: block %q, want no id", round, i, b.Raw)
			}
		}
		if got := f.claims(t, emitter); len(got) != 0 {
			t.Errorf("R143: claims %q after agent and foreign events", got)
		}
	}
	wantTexts(t, "R142: held", f.held(t), nil)
	emitter.send(events[2:]...)
	for i, want := range events[2:] {
		if b := s.event(); b.Data != want || b.ID != ids[i+2] || w.text() != want {
			t.Errorf("event %d: block %q, want id %s", i, b.Raw, ids[i+2])
		}
	}
	wantTexts(t, "R144: held", f.held(t), events[2:])
	wantTexts(t, "R144: claims", f.claims(t, emitter), []string{"s"})
}

// claims is the sorted list of claimed sessions over all connections that
// /connections lists, after everything sent on w was processed.
func (f *fixture) claims(t *testing.T, w *socket) []string {
	t.Helper()
	w.barrier()
	var body struct {
		Connections []struct{ Sessions []string }
	}
	if err := json.Unmarshal(f.get(t, "/connections").Body, &body); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range body.Connections {
		all = append(all, c.Sessions...)
	}
	slices.Sort(all)
	return all
}

// TestR145Claims covers R145, R146 and R334: what makes and ends a claim, seen
// through the roster, /connections and command routing.
func TestR145Claims(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	sender := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"consumer"}`)
	routed := func(session string) string {
		sender.send(relaytest.Command("control.pause", session).JSON())
		answers := sender.barrier()
		if len(answers) == 0 {
			return "routed"
		}
		e, err := relaytest.ParseEnvelope(answers[0])
		if err != nil {
			t.Fatal(err)
		}
		return e.Code
	}
	expect := func(what, session, want string) {
		t.Helper()
		if got := routed(session); got != want {
			t.Errorf("%s: command for %q: %s, want %s", what, session, got, want)
		}
	}
	e := relaytest.Event{Session: "http"}.JSON()
	f.post(t, e)
	expect("R145: posted over HTTP", "http", "no-route")

	emitter := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"emitter"}`)
	emitter.send(e)
	emitter.barrier()
	expect("R145: an event the buffer already has", "http", "routed")

	consumer := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"consumer"}`)
	consumer.send(relaytest.Event{Session: "consumer"}.JSON())
	consumer.barrier()
	expect("R145: claim of a consumer", "consumer", "no-route")
	if got := f.held(t); len(got) != 2 {
		t.Errorf("a consumer's event is ordinary: held %q", got)
	}

	emitter.send(relaytest.Event{Session: "two"}.JSON(), relaytest.Event{Session: "two", Seq: 1, Type: "session.ended"}.JSON())
	emitter.barrier()
	expect("R146: session.ended", "two", "routed")

	second := f.socket(t, "")
	second.send(relaytest.Event{Session: "two", Seq: 2}.JSON())
	second.barrier()
	expect("R392", "two", "ambiguous")
	_ = second.SendClose(1000, "")
	second.closes(1000)
	expect("R334: one of two claimants closed", "two", "routed")
	_ = emitter.Reset()
	f.awaitHealth(t, "R334: emitter reset", func(h health) bool { return h.Connections == 2 })
	expect("R334: claimant reset", "two", "no-route")
}

// TestR146ClaimBound: a connection keeps 10,000 claims, the freshest (W35).
func TestR146ClaimBound(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	w := f.socket(t, "")
	name := func(i int) string { return fmt.Sprintf("s%05d", i) }
	send := func(i int) {
		w.send(relaytest.Event{Session: name(i), ID: "i", Source: "s", Agent: "a"}.JSON())
	}
	for i := range 10_000 {
		send(i)
	}
	send(0) // refreshes the oldest
	send(10_000)
	got := f.claims(t, w)
	if len(got) != 10_000 || slices.Contains(got, name(1)) || !slices.Contains(got, name(0)) || !slices.Contains(got, name(10_000)) {
		t.Errorf("%d claims, from %q to %q; want 10,000 without %s", len(got), got[:2], got[len(got)-1], name(1))
	}
	w.send(relaytest.Command("control.pause", name(1)).JSON())
	if answers := w.barrier(); len(answers) != 1 || !strings.Contains(answers[0], "no-route") {
		t.Errorf("command for a dropped claim: %q", answers)
	}
}

// TestR148OwnEventsComeBack: a connection sees its own events.
func TestR148OwnEventsComeBack(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"a","filter":{"type":"tool.*"}}`)
	in := relaytest.Event{Session: "s", Type: "tool.completed"}.JSON()
	w.send(relaytest.Event{Session: "s"}.JSON(), in)
	wantTexts(t, "own events", w.barrier(), []string{in})
}
