package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// target is a socket that has claimed session and declares capabilities.
func (f *fixture) target(t *testing.T, session, capabilities string) *socket {
	t.Helper()
	w := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"emitter","capabilities":`+capabilities+`}`)
	w.send(relaytest.Event{Session: session, ID: "claim " + session}.JSON())
	w.barrier()
	return w
}

// wantRefusal wants one error frame for command on w, and no more.
func wantRefusal(t *testing.T, w *socket, command, code string) {
	t.Helper()
	got := w.barrier()
	if code == "" {
		wantTexts(t, "R394: the sender of "+command, got, nil)
		return
	}
	sent, err := relaytest.ParseEnvelope(command)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 {
		t.Fatalf("command %s: sender got %q, want one error %s", command, got, code)
	}
	e, err := relaytest.ParseEnvelope(got[0])
	if err != nil || e.Type != "error" || e.Code != code || e.Cause != sent.IDString() || e.Detail == "" || len(e.ID) != 0 {
		t.Errorf("R396: command %s: sender got %s, want error %s with cause and detail", command, got[0], code)
	}
}

// TestR390NoToken: control does not flow without a token.
func TestR390NoToken(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	target, sender := f.target(t, "s", "{}"), f.socket(t, "")
	sender.subscribe(`{"type":"subscribe","id":"q"}`)
	s := f.stream(t, "", relaytest.StreamOptions{})
	for _, typ := range []string{"control.cancel", "control.pause", "control.resume", "control.attention.respond", "x.acme.control.zap"} {
		for _, session := range []string{"s", "nobody"} {
			command := relaytest.Command(typ, session).JSON()
			sender.send(command)
			wantRefusal(t, sender, command, "unauthorized")
		}
	}
	wantTexts(t, "the target", target.barrier(), nil)
	e := relaytest.Event{Session: "s"}.JSON()
	f.post(t, e)
	if got := s.event().Data; got != e {
		t.Errorf("R390: audit fan-out without a token: %s", got)
	}
}

// TestR391Routing is the table of section 14, with what each step fans out.
func TestR391Routing(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	f.post(t, relaytest.Event{Session: "history"}.JSON())
	one := f.target(t, "one", `{"control":{"accepts":["control.cancel","x.acme.control.zap"]}}`)
	free := f.target(t, "free", `{}`)
	f.target(t, "both", `{}`)
	f.target(t, "both", `{}`)
	sender := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"consumer"}`)
	watcher := f.socket(t, "")
	watcher.subscribe(`{"type":"subscribe","id":"q","filter":{"severity":"info"}}`)
	s := f.stream(t, query("filter", `{"type":["control.*","x.acme.control.*","x.acme.*"]}`), relaytest.StreamOptions{})
	before := len(f.held(t))
	for _, c := range []struct {
		rule, typ, session, code string
		target                   *socket
		audit                    bool
	}{
		{"R391", "control.cancel", "nobody", "no-route", nil, false},
		{"R391 history is no claim", "control.cancel", "history", "no-route", nil, false},
		{"R392", "control.cancel", "both", "ambiguous", nil, false},
		{"R393", "control.pause", "one", "unsupported", nil, true},
		{"R393 prefix is no match", "x.acme.control.zap2", "one", "unsupported", nil, true},
		{"R394", "control.cancel", "one", "", one, true},
		{"R395 vendor", "x.acme.control.zap", "one", "", one, true},
		{"R395 undeclared", "control.attention.respond", "free", "", free, true},
		{"R395 undeclared vendor", "x.b.control.a.b", "free", "", free, true},
	} {
		command := relaytest.Command(c.typ, c.session).JSON()
		sender.send(command)
		wantRefusal(t, sender, command, c.code)
		for _, target := range []*socket{one, free} {
			var want []string
			if target == c.target {
				want = []string{command}
			}
			wantTexts(t, c.rule+": target", target.replayed(len(want)), want)
		}
		var audit []string
		if c.audit {
			audit = []string{command}
			if !strings.HasPrefix(c.typ, "x.b") {
				if b := s.event(); b.Data != command || b.HasID {
					t.Errorf("%s: audit copy %q", c.rule, b.Raw)
				}
			}
		}
		wantTexts(t, c.rule+": audit fan-out", watcher.replayed(len(audit)), audit)
	}
	sender.send(relaytest.Event{Type: "control.cancel", Session: "one"}.JSON()) // with a seq
	sender.refused("invalid-event")
	wantTexts(t, "R398: nothing of it is held", f.held(t)[before:], nil)
}

