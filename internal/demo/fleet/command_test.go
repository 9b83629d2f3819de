package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// commandText is a command as it comes from the relay.
func commandText(typ, id, session, subject, data string) []byte {
	b := fmt.Sprintf(`{"aep":"0.1","id":%q,"type":%q,"time":"2026-03-01T09:00:00Z","source":"aep://test","agent":"test","session":%q`,
		id, typ, session)
	if subject != "" {
		b += fmt.Sprintf(`,"subject":%q`, subject)
	}
	if data != "" {
		b += `,"data":` + data
	}
	return []byte(b + "}")
}

// commandRig is a fleet of one agent and what it published.
type commandRig struct {
	*model
	f   *Fleet
	log []seen
	at  time.Duration
}

func newCommandRig(t *testing.T, seed uint64) *commandRig {
	return &commandRig{model: newModel(t), f: newTestFleet(t, Config{Seed: seed, Agents: 1, Rate: 5, Control: true})}
}

func (r *commandRig) next() seen {
	r.t.Helper()
	ev := next(r.t, r.f)
	r.at = ev.At
	e := r.take(ev)
	r.log = append(r.log, e)
	return e
}

// until plays the script until stop.
func (r *commandRig) until(stop func(seen) bool) seen {
	r.t.Helper()
	for range 100_000 {
		if e := r.next(); stop(e) {
			return e
		}
	}
	r.t.Fatal("it does not come")
	return seen{}
}

func (r *commandRig) send(typ, id, session, subject, data string) {
	r.t.Helper()
	if !r.f.Command(r.at, 0, commandText(typ, id, session, subject, data)) {
		r.t.Fatalf("%s is not taken", typ)
	}
}

// want reads the next events, which must be of these types and at once.
func (r *commandRig) want(types ...string) []seen {
	r.t.Helper()
	var got []seen
	for _, typ := range types {
		if due, ok := r.f.Due(); !ok || due > r.at {
			r.t.Fatalf("%s is due at %v, %v; now is %v", typ, due, ok, r.at)
		}
		e := r.next()
		if e.Type != typ {
			r.t.Fatalf("%s, want %s", e.text, typ)
		}
		got = append(got, e)
	}
	return got
}

// question plays until a question is left to commands.
func (r *commandRig) question(kind string) seen {
	r.t.Helper()
	return r.until(func(e seen) bool {
		return e.Type == "attention.requested" && e.Data["kind"] == kind && r.f.Stats().Waiting != nil
	})
}

func TestRespondAnswersAndTheAgentGoesOn(t *testing.T) {
	for _, option := range []string{"allow", "deny"} {
		r := newCommandRig(t, 1)
		q := r.question("permission")
		if w := *r.f.Stats().Waiting; w.ID != q.ID || w.Session != q.Session || w.Option != "allow" || w.Agent != q.Agent {
			t.Errorf("waiting %+v", w)
		}
		r.send(typeRespond, "c1", q.Session, q.ID, `{"answer":{"option":"`+option+`"}}`)
		got := r.want("control.accepted", "attention.answered", "attention.resolved")
		if r.f.Stats().Questions != 0 {
			t.Error("the question is still open")
		}
		if got[0].Cause != "c1" || got[1].Cause != "c1" || got[1].Subject != q.ID || got[2].Cause != got[1].ID ||
			got[1].Data["via"] != "control" || got[1].Data["answer"].(map[string]any)["option"] != option {
			t.Errorf("%s\n%s\n%s", got[0].text, got[1].text, got[2].text)
		}
		want := map[string]string{"allow": "tool.requested", "deny": "tool.denied"}[option]
		if e := r.next(); e.Type != want {
			t.Errorf("after %s: %s, want %s", option, e.text, want)
		}
	}
}

func TestRespondToAForm(t *testing.T) {
	r := newCommandRig(t, 1)
	q := r.question("form")
	r.send(typeRespond, "c0", q.Session, q.ID, `{"answer":{"values":{"staged":"yes"}}}`)
	if e := r.want("control.rejected")[0]; e.Data["detail"] != "staged wants a boolean" && e.Data["detail"] != nil {
		t.Errorf("%s", e.text)
	}
	r.send(typeRespond, "c1", q.Session, q.ID, `{"answer":{"values":{"staged":false,"percent":50,"other":1}}}`)
	got := r.want("control.accepted", "attention.answered", "attention.resolved")
	if !strings.Contains(got[1].text, `"values":{"percent":50,"staged":false}`) {
		t.Errorf("%s", got[1].text)
	}
}

