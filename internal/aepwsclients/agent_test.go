package aepwsclients

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/nodetest"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

const (
	// patience is how long a test waits for what must come. It is only used up
	// when a test fails, and is long because a browser starts slowly on a busy
	// machine.
	patience = time.Minute

	token       = "token-of-the-tests"
	socketPath  = "/aep"
	subprotocol = "aep-0.1"
	fromStart   = "x:0" // a cursor of which everything kept follows (B51)
)

// clients are the packages (section 10 of the contract).
var clients = nodetest.Packages{
	Variable: "SLUICE_CLIENTS", Names: []string{"ws@8.23.0"}, Before: "2026-11-20",
}

// settings are what a script is told.
type settings struct {
	URL       string           `json:"url"`
	Protocols []string         `json:"protocols"`
	Session   string           `json:"session"`
	Filter    map[string]any   `json:"filter,omitempty"`
	Emit      []map[string]any `json:"emit,omitempty"`
	Resume    bool             `json:"resume"`
}

// session is the settings of a session through an address.
func session(url string) settings {
	return settings{URL: url, Protocols: []string{subprotocol}, Session: "client"}
}

// following is session with a subscription to all, from the start on, which comes
// back when it is cut.
func following(url string) settings {
	s := session(url)
	s.Filter = map[string]any{"types": "*", "from_cursor": fromStart, "delivery_mode": "at_least_once"}
	s.Resume = true
	return s
}

// line is what a script saw.
type line struct {
	Event, Text, Reason  string
	Protocol, Extensions string
	Code                 int
	Message              message
}

// message is a message of the relay.
type message struct {
	Type, ID string
	Payload  struct {
		Reason       string
		Session      string `json:"session_id"`
		Acknowledged string `json:"acknowledged_event_id"`
		Cursor       string
		Replay       *struct{ Status string }
		Replayed     int `json:"events_replayed"`
	}
	Delivery *struct {
		Cursor   string
		Sequence int64
	}
}

// client is a script that runs, wherever it does. Owned by the test.
type client struct {
	t    *testing.T
	read func(l *line)
	last int64 // the number of the last event
}

func (c *client) next() (l line) {
	c.t.Helper()
	c.read(&l)
	return l
}

// opened takes a socket and a session that are open, after attempts that failed.
func (c *client) opened() {
	c.t.Helper()
	l := c.next()
	for l.Event == "error" || l.Event == "closed" {
		l = c.next()
	}
	if l.Event != "open" || l.Protocol != subprotocol || l.Extensions != "" {
		c.t.Fatalf("B1, B5: %+v", l)
	}
	c.want("session.ready")
}

// want takes a message, which must be of this type.
func (c *client) want(kind string) message {
	c.t.Helper()
	l := c.next()
	if l.Event != "message" || l.Message.Type != kind {
		c.t.Fatalf("got %+v, want %s", l, kind)
	}
	return l.Message
}

// subscribed takes the answer to the subscription.
func (c *client) subscribed() {
	c.t.Helper()
	if m := c.want("subscription.created"); m.Payload.Replay == nil || m.Payload.Replay.Status != "complete" {
		c.t.Fatalf("B51: replay %+v after number %d", m.Payload.Replay, c.last)
	}
}

// wantEvents takes the events up to a number, each once and in order, and where
// event.replayed stands, unless that is live.
func (c *client) wantEvents(last int64, live bool) {
	c.t.Helper()
	begun := c.last
	for c.last < last {
		m := c.want("task.progress")
		c.last++
		if m.Delivery == nil || m.Delivery.Sequence != c.last || m.Delivery.Cursor != fmt.Sprintf("%s:%d", m.ID, c.last) {
			c.t.Fatalf("B51: %+v, want number %d", m, c.last)
		}
	}
	if live {
		return
	}
	if m := c.want("event.replayed"); int64(m.Payload.Replayed) != last-begun {
		c.t.Fatalf("B52: %d events replayed, want %d", m.Payload.Replayed, last-begun)
	}
}

// lost takes that the connection is gone without a close frame, which RFC 6455
// section 7.1.5 numbers 1006.
func (c *client) lost() {
	c.t.Helper()
	l := c.next()
	for l.Event == "error" {
		l = c.next()
	}
	if l.Event != "closed" || l.Code != 1006 {
		c.t.Fatalf("got %+v, want the end without a close frame", l)
	}
}

// source is a relay and a session that publishes to it. Owned by the test.
type source struct {
	t     *testing.T
	relay *relay.Relay
	ws    *relaytest.WS
	last  int64 // number of the last event
}

// startSource starts a relay on a directory and a port.
func startSource(t *testing.T, dir, port string, more ...string) *source {
	t.Helper()
	r := testrelay.Start(t, append([]string{
		"SLUICE_SURFACES=aepws", "SLUICE_DATA=" + dir, "AEP_PORT=" + port, "AEPWS_TOKEN=" + token,
	}, more...)...)
	t.Cleanup(func() { testrelay.Stop(t, r) })
	s := &source{t: t, relay: r}
	s.open()
	return s
}

// open opens the session that publishes.
func (s *source) open() {
	s.t.Helper()
	ws, err := relaytest.DialWS(s.relay.Addr(), socketPath+"?session_id=source", relaytest.WSOptions{
		Token: token, Headers: []string{"Sec-WebSocket-Protocol: " + subprotocol},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = ws.Close() })
	s.ws = ws
	if m := s.next(); m.Type != "session.ready" {
		s.t.Fatalf("B6: %+v", m)
	}
}

// next returns the next message of the relay to the session that publishes.
func (s *source) next() (m message) {
	s.t.Helper()
	for m.Type == "" || m.Type == "session.heartbeat" {
		got, err := s.ws.Next(patience)
		if err == nil && got.Opcode == relaytest.OpText {
			err = json.Unmarshal(got.Data, &m)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return m
}

// url is where clients connect, with the token as browsers have it (B7).
func url(addr string) string {
	return "ws://" + addr + relaytest.WithToken(socketPath, token)
}

// through is url for a proxy.
func through(p *nodetest.Proxy) string {
	return p.URL() + relaytest.WithToken(socketPath, token)
}

// event is one that a script or a source publishes.
func event(id string) map[string]any {
	return map[string]any{
		"aep_version": "0.1", "id": id, "type": "task.progress", "source": "agent:test",
		"created_at": "2026-11-30T10:00:00Z", "payload": map[string]string{"text": "Grüße, 世界"},
	}
}

// publish publishes events and takes their acknowledgements.
func (s *source) publish(count int) {
	s.t.Helper()
	for range count {
		s.last++
		id := fmt.Sprint("s", s.last)
		if err := s.ws.SendJSON(event(id)); err != nil {
			s.t.Fatal(err)
		}
		if m := s.next(); m.Type != "event.acknowledged" || m.Payload.Cursor != fmt.Sprintf("%s:%d", id, s.last) {
			s.t.Fatalf("B55: %+v", m)
		}
	}
}