// TestR395Accepts: what counts as a declaration (W6).
func TestR395Accepts(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	sender := f.socket(t, "")
	for i, c := range []struct{ capabilities, code string }{
		{`{}`, ""},
		{`null`, ""},
		{`{"control":null}`, ""},
		{`{"control":{}}`, ""},
		{`{"control":{"accepts":null}}`, ""},
		{`{"control":{"accepts":["control.cancel"]}}`, ""},
		{`{"control":{"accepts":["x","control.cancel","y"]}}`, ""},
		{`{"control":{"accepts":["control\u002ecancel"]}}`, ""},
		{`{"control":{"accepts":[]}}`, "unsupported"},
		{`{"control":{"accepts":["control.pause"]}}`, "unsupported"},
		{`{"control":{"accepts":["control.*"]}}`, "unsupported"},
		{`{"control":{"accepts":["control.cancelled"]}}`, "unsupported"},
		{`{"control":{"accepts":"control.cancel"}}`, "unsupported"},
		{`{"control":{"accepts":{"0":"control.cancel"}}}`, "unsupported"},
		{`{"control":{"accepts":5}}`, "unsupported"},
		{`{"control":{"accepts":true}}`, "unsupported"},
		{`{"control":{"accepts":[5,"control.cancel"]}}`, "unsupported"},
		{`{"control":{"accepts":[null]}}`, "unsupported"},
		{`{"control":{"accepts":[["control.cancel"]]}}`, "unsupported"},
	} {
		session := fmt.Sprint("s", i)
		target := f.target(t, session, c.capabilities)
		command := relaytest.Command("control.cancel", session).JSON()
		sender.send(command)
		wantRefusal(t, sender, command, c.code)
		var want []string
		if c.code == "" {
			want = []string{command}
		}
		wantTexts(t, "target that declares "+c.capabilities, target.replayed(len(want)), want)
		_ = target.Close()
	}
}

// TestR397ExactText: the target gets the message as sent, white space and all;
// audit copies are trimmed (R194) and under their ceiling (R241, R398).
func TestR397ExactText(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	target := f.target(t, "s", `{"control":{"accepts":["control.attention.respond"]}}`)
	plain := f.stream(t, "", relaytest.StreamOptions{})
	low := f.stream(t, "capture=metadata", relaytest.StreamOptions{})
	sender := f.socket(t, "")
	c := relaytest.Command("control.attention.respond", "s")
	c.ID, c.Capture, c.Data = "retried", "redacted", `{"answer": {"text":"SECRET","values":{"n":1.0}} }`
	text := " \t" + c.JSON() + " \t"
	for range 2 { // R399: a retry is routed again
		sender.send(text)
		wantTexts(t, "target", target.replayed(1), []string{text})
		if got := plain.event().Data; got != c.JSON() {
			t.Errorf("R194: audit copy %q", got)
		}
		wantJSON(t, "R241: audit copy under a ceiling", low.event().Data, withCapture(t, c.JSON(), "metadata", `{"answer":{"values":{"n":1.0}}}`))
	}
	pretty := strings.Replace(c.JSON(), `,"data"`, ",\r\n\"data\"", 1)
	sender.send(pretty)
	wantTexts(t, "target, text with line breaks", target.replayed(1), []string{pretty})
	if got := plain.event().Data; got != compact(t, pretty) {
		t.Errorf("R194: audit copy %q", got)
	}
}

