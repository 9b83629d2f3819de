package publish

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// agent is an agent of session "s" that a test plays by hand.
type agent struct {
	*relaytest.WS
	t *testing.T
}

func newAgent(t *testing.T, p *faults.Process) *agent {
	t.Helper()
	w, err := relaytest.DialWS(p.Addr, "/socket", relaytest.WSOptions{Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	a := &agent{w, t}
	a.say(`{"type":"hello","versions":["0.1"],"role":"emitter"}`, events("s", 0, 1)[0], `{"type":"ping","t":"claimed"}`)
	for {
		m, err := w.Next(patience)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), "claimed") {
			return a
		}
	}
}

func (a *agent) say(texts ...string) {
	for _, text := range texts {
		if err := a.SendText(text); err != nil {
			a.t.Error(err)
		}
	}
}

// hear returns the next command.
func (a *agent) hear() relaytest.Envelope {
	for {
		m, err := a.Next(patience)
		if err != nil {
			a.t.Error(err)
			return relaytest.Envelope{}
		}
		if e, err := relaytest.ParseEnvelope(string(m.Data)); err == nil && relaytest.IsCommand(e.Type) {
			return e
		}
	}
}

func order(typ string) Order {
	return Order{Type: typ, Session: "s", Source: "urn:test", Agent: "tester", Window: patience}
}

