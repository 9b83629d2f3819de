package aepwsfaults

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	socketPath  = "/aep"
	subprotocol = "aep-0.1"
	offer       = "Sec-WebSocket-Protocol: " + subprotocol
)

// fault is the error of an answer (B26).
type fault struct {
	Code      string
	Retryable bool
	Details   struct {
		Reason     string
		LastCursor string `json:"last_cursor"`
	}
}

// event is one message of the relay, or its close frame.
type event struct {
	ID, Type, Source string
	Causation        string `json:"causation_id"`
	Payload          struct {
		Session      string `json:"session_id"`
		Reason       string
		Error        *fault
		Subscription string `json:"subscription_id"`
		Replay       *struct {
			Status, Reason string
			OldestCursor   string `json:"oldest_cursor"`
		}
		Acknowledged string `json:"acknowledged_event_id"`
		Cursor       string
		Replayed     int64  `json:"events_replayed"`
		ToCursor     string `json:"to_cursor"`
		Original     string `json:"original_event_id"`
		Attempt      int
		Attempts     int
	}
	Delivery *struct {
		Mode, Cursor string
		Sequence     int64
		Subscription string `json:"subscription_id"`
		Dropped      int64
		Attempt      int
	}

	closed int // code of a close frame, or 0
	pong   string
}

func (e event) String() string {
	switch {
	case e.closed != 0:
		return fmt.Sprint("close ", e.closed)
	case e.pong != "":
		return "pong"
	case e.Delivery != nil:
		return fmt.Sprint(e.Type, " ", e.ID, " ", e.Delivery.Sequence)
	case e.Payload.Error != nil:
		return fmt.Sprintf("%s %s %s", e.Type, e.Payload.Error.Code, e.Payload.Error.Details.Reason)
	}
	return e.Type
}

// isDomain tells whether an event was published, not authored by the relay.
func (e event) isDomain() bool { return e.Delivery != nil }

// number returns the number in a cursor (B51), 0 when it is none.
func number(cursor string) (n int64) {
	if _, err := fmt.Sscanf(cursor[strings.LastIndexByte(cursor, ':')+1:], "%d", &n); err != nil {
		return 0
	}
	return n
}

// agent is one session on a raw socket. One goroutine reads, another may send.
type agent struct{ ws *relaytest.WS }

// connect opens a socket and the session on it.
func connect(addr, session string, o relaytest.WSOptions) (*agent, error) {
	o.Headers = append(o.Headers, offer)
	ws, err := relaytest.DialWS(addr, socketPath, o)
	if err != nil {
		return nil, err
	}
	a := &agent{ws}
	err = a.open(session)
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *agent) open(session string) error {
	if got := a.ws.Response.Header["Sec-Websocket-Protocol"]; len(got) != 1 || got[0] != subprotocol {
		return fmt.Errorf("B1: subprotocol %q", got)
	}
	err := a.ws.SendText(fmt.Sprintf(`{"type":"session.opened","payload":{"session_id":%q}}`, session))
	if err != nil {
		return err
	}
	e, err := a.next()
	if err == nil && (e.Type != "session.ready" || e.Payload.Session != session) {
		err = fmt.Errorf("B31: %v for %s", e, session)
	}
	return err
}

// join connects a session of a test, which is closed at its end.
func join(t *testing.T, addr, session string) *agent {
	t.Helper()
	return joinWith(t, addr, session, relaytest.WSOptions{})
}

func joinWith(t *testing.T, addr, session string, o relaytest.WSOptions) *agent {
	t.Helper()
	a, err := connect(addr, session, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

func (a *agent) close() { _ = a.ws.Close() }

// errMessage tells of something that the binding never sends (B10).
var errMessage = errors.New("not a message of the binding")

// next returns the next event; heartbeats are passed over. Any other end of the
// socket than a close frame is the error of the read.
func (a *agent) next() (event, error) { return a.nextIn(patience) }

func (a *agent) nextIn(timeout time.Duration) (event, error) {
	for {
		m, err := a.ws.Next(timeout)
		switch {
		case err != nil:
			return event{}, err
		case m.Opcode == relaytest.OpPing:
			continue
		case m.Opcode == relaytest.OpPong:
			return event{pong: string(m.Data)}, nil
		case m.Opcode == relaytest.OpClose:
			return event{closed: max(m.Code, 1)}, nil
		case m.Opcode != relaytest.OpText || m.Frames != 1:
			return event{}, fmt.Errorf("%w: opcode %d in %d frames", errMessage, m.Opcode, m.Frames)
		}
		var e event
		if err := json.Unmarshal(m.Data, &e); err != nil || e.Type == "" {
			return event{}, fmt.Errorf("%w: %.200s: %w", errMessage, m.Data, err)
		}
		if e.Type != "session.heartbeat" {
			return e, nil
		}
	}
}

// must returns the next event, which has to be there.
func (a *agent) must(t *testing.T) event {
	t.Helper()
	e, err := a.next()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// want takes the next event, which has to read so.
func (a *agent) want(t *testing.T, rule, text string) event {
	t.Helper()
	e := a.must(t)
	if got := e.String(); got != text {
		t.Fatalf("%s: got %q, want %q", rule, got, text)
	}
	return e
}

// send sends a control event with a payload in JSON.
func (a *agent) send(kind, payload string) error {
	return a.ws.SendText(fmt.Sprintf(`{"type":%q,"payload":%s}`, kind, payload))
}

// subscribe asks for a subscription with a filter in JSON and takes the answer,
// which comes before any event of it (B52). It must be the first subscription of
// the session that gets any.
func (a *agent) subscribe(filter string) (event, error) {
	if err := a.send("subscription.requested", filter); err != nil {
		return event{}, err
	}
	e, err := a.next()
	if err == nil && e.Type != "subscription.created" {
		err = fmt.Errorf("B52: %v for the filter %s", e, filter)
	}
	return e, err
}

// mustSubscribe is subscribe where it has to work.
func (a *agent) mustSubscribe(t *testing.T, filter string) event {
	t.Helper()
	e, err := a.subscribe(filter)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// acknowledge tells that a delivered event has arrived (B58). One that was sent
// at best_effort needs none.
func (a *agent) acknowledge(e event) error {
	if e.Delivery.Mode == "best_effort" {
		return nil
	}
	return a.send("event.acknowledged", fmt.Sprintf(`{"acknowledged_event_id":%q,"cursor":%q,"subscription_id":%q}`,
		e.ID, e.Delivery.Cursor, e.Delivery.Subscription))
}
