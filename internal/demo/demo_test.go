package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/demo/fleet"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience is how long a test waits for what must come. It is only used up
// when a test fails.
const patience = time.Minute

const testToken = "t0ken-SECRET123"

// startRelay starts a relay on a free port, until stop is called or the test
// ends.
func startRelay(t *testing.T, token string) (addr string, stop func()) {
	t.Helper()
	r := testrelay.Start(t, "AEP_TOKEN="+token)
	stop = func() { testrelay.Stop(t, r) }
	t.Cleanup(stop)
	return r.Addr(), stop
}

func newClient(t *testing.T, addr, token string) *client.Relay {
	t.Helper()
	c, err := client.New(addr, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// statusLog is a Status that tests read while it is written.
type statusLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *statusLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *statusLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// play runs a demo in the background. Wait returns its error.
func play(t *testing.T, o Options) (wait func() error, stop context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- Run(ctx, o) }()
	wait = sync.OnceValue(func() error {
		select {
		case err := <-result:
			return err
		case <-time.After(patience):
			t.Fatal("D3: Run does not end")
			return nil
		}
	})
	t.Cleanup(func() { cancel(); _ = wait() })
	return wait, cancel
}

// event is one of a stream.
type event struct {
	ID, Type, Source, Session, Subject, Cause, Agent string
	Epoch, Seq                                       int64
	Data                                             map[string]any
	text                                             string
}

func parseEvent(t *testing.T, text string) event {
	t.Helper()
	e := event{text: text}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// replay returns all that a relay holds.
func replay(t *testing.T, addr, token string) []event {
	t.Helper()
	s, err := relaytest.OpenStream(addr, "/stream?"+url.Values{"live": {"0"}, "from": {"all"}}.Encode(),
		relaytest.StreamOptions{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var all []event
	for {
		b, err := s.Next(patience)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return all
		}
		if b.IsEvent() {
			all = append(all, parseEvent(t, b.Data))
		}
	}
}

// contiguous fails unless the events of each session and epoch are numbered
// from 0 without a hole. It returns how many sessions there are, and how many
// of them ended.
func contiguous(t *testing.T, events []event) (sessions, ended int) {
	t.Helper()
	type epoch struct {
		session string
		epoch   int64
	}
	seen := map[epoch]map[int64]string{}
	names := map[string]bool{}
	for _, e := range events {
		key := epoch{e.Session, e.Epoch}
		if seen[key] == nil {
			seen[key] = map[int64]string{}
		}
		if other, twice := seen[key][e.Seq]; twice && other != e.text {
			t.Fatalf("D2: two events at one position:\n%s\n%s", other, e.text)
		}
		seen[key][e.Seq] = e.text
		names[e.Session] = true
		if e.Type == "session.ended" {
			ended++
		}
	}
	for key, numbers := range seen {
		for seq := range int64(len(numbers)) {
			if numbers[seq] == "" {
				t.Errorf("%v: %d is missing of %d", key, seq, len(numbers))
			}
		}
	}
	return len(names), ended
}

// What is played arrives complete, and ends in order, over both ways.
func TestPlayedIsWhatTheRelayHolds(t *testing.T) {
	for _, c := range []struct {
		name, token string
		http        bool
	}{
		{"WebSocket", "", false}, {"WebSocket with a token", testToken, false}, {"HTTP", "", true}, {"HTTP with a token", testToken, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, _ := startRelay(t, c.token)
			status := &statusLog{}
			wait, stop := play(t, Options{
				Relay: newClient(t, addr, c.token), Fleet: fleet.Config{Seed: 9, Agents: 5, Rate: 800},
				HTTP: c.http, Status: status, Interval: 200 * time.Millisecond, last: patience,
			})
			for begin := time.Now(); len(replay(t, addr, c.token)) < 200 || strings.Count(status.String(), "\n") < 5; {
				if time.Since(begin) > patience {
					t.Fatalf("it is not played; status:\n%s", status)
				}
				time.Sleep(20 * time.Millisecond) // polling
			}
			stop()
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			events := replay(t, addr, c.token)
			sessions, ended := contiguous(t, events)
			t.Logf("%d events, %d sessions", len(events), sessions)
			if sessions != ended {
				t.Errorf("%d events; %d sessions of which %d ended", len(events), sessions, ended)
			}
			text := status.String()
			if strings.Contains(text, "SECRET") || strings.Contains(text, "refused") {
				t.Errorf("status:\n%s", text)
			}
		})
	}
}

// SIGINT comes as the end of the context: sessions are ended all the same.
func TestEndOfContextEndsSessions(t *testing.T) {
	addr, _ := startRelay(t, "")
	s, err := relaytest.OpenStream(addr, "/stream", relaytest.StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	wait, stop := play(t, Options{
		Relay: newClient(t, addr, ""), Fleet: fleet.Config{Seed: 9, Agents: 3, Rate: 100}, last: patience,
	})
	for n := 0; n < 50; {
		b, err := s.Next(patience)
		if err != nil {
			t.Fatal(err)
		}
		if b.IsEvent() {
			n++
		}
	}
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if sessions, ended := contiguous(t, replay(t, addr, "")); sessions == 0 || sessions != ended {
		t.Errorf("%d sessions of which %d ended", sessions, ended)
	}
}

// Agents claim their sessions, and obey and acknowledge what comes.
func TestCommandsReachTheAgents(t *testing.T) {
	addr, _ := startRelay(t, testToken)
	w, err := relaytest.DialWS(addr, "/socket", relaytest.WSOptions{Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	for _, text := range []string{
		`{"type":"hello","versions":["0.1"],"role":"consumer"}`, `{"type":"subscribe","id":"a"}`,
	} {
		if err := w.SendText(text); err != nil {
			t.Fatal(err)
		}
	}
	status := &statusLog{}
	wait, stop := play(t, Options{
		Relay: newClient(t, addr, testToken), Fleet: fleet.Config{Seed: 2, Agents: 3, Rate: 30},
		Status: status, Interval: 100 * time.Millisecond, last: patience,
	})
	sent := "" // the id of the last command
	next := func() event {
		t.Helper()
		for {
			m, err := w.Next(patience)
			if err != nil {
				t.Fatal(err)
			}
			e := parseEvent(t, string(m.Data))
			if e.Type == "error" && e.Cause != sent {
				t.Fatalf("%s", e.text)
			}
			if e.Type == "error" || strings.Contains(e.Type, ".") && !relaytest.IsCommand(e.Type) {
				return e
			}
		}
	}
	command := func(typ, session, subject, data string) string {
		t.Helper()
		c := relaytest.Command(typ, session)
		c.ID, c.Subject, c.Data = relaytest.NewID(), subject, data
		if err := w.SendText(c.JSON()); err != nil {
			t.Fatal(err)
		}
		sent = c.ID
		return c.ID
	}
	// obeyed sends a command and reports whether the agent accepts it. It does not
	// if what the command is about has ended meanwhile, or the agent starts anew.
	obeyed := func(typ, session, subject, data string) (id string, ok bool) {
		t.Helper()
		id = command(typ, session, subject, data)
		for {
			if e := next(); e.Cause == id {
				return id, e.Type == "control.accepted"
			}
		}
	}
	until := func(typ, cause string) event {
		t.Helper()
		for {
			if e := next(); e.Type == typ && (cause == "" || e.Cause == cause) {
				return e
			}
		}
	}
	// A question is answered by the command: tried until one is in time.
	for answered := false; !answered; {
		q := until("attention.requested", "")
		data := `{"answer":{"values":{"percent":5}}}`
		if options, _ := q.Data["options"].([]any); len(options) > 0 {
			data = fmt.Sprintf(`{"answer":{"option":%q}}`, options[0].(map[string]any)["id"])
		}
		id, ok := obeyed("control.attention.respond", q.Session, q.ID, data)
		if ok {
			until("attention.answered", id)
		}
		answered = ok
	}
	for ended := false; !ended; {
		s := until("run.step.started", "").Session
		if _, ok := obeyed("control.pause", s, "", ""); !ok {
			continue
		}
		if _, ok := obeyed("control.resume", s, "", ""); !ok {
			t.Error("an agent that is paused does not resume")
		}
		id, ok := obeyed("control.cancel", s, "", `{"scope":"session"}`)
		if ok {
			until("session.ended", id)
		}
		ended = ok
	}
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if text := status.String(); !strings.Contains(text, "commands") {
		t.Errorf("status:\n%s", text)
	}
}
