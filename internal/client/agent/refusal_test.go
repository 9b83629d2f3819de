package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// What a relay says within a session that would come again ends Follow, all
// else is tried again (B27, B31, B43, B44, B47, B51).
func TestRefusedInASession(t *testing.T) {
	f := func(name string, say func(w *wire), want string) {
		t.Helper()
		s := startScript(t, func(n int64, w *wire) {
			if n == 2 {
				w.subscribe(nil)
				w.say(event(1))
				w.hold()
				return
			}
			say(w)
		})
		r := startFollow(t, Options{Peer: at(t, s.URL), Count: 1}, newCollector())
		err := r.wait(t)
		if want == "" && (err != nil || s.connections.Load() != 2) || want != "" && (fmt.Sprint(err) != want || s.connections.Load() != 1) {
			t.Errorf("%s: %d connections, %v, want %q", name, s.connections.Load(), err, want)
		}
	}
	failure := func(code aepws.Code, then websocket.StatusCode) func(*wire) {
		return func(w *wire) {
			w.hear()
			w.say(w.a.AppendError(nil, w.head(""), aepws.Error{Code: code, Message: "no\x1b[2J"}))
			_ = w.Close(then, "")
		}
	}
	f("B31: token", failure(aepws.Unauthorized, 1008), `the relay refuses: unauthorized: no\x1b[2J`)
	f("B31: version", failure(aepws.UnsupportedVersion, 1002), `the relay refuses: unsupported_version: no\x1b[2J`)
	f("B40", failure(aepws.SessionTimeout, 1001), "")
	f("B43: fault", failure(aepws.InternalError, 1011), "")
	f("close alone", func(w *wire) {
		w.hear()
		_ = w.Close(1008, "by\x1b[2J")
	}, `the relay refuses: the relay has closed the connection with 1008 by\x1b[2J`)
	f("B44", func(w *wire) {
		w.subscribe(nil)
		w.say(w.a.AppendClosed(nil, w.head(""), "replaced"))
		_ = w.Close(1000, "")
	}, ErrReplaced.Error())
	f("B43: shutdown", func(w *wire) {
		w.subscribe(nil)
		w.say(w.a.AppendClosed(nil, w.head(""), "peer_disconnected"))
		_ = w.Close(1001, "")
	}, "")
	rejected := func(x aepws.Error) func(*wire) {
		return func(w *wire) {
			w.ready(aepws.Capabilities{})
			w.say(w.a.AppendSubscriptionRejected(nil, w.head(w.hear().ID), []byte("{}"), x))
			w.hold()
		}
	}
	f("B47", rejected(aepws.Error{Code: aepws.SubscriptionRejected, Message: "types: a segment is empty"}),
		"the relay refuses: subscription_rejected: types: a segment is empty")
	f("B51", rejected(aepws.Error{Code: aepws.SubscriptionRejected, Message: "bad", Reason: aepws.ReasonCursorMalformed}),
		"the relay refuses: subscription_rejected: cursor_malformed: bad")
	f("retryable", rejected(aepws.Error{Code: aepws.InternalError, Message: "bad"}), "")
	f("B29", func(w *wire) {
		w.ready(aepws.Capabilities{})
		w.say(w.a.AppendRejected(nil, w.head(w.hear().ID), nil, aepws.Error{Message: "not now"}, nil))
		w.hold()
	}, "the relay refuses: protocol_error: not now")
	f("B32", func(w *wire) {
		w.say(w.a.AppendRejected(nil, w.head(w.hear().ID), nil, aepws.Error{Code: aepws.InvalidEnvelope, Message: "id"}, nil))
		w.hold()
	}, "the relay refuses: invalid_envelope: id")
}

// B3, B4, B7, B8, B9: answers before the upgrade. 503 is tried again, and not
// before Retry-After.
func TestRefusedHandshake(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://elsewhere.example/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		defer s.Close()
		_, err := Follow(t.Context(), Options{Peer: at(t, s.URL)}, newCollector())
		if r, ok := errors.AsType[*Refusal](err); !ok || err.Error() != want || r.Status != status {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
	}
	f(400, string(aepws.AppendRefusal(nil, aepws.UnsupportedVersion, "only aep-0.1")),
		"the relay refuses with 400 Bad Request: unsupported_version: only aep-0.1: the relay does not speak aep-0.1 at this address")
	f(401, string(aepws.AppendRefusal(nil, aepws.Unauthorized, "bad token")),
		"the relay refuses with 401 Unauthorized: unauthorized: bad token: the relay wants its token")
	f(403, "no\x1b[2J\nmore", `the relay refuses with 403 Forbidden: no\x1b[2J: a relay without a token is only for clients on its own machine`)
	f(404, "<html>", "the relay refuses with 404 Not Found: there is no agents' WebSocket at this address")
	f(426, "", "the relay refuses with 426 Upgrade Required: the request for a WebSocket did not reach the relay: does a proxy take it out?")
	f(200, "", "the relay refuses with 200 OK: the answer is of something else: is this a relay?")
	f(301, "", `the relay refuses with 301 Moved Permanently: redirected to http://elsewhere.example/, which is not followed`)

	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(503)
			return
		}
		w.WriteHeader(404)
	}))
	defer s.Close()
	c, p := newCollector(), at(t, s.URL)
	p.pause = func(_ context.Context, d time.Duration) error {
		if d < 5*time.Second {
			t.Errorf("B9: waits %v", d)
		}
		return nil
	}
	if _, err := Follow(t.Context(), Options{Peer: p}, c); err == nil || asked.Load() != 3 {
		t.Errorf("%v after %d", err, asked.Load())
	}
	c.want(t, "# no connection: the relay answers 503 Service Unavailable; trying again")
}

// B1: a server that upgrades without the subprotocol is none.
func TestOtherServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, _, _ = conn.Read(r.Context())
		_ = conn.CloseNow()
	}))
	defer s.Close()
	_, err := Follow(t.Context(), Options{Peer: at(t, s.URL)}, newCollector())
	if _, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(err.Error(), "does not speak aep-0.1") {
		t.Error(err)
	}
}
