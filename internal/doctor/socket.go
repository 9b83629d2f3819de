package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// socket is an open WebSocket after its hello, read by a goroutine.
type socket struct {
	conn   *websocket.Conn
	opened time.Time
	frames chan socketFrame
	ended  chan struct{}
	err    error // why it ended; valid once ended is closed
	stop   func()
}

// socketFrame is a message, and when it came.
type socketFrame struct {
	Type    string          `json:"type"`
	Session string          `json:"session"`
	Code    string          `json:"code"`
	Detail  string          `json:"detail"`
	T       json.RawMessage `json:"t"`
	at      time.Time
}

// clock compares the time in a ping of the relay with the own clock.
func (f socketFrame) clock() finding {
	var millis int64
	if json.Unmarshal(f.T, &millis) != nil {
		return skip("the ping has no time")
	}
	t := time.UnixMilli(millis)
	return skew(t, t.Add(time.Millisecond), f.at, f.at, "by the relay's ping")
}

// refused tells of a handshake that was answered with something else.
type refused struct{ answer *answer }

func (e *refused) Error() string { return e.answer.told() }

// openSocket dials and says hello. The error may be a *refused.
func (d *doctor) openSocket(ctx context.Context) (*socket, error) {
	dialing, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	conn, response, err := websocket.Dial(dialing, d.Relay.URL("/socket", nil), &websocket.DialOptions{
		HTTPClient: d.http, HTTPHeader: d.Relay.Header(),
	})
	if err != nil {
		if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
			body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody))
			return nil, &refused{&answer{response.StatusCode, response.Header, body, response}}
		}
		return nil, reason(err)
	}
	conn.SetReadLimit(maxBlock)
	reading, stopReading := context.WithCancel(ctx)
	s := &socket{conn: conn, opened: time.Now(), frames: make(chan socketFrame, streamItems), ended: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() { s.read(reading) })
	s.stop = func() { stopReading(); _ = conn.CloseNow(); all.Wait() }
	err = s.send(dialing, `{"type":"hello","versions":["0.1"],"role":"consumer","identity":{"agent":"sluice-doctor"}}`)
	if err == nil {
		_, err = s.next(time.Now().Add(d.Timeout), "hello")
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *socket) send(ctx context.Context, text string) error {
	if err := s.conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		return reason(err)
	}
	return nil
}

func (s *socket) read(ctx context.Context) {
	defer close(s.ended)
	for {
		_, text, err := s.conn.Read(ctx)
		if err != nil {
			s.err = err
			return
		}
		var f socketFrame
		if json.Unmarshal(text, &f) != nil {
			f = socketFrame{} // seen as a frame without a type
		}
		f.at = time.Now()
		select {
		case s.frames <- f:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
	}
}

// next waits for a frame or event of a type, until the deadline.
func (s *socket) next(deadline time.Time, typ string) (socketFrame, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case f := <-s.frames:
			switch f.Type {
			case typ:
				return f, nil
			case "error":
				return f, fmt.Errorf("it says %s", quote(f.Code+": "+f.Detail))
			case "closing":
				return f, errors.New("the relay closes the connection")
			}
		case <-timer.C:
			return socketFrame{}, errTimeout
		case <-s.ended:
			if len(s.frames) > 0 { // what came before the end
				continue
			}
			if code := websocket.CloseStatus(s.err); code > 0 {
				return socketFrame{}, fmt.Errorf("closed with %d", code)
			}
			return socketFrame{}, errors.New("the connection was cut")
		}
	}
}

// checkSocket opens a WebSocket, which is kept for the heartbeat, and pings.
func (d *doctor) checkSocket(ctx context.Context) finding {
	s, err := d.openSocket(ctx)
	if no, is := errors.AsType[*refused](err); is {
		return fail("GET /socket with an upgrade: "+no.Error(), adviceUpgrade(no.answer))
	}
	if err != nil {
		return fail("GET /socket with an upgrade: "+err.Error(), adviceUpgrade(nil))
	}
	d.close = append(d.close, s.stop)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if err = s.send(ctx, `{"type":"ping","t":"doctor"}`); err == nil {
		_, err = s.next(time.Now().Add(d.Timeout), "pong")
	}
	if err != nil {
		return fail("no pong on the WebSocket: "+err.Error(), "something in front holds messages back: see the proxy's settings for WebSockets")
	}
	d.socket = s
	return ok("upgraded, hello answered, ping and pong in %v", time.Since(begin).Round(10*time.Microsecond))
}

// adviceUpgrade says what a refused upgrade comes from.
func adviceUpgrade(a *answer) string {
	const passOn = "let the proxy in front pass the upgrade on: with nginx proxy_http_version 1.1 and the headers Upgrade and Connection (docs/deploy/nginx.conf)"
	switch {
	case a == nil:
		return passOn
	case a.status == http.StatusUnauthorized:
		return "the token does not come through: let the proxy in front pass Authorization on"
	case a.status == http.StatusForbidden:
		return adviceStatus(a.status)
	case a.status == http.StatusBadGateway, a.status == http.StatusServiceUnavailable, a.status == http.StatusGatewayTimeout:
		return adviceStatus(a.status)
	case strings.EqualFold(a.header.Get("Upgrade"), "websocket"), a.status < 500:
		return passOn
	}
	return adviceStatus(a.status)
}