func TestCancelRunAndSession(t *testing.T) {
	inRun := func(e seen) bool { return e.Type == "tool.requested" && strings.HasSuffix(e.Session, ".1") }
	r := newCommandRig(t, 2)
	e := r.until(inRun)
	r.send(typeCancel, "c1", e.Session, "", `{"scope":"run","reason":"enough"}`)
	got := r.want("control.accepted", "run.cancelled")
	if got[1].Cause != "c1" || got[1].Run != e.Run || got[1].Data["by"] != "control" || got[1].Data["reason"] != "enough" {
		t.Errorf("%s", got[1].text)
	}
	e = r.until(func(e seen) bool { return e.Type == "run.started" })
	r.send(typeCancel, "c2", e.Session, "", `{"scope":"session"}`)
	r.want("control.accepted", "run.cancelled", "session.ended")
	r.until(func(e seen) bool { return e.Type == "session.started" })
}

// A cancellation in the middle of all that can be open leaves nothing open.
func TestCancelAnywhere(t *testing.T) {
	for n := range 60 {
		r := newCommandRig(t, uint64(n/10))
		for range 8 * n {
			r.next()
		}
		var session string
		for i := len(r.log) - 1; i >= 0 && session == ""; i-- {
			session = r.log[i].Session
		}
		if session == "" {
			continue
		}
		r.send(typeCancel, "c", session, "", `{"scope":"session"}`)
		ack := r.next()
		if ack.Type == "control.accepted" {
			e := r.until(func(e seen) bool { return e.Type == "session.ended" && e.Session == session })
			if r.at != r.last || e.Data["reason"] != "killed" || r.open() != 0 {
				t.Fatalf("%d sessions open after %s", r.open(), e.text)
			}
		} else if ack.Type != "control.rejected" {
			t.Fatalf("%s", ack.text)
		}
		for range 50 {
			r.next()
		}
	}
}

func TestPauseAndResume(t *testing.T) {
	r := newCommandRig(t, 3)
	e := r.until(func(e seen) bool { return e.Type == "run.step.started" })
	r.send(typeResume, "c0", e.Session, "", "")
	if got := r.want("control.rejected")[0]; got.Data["reason"] != "invalid" {
		t.Errorf("%s", got.text)
	}
	r.send(typePause, "c1", e.Session, "", "")
	r.want("control.accepted", "progress.status")
	if _, ok := r.f.Due(); ok || r.f.Stats().Paused != 1 {
		t.Errorf("something is due while all are paused: %+v", r.f.Stats())
	}
	if _, ok := r.f.Next(); ok {
		t.Error("an event while all are paused")
	}
	r.at += time.Hour
	r.send(typeResume, "c2", e.Session, "", "")
	r.want("control.accepted", "progress.status")
	if due, ok := r.f.Due(); !ok || due < r.at || due > r.at+time.Minute {
		t.Errorf("next is due at %v, %v, after %v", due, ok, r.at)
	}
	r.until(func(e seen) bool { return e.Type == "run.started" && e.Data["trigger"] != "agent" })
	// Paused agents finish too.
	r.send(typePause, "c3", r.log[len(r.log)-1].Session, "", "")
	r.want("control.accepted", "progress.status")
	r.f.Finish()
	r.until(func(e seen) bool { return e.Type == "agent.presence" })
	if r.open() != 0 {
		t.Error("a session is open")
	}
}

func TestRejections(t *testing.T) {
	r := newCommandRig(t, 4)
	e := r.until(func(e seen) bool { return e.Type == "run.step.started" })
	f := func(typ, session, subject, data, reason string) {
		t.Helper()
		r.send(typ, fmt.Sprint("c", len(r.log)), session, subject, data)
		if got := r.want("control.rejected")[0]; got.Data["reason"] != reason || got.Session != session {
			t.Errorf("%s %s: %s, want %s", typ, data, got.text, reason)
		}
	}
	f(typeCancel, e.Session, "", `{"scope":"world"}`, "invalid")
	f(typeCancel, e.Session, "", `{"scope":5}`, "invalid")
	f(typeCancel, e.Session, "", "", "invalid")
	f(typeRespond, e.Session, "nothing", `{"answer":{"option":"allow"}}`, "invalid")
	q := r.question("permission")
	f(typeRespond, q.Session, q.ID, `{"answer":{"option":"perhaps"}}`, "invalid")
	f(typeRespond, q.Session, q.ID, `{}`, "invalid")
	old := r.until(func(e seen) bool { return e.Type == "session.ended" }).Session
	f(typePause, old, "", "", "invalid")
	sub := r.until(func(e seen) bool { return e.Type == "session.started" && e.Data["parent"] != nil }).Session
	f(typePause, sub, "", "", "refused")
	for name, text := range map[string][]byte{
		"unknown session": commandText(typePause, "u", "elsewhere", "", ""),
		"no command":      commandText("run.started", "u", q.Session, "", ""),
		"vendor command":  commandText("x.acme.control.jump", "u", q.Session, "", ""),
		"no JSON":         []byte("{"), "no object": []byte("null"), "empty": nil,
	} {
		if r.f.Command(r.at, 0, text) {
			t.Errorf("%s was taken", name)
		}
	}
	if r.f.Command(r.at, 1, commandText(typePause, "u", old, "", "")) || r.f.Command(r.at, -1, nil) {
		t.Error("an agent that does not exist took a command")
	}
}

