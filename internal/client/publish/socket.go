package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/internal/client"
)

const (
	// helloTimeout bounds the handshake and the relay's hello.
	helloTimeout = 15 * time.Second
	// writeTimeout bounds the writing of one message.
	writeTimeout = time.Minute
	// maxMessageBytes bounds what the relay may send: an event of the contract's
	// default AEP_MAX_BODY, and some room.
	maxMessageBytes = 17 << 20
)

// Socket says who sends over a WebSocket.
type Socket struct {
	// Agent and Instance are declared as the identity; "" is left out.
	Agent, Instance string
	// Accepts are the types of commands that OnCommand obeys. It is declared
	// even when it is empty, so that the relay refuses a command right away
	// that nobody would answer (R393).
	Accepts []string
	// OnCommand gets the text of each command for a claimed session, as it was
	// sent (R397). Borrowed until it returns. It may be nil. It is called from
	// another goroutine than the rest of Options.
	OnCommand func(text []byte)
}

// message is what the client looks at in a message of the relay.
type message struct {
	Type    string          `json:"type"`
	Code    string          `json:"code"`
	Detail  string          `json:"detail"`
	Reason  string          `json:"reason"`
	Cause   json.RawMessage `json:"cause"`
	ID      json.RawMessage `json:"id"`
	T       json.RawMessage `json:"t"`
	Session string          `json:"session"`
	Run     string          `json:"run"`
	Subject string          `json:"subject"`
	Epoch   json.Number     `json:"epoch"`
	Seq     json.Number     `json:"seq"`
	Data    json.RawMessage `json:"data"`
	text    []byte
}

// cause returns the cause, "" when it is no string.
func (m *message) cause() string { return stringOf(m.Cause) }

// why is what an error frame says.
func (m *message) why() string {
	text := printable(m.Code)
	if m.Detail != "" {
		text += ": " + printable(m.Detail)
	}
	return text
}

// stringOf returns a JSON string's value, "" for another value.
func stringOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// hello is the client's first frame (R310).
type hello struct {
	Type         string            `json:"type"`
	Versions     []string          `json:"versions"`
	Role         string            `json:"role"`
	Identity     map[string]string `json:"identity,omitempty"`
	Capabilities map[string]any    `json:"capabilities,omitempty"`
}

// newHello returns the hello of a role. Accepts that is nil is not declared.
func newHello(role, agent, instance string, accepts []string) hello {
	h := hello{Type: "hello", Versions: []string{"0.1"}, Role: role, Identity: map[string]string{}}
	if agent != "" {
		h.Identity["agent"] = agent
	}
	if instance != "" {
		h.Identity["instance"] = instance
	}
	if accepts != nil {
		h.Capabilities = map[string]any{"control": map[string]any{"accepts": accepts}}
	}
	return h
}

// socketConn is a WebSocket that has exchanged its hellos. One goroutine calls
// read; any may call the rest.
type socketConn struct{ ws *websocket.Conn }

// dial opens a socket. An error that is ErrFinal would come again.
func dial(ctx context.Context, relay *client.Relay, h hello) (*socketConn, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	httpClient := *relay.HTTP
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ws, res, err := websocket.Dial(ctx, relay.URL("/socket", nil), &websocket.DialOptions{
		HTTPClient: &httpClient, HTTPHeader: relay.Header(),
	})
	if err != nil {
		return nil, handshakeError(res, err)
	}
	ws.SetReadLimit(maxMessageBytes)
	c := &socketConn{ws: ws}
	if err := c.greet(ctx, h); err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	return c, nil
}

// handshakeError says why there is no socket.
func handshakeError(res *http.Response, err error) error {
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		if isFinal(err) {
			return fmt.Errorf("%w: %w", ErrFinal, withoutURL(err))
		}
		return fmt.Errorf("no answer from the relay: %w", withoutURL(err))
	}
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	a := judge(res.StatusCode, res.Header, said, 0, time.Now())
	switch {
	case a.verdict == later:
		return &laterError{after: a.after, reason: a.reason}
	case a.reason == "":
		a.reason = statusText(res.StatusCode, said)
	}
	return fmt.Errorf("%w: %s", ErrFinal, a.reason)
}

// laterError is an answer that asks to come again.
type laterError struct {
	after  time.Duration
	reason string
}

func (e *laterError) Error() string { return e.reason }

// greet exchanges the hellos. Errors before the relay's are final (R306).
func (c *socketConn) greet(ctx context.Context, h hello) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := c.write(ctx, text); err != nil {
		return err
	}
	for {
		m, err := c.read(ctx)
		if err != nil {
			return fmt.Errorf("no hello from the relay: %w", err)
		}
		switch m.Type {
		case "hello":
			return nil
		case "error":
			return fmt.Errorf("%w: the relay says %s", ErrFinal, m.why())
		}
	}
}

// read returns the next message and answers pings. A message that is no JSON
// object has no type. Its text is the caller's.
func (c *socketConn) read(ctx context.Context) (*message, error) {
	for {
		_, text, err := c.ws.Read(ctx)
		if err != nil {
			return nil, err
		}
		m := &message{text: text}
		if json.Unmarshal(text, m) != nil {
			// A member of an unexpected kind: it is none of ours.
			m = &message{text: text}
		}
		if m.Type != "ping" {
			return m, nil
		}
		if err := c.write(ctx, appendPong(nil, m.T)); err != nil {
			return nil, err
		}
	}
}

// appendPong answers a ping (R330).
func appendPong(dst, t []byte) []byte {
	if len(t) == 0 {
		return append(dst, `{"type":"pong"}`...)
	}
	dst = append(append(dst, `{"type":"pong","t":`...), t...)
	return append(dst, '}')
}

// write sends one message. Text is borrowed until return.
func (c *socketConn) write(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, text)
}

// close ends the connection in an orderly way.
func (c *socketConn) close() { _ = c.ws.Close(websocket.StatusNormalClosure, "") }

// abandon ends it at once.
func (c *socketConn) abandon() { _ = c.ws.CloseNow() }

// closeReason says why a connection ended, and whether a message was too long
// for the relay (R332).
func closeReason(err error) (text string, tooBig bool) {
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		text = fmt.Sprintf("the relay closed the connection, %d", int(e.Code))
		if e.Reason != "" {
			text += " " + printable(e.Reason)
		}
		return text, e.Code == websocket.StatusMessageTooBig
	}
	return "the connection to the relay broke: " + withoutURL(err).Error(), false
}