// TestR400OwnCommands: a connection can be its own target, and any role sends.
func TestR400OwnCommands(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	w := f.target(t, "s", `{}`)
	command := relaytest.Command("control.resume", "s").JSON()
	w.send(command)
	wantTexts(t, "own command", w.replayed(1), []string{command})
	w.subscribe(`{"type":"subscribe","id":"q"}`)
	w.send(command)
	wantTexts(t, "own command and its audit copy", w.replayed(2), []string{command, command})
}

// TestR399TargetDouble drives the cooperating target through the relay: one
// decision for a command and its retry, acknowledged live on a stream.
func TestR399TargetDouble(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	target, err := relaytest.StartControlTarget(relaytest.TargetConfig{
		Addr: f.addr, Token: testToken, Session: "s", Accepts: []string{"control.attention.respond", "control.cancel"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := target.Close(); err != nil {
			t.Errorf("control target: %v", err)
		}
	}()
	s := f.stream(t, query("filter", `{"session":"s"}`), relaytest.StreamOptions{})
	sender := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"consumer"}`)
	command := relaytest.Command("control.cancel", "s")
	command.Run = "r1"
	text := command.JSON()
	next := func(want string) relaytest.Envelope {
		t.Helper()
		e, err := relaytest.ParseEnvelope(s.event().Data)
		if err != nil || e.Type != want {
			t.Fatalf("got %q, want %s", e.Type, want)
		}
		return e
	}
	sender.send(text)
	next("control.cancel")
	ack := next("control.accepted")
	if outcome := next("run.cancelled"); outcome.Run != "r1" || outcome.Cause != ack.Cause {
		t.Errorf("outcome %+v", outcome)
	}
	sender.send(text)
	next("control.cancel")
	if again := next("control.accepted"); again.IDString() != ack.IDString() || again.Seq != ack.Seq {
		t.Errorf("R190: second acknowledgement %+v, want the first %+v", again, ack)
	}
	pause := relaytest.Command("control.pause", "s").JSON()
	sender.send(pause)
	wantRefusal(t, sender, pause, "unsupported")
	if got := target.Received(); len(got) != 2 || got[0] != text || got[1] != text || target.Executed() != 1 {
		t.Errorf("target received %q and executed %d", got, target.Executed())
	}
	held := f.held(t)
	if len(held) != 3 || slices.Contains(held, text) {
		t.Errorf("held %q, want start, acknowledgement and outcome", held)
	}
}

// TestR397StalledTarget: a target that takes nothing is disconnected for it,
// and the sender learns of each command that it did not get (W19).
func TestR397StalledTarget(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 4 << 10})
	w.send(relaytest.Event{Session: "s"}.JSON())
	w.barrier()
	sender := f.socket(t, "")
	c := relaytest.Command("control.pause", "s")
	c.Data = `{"pad":"` + strings.Repeat("x", 100<<10) + `"}`
	sent, routed := 0, true
	for ; routed && sent < 300; sent++ {
		c.ID = fmt.Sprint("c", sent)
		sender.send(c.JSON())
		for _, answer := range sender.barrier() {
			e, err := relaytest.ParseEnvelope(answer)
			if err != nil || e.Code != "no-route" {
				t.Fatalf("sender got %.200s", answer)
			}
			routed = false
		}
	}
	if routed {
		t.Fatal("30 MB of commands are queued for a target that reads nothing")
	}
	got := 0
	for {
		m, err := w.Next(patience)
		if err != nil {
			t.Logf("after %d commands: %v", got, err)
			break
		}
		if m.Opcode == relaytest.OpClose {
			break
		}
		if e, err := relaytest.ParseEnvelope(string(m.Data)); err == nil && e.Type == "control.pause" {
			if e.IDString() != fmt.Sprint("c", got) {
				t.Errorf("command %d has id %s: none may be dropped between others", got, e.ID)
			}
			got++
		}
	}
	if got == 0 || got >= sent {
		t.Errorf("target got %d of %d commands", got, sent)
	}
	f.awaitHealth(t, "R334", func(h health) bool { return h.Connections == 1 })
}