// F4: a retry before the acknowledgement is out waits for it, one after it is
// answered with the same text, and nothing is done twice.
func TestRetriesAreAnsweredOnce(t *testing.T) {
	r := newCommandRig(t, 5)
	e := r.until(func(e seen) bool { return e.Type == "run.step.started" })
	for range 3 {
		r.send(typeCancel, "c1", e.Session, "", `{"scope":"run"}`)
	}
	first := r.want("control.accepted", "run.cancelled")[0]
	r.send(typeCancel, "c1", e.Session, "", `{"scope":"run"}`)
	if again := r.want("control.accepted")[0]; again.text != first.text {
		t.Errorf("%s\n%s", first.text, again.text)
	}
	if got := r.f.Stats().Commands; got != 1 {
		t.Errorf("%d commands", got)
	}
	for i := range ackCount + 10 { // forgotten, and so a command like a new one
		r.send(typePause, fmt.Sprint("p", i), e.Session, "", "")
		for r.next().Type != "progress.status" {
		}
	}
	if n := len(r.f.agents[0].acks); n > ackCount {
		t.Errorf("%d acknowledgements are kept", n)
	}
}

// One that floods an agent is not answered, and nothing grows.
func TestFloodOfCommandsIsBounded(t *testing.T) {
	r := newCommandRig(t, 5)
	e := r.until(func(e seen) bool { return e.Type == "run.step.started" })
	taken := 0
	for i := range 10_000 {
		if r.f.Command(r.at, 0, commandText(typePause, fmt.Sprint("p", i), e.Session, "", "")) {
			taken++
		}
	}
	if n := len(r.f.agents[0].urgent); taken > urgentCount || n > urgentCount+2 {
		t.Errorf("%d taken, %d events to come", taken, n)
	}
}

// Whatever comes when, the story of each session holds together (model).
func TestAnyCommandsAnyTime(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newTestFleet(t, Config{Seed: seed, Agents: 3, Rate: 20, Control: true})
		m := newModel(t)
		var sessions, questions []string
		var at time.Duration
		sent := map[string]bool{}
		for range 3000 {
			if _, ok := f.Due(); ok && rng.IntN(4) > 0 {
				ev := next(t, f)
				at = ev.At
				e := m.take(ev)
				if e.Type == "session.started" {
					sessions = append(sessions, e.Session)
				}
				if e.Type == "attention.requested" {
					questions = append(questions, e.ID)
				}
				continue
			}
			if len(sessions) == 0 {
				continue
			}
			session, subject := sessions[max(0, len(sessions)-1-rng.IntN(6))], "none"
			if len(questions) > 0 {
				subject = questions[len(questions)-1]
			}
			id := fmt.Sprint(session, "/", rng.IntN(20))
			data := []string{
				`{"scope":"run"}`, `{"scope":"session","answer":{"option":"allow","values":{}}}`, `{}`, `{"answer":7}`,
			}[rng.IntN(4)]
			at += time.Duration(rng.IntN(1e8))
			for agent := range 3 {
				if f.Command(at, agent, commandText(Accepts()[rng.IntN(4)], id, session, subject, data)) {
					sent[id] = true
				}
			}
		}
		f.Finish()
		for {
			ev, ok := f.Next()
			if !ok {
				break
			}
			m.take(ev)
		}
		if m.open() != 0 {
			t.Fatalf("seed %d: %d sessions are open", seed, m.open())
		}
		for id := range sent {
			if m.acks[id] == "" {
				t.Fatalf("seed %d: command %s was taken and not answered", seed, id)
			}
		}
	}
}

func FuzzCommand(f *testing.F) {
	f.Add(uint64(1), commandText(typeCancel, "c", "coder-1.0001.1", "", `{"scope":"run"}`))
	f.Add(uint64(40), commandText(typeRespond, "c", "coder-1.0001.1", "x", `{"answer":{"values":{"note":"é"}}}`))
	f.Add(uint64(0), []byte(`{"id":"","type":null,"data":[]}`))
	f.Fuzz(func(t *testing.T, n uint64, text []byte) {
		// Without the calibration of New, which costs more than all else here.
		fl := newFleet(Config{Seed: 1, Agents: 1, Rate: 5, Start: start, Control: true}, 0.1)
		m := newModel(t)
		for range n % 200 {
			m.take(next(t, fl))
		}
		taken := fl.Command(fl.now, 0, text)
		for range 20 {
			ev, ok := fl.Next()
			if !ok {
				return
			}
			m.take(ev)
		}
		if taken && len(m.acks) != 1 {
			t.Errorf("taken and not answered: %q", text)
		}
	})
}