// The decisions that a cooperating agent gives, with their ends.
func TestCommandDecisions(t *testing.T) {
	p := testrelay.SpawnKilled(t, "AEP_TOKEN="+testToken)
	target, err := relaytest.StartControlTarget(relaytest.TargetConfig{
		Addr: p.Addr, Token: testToken, Session: "s", Accepts: []string{TypeCancel, TypePause},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}()
	relay := relayAt(t, "http://"+p.Addr, testToken)
	cancel := order(TypeCancel)
	cancel.Run, cancel.Data, cancel.Wait = "r1", json.RawMessage(`{"scope":"run"}`), patience
	var messages []string
	cancel.Message = func(text []byte) { messages = append(messages, string(text)) }
	res, err := Command(t.Context(), relay, cancel)
	if err != nil || res.Decision != Accepted || res.EndType != "run.cancelled" || len(messages) != 2 {
		t.Fatalf("%+v, %v, %q", res, err, messages)
	}
	// The same id again finds the acknowledgement among what is held, and the
	// agent does not act twice.
	cancel.ID = res.ID
	if again, err := Command(t.Context(), relay, cancel); err != nil || again.Decision != Accepted || string(again.End) != string(res.End) {
		t.Errorf("%+v, %v", again, err)
	}
	if n := target.Executed(); n != 1 {
		t.Errorf("the agent acted %d times", n)
	}
	if res, err := Command(t.Context(), relay, order(TypeResume)); err != nil || res.Decision != Rejected || !strings.Contains(res.Reason, "unsupported") {
		t.Errorf("R393: %+v, %v", res, err)
	}
	sent, err := relaytest.ParseEnvelope(target.Received()[0])
	if err != nil || sent.Type != TypeCancel || sent.Run != "r1" || string(sent.Data) != `{"scope":"run"}` {
		t.Errorf("sent %+v, %v", sent, err)
	}
}

// An answer to an attention request names it as subject and cause, and ends
// with what the agent says about that request, not about another.
func TestCommandRespond(t *testing.T) {
	p := testrelay.SpawnKilled(t, "AEP_TOKEN="+testToken)
	a := newAgent(t, p)
	o := order(TypeRespond)
	o.Subject, o.Data, o.Wait = "q1", json.RawMessage(`{"answer":{"option":"allow"}}`), patience
	go func() {
		c := a.hear()
		if c.Cause != "q1" || string(c.Data) != `{"answer":{"option":"allow"}}` {
			t.Errorf("got %+v", c)
		}
		a.say(
			relaytest.Event{Type: "control.accepted", Session: "s", Seq: 1, Cause: c.IDString()}.JSON(),
			relaytest.Event{Type: "attention.resolved", Session: "s", Seq: 2, Subject: "q0"}.JSON(),
			relaytest.Event{Type: "attention.resolved", Session: "s", Seq: 3, Subject: "q1"}.JSON(),
		)
	}()
	res, err := Command(t.Context(), relayAt(t, "http://"+p.Addr, testToken), o)
	if err != nil || res.EndType != "attention.resolved" || !strings.Contains(string(res.End), `"seq":3`) {
		t.Errorf("%+v, %v, end %s", res, err, res.End)
	}
}

// R399: a command without an answer is sent again, byte for byte the same, and
// a rejection is told with its reason, safe for a terminal.
func TestCommandRetries(t *testing.T) {
	p := testrelay.SpawnKilled(t, "AEP_TOKEN="+testToken)
	a := newAgent(t, p)
	o := order(TypePause)
	o.Window = 12 * time.Second // a quarter of it lies between two copies
	go func() {
		first := a.hear()
		if second := a.hear(); second.IDString() != first.IDString() {
			t.Errorf("another id: %s and %s", first.ID, second.ID)
		}
		a.say(relaytest.Event{
			Type: "control.rejected", Session: "s", Seq: 1, Cause: first.IDString(),
			Data: `{"reason":"busy","detail":"\u001b[2J"}`,
		}.JSON())
	}()
	res, err := Command(t.Context(), relayAt(t, "http://"+p.Addr, testToken), o)
	if err != nil || res.Decision != Rejected || res.Reason != `busy: \x1b[2J` {
		t.Errorf("%+v, %v", res, err)
	}
}

// What ends without a decision.
func TestCommandFails(t *testing.T) {
	p := testrelay.SpawnKilled(t, "AEP_TOKEN="+testToken)
	open := testrelay.SpawnKilled(t)
	newAgent(t, p)
	short := order(TypePause)
	short.Window = 200 * time.Millisecond
	elsewhere := order(TypePause)
	elsewhere.Session = "nobody"
	gone := relayAt(t, "http://127.0.0.1:"+testrelay.FixedPort(t), testToken)
	for _, c := range []struct {
		name    string
		address string
		token   string
		order   Order
		want    error
		part    string
	}{
		{"R391", p.Addr, testToken, elsewhere, ErrNoRoute, "not connected"},
		{"R390", open.Addr, "", order(TypePause), ErrUnauthorized, "AEP_TOKEN"},
		{"R300", p.Addr, "wrong", order(TypePause), ErrFinal, "AEP_TOKEN"},
		{"nobody listens", gone.Base.Host, "", short, ErrGaveUp, "no answer from the relay"},
	} {
		res, err := Command(t.Context(), relayAt(t, "http://"+c.address, c.token), c.order)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: %+v, %v", c.name, res, err)
		}
		if err != nil && strings.Contains(err.Error(), testToken) {
			t.Errorf("R15: %v", err)
		}
	}
	relay := relayAt(t, "http://"+p.Addr, testToken)
	res, err := Command(t.Context(), relay, short)
	for ; errors.Is(err, ErrGaveUp) && short.Window < patience; res, err = Command(t.Context(), relay, short) {
		short.Window *= 2 // it ended before the command was sent
	}
	if err != nil || res.Decision != Unanswered || res.ID == "" {
		t.Errorf("no answer: %+v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Command(ctx, relay, order(TypePause)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	newAgent(t, p)
	if _, err := Command(t.Context(), relay, order(TypePause)); !errors.Is(err, ErrNoRoute) || !strings.Contains(err.Error(), "more than one") {
		t.Errorf("R392: %v", err)
	}
}

// A relay that restarts between the command and its acknowledgement: the
// command is sent again over the next connection.
func TestCommandOverRestart(t *testing.T) {
	env := []string{"AEP_TOKEN=" + testToken, "AEP_PORT=" + testrelay.FixedPort(t)}
	p := testrelay.SpawnKilled(t, env...)
	a := newAgent(t, p)
	o := order(TypePause)
	o.Wait = patience
	restarted := make(chan struct{})
	var notices []string
	o.Notice = func(text string) { notices = append(notices, text); <-restarted }
	go func() {
		defer close(restarted)
		first := a.hear()
		p.Kill()
		p = testrelay.SpawnKilled(t, env...)
		a = newAgent(t, p)
		go func() {
			if c := a.hear(); c.IDString() != first.IDString() {
				t.Errorf("another id: %s and %s", first.ID, c.ID)
			}
			a.say(
				relaytest.Event{Type: "control.accepted", Session: "s", Seq: 1, Cause: first.IDString()}.JSON(),
				relaytest.Event{Type: "progress.status", Session: "s", Seq: 2, Cause: first.IDString()}.JSON(),
			)
		}()
	}()
	res, err := Command(t.Context(), relayAt(t, "http://"+p.Addr, testToken), o)
	if err != nil || res.Decision != Accepted || res.EndType != "progress.status" || len(notices) == 0 {
		t.Errorf("%+v, %v, notices %q", res, err, notices)
	}
}

// What tells that a command has ended.
func TestIsEnd(t *testing.T) {
	cancelRun := Order{Type: TypeCancel, Session: "s", Run: "r", ID: "c"}
	cancelAll := Order{Type: TypeCancel, Session: "s", ID: "c"}
	respond := Order{Type: TypeRespond, Session: "s", Subject: "q", ID: "c"}
	pause := Order{Type: TypePause, Session: "s", ID: "c"}
	for _, c := range []struct {
		order        Order
		text         string
		acknowledged bool
		want         bool
	}{
		{cancelRun, `{"type":"run.cancelled","run":"r","cause":"c"}`, false, true},
		{cancelRun, `{"type":"run.cancelled","run":"r"}`, false, false},
		{cancelRun, `{"type":"run.finished","run":"r"}`, true, true},
		{cancelRun, `{"type":"run.failed","run":"other"}`, true, false},
		{cancelRun, `{"type":"session.ended"}`, true, true},
		{cancelRun, `{"type":"progress.status","cause":"c"}`, true, false},
		{cancelAll, `{"type":"session.ended"}`, true, true},
		{cancelAll, `{"type":"run.cancelled","cause":"c"}`, true, false},
		{cancelAll, `{"type":"session.ended","cause":"c"}`, false, true},
		{cancelAll, `{"type":"run.finished","run":"r"}`, true, false},
		{respond, `{"type":"attention.answered","subject":"q","cause":"c"}`, false, true},
		{respond, `{"type":"attention.timeout","subject":"q"}`, true, true},
		{respond, `{"type":"attention.timeout","subject":"p"}`, true, false},
		{pause, `{"type":"progress.status","cause":"c"}`, false, true},
		{pause, `{"type":"control.accepted","cause":"c"}`, false, false},
		{pause, `{"type":"session.ended"}`, true, false},
	} {
		var m message
		if err := json.Unmarshal([]byte(c.text), &m); err != nil {
			t.Fatal(err)
		}
		if got := c.order.isEnd(&m, c.acknowledged); got != c.want {
			t.Errorf("%s %v, %s, acknowledged %v: %v", c.order.Type, c.order.Run, c.text, c.acknowledged, got)
		}
	}
	if !slices.Equal(pause.endTypes(), []string(nil)) {
		t.Errorf("%q", pause.endTypes())
	}
}
