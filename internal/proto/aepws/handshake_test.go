package aepws

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// refused reads an answer that has to be an error as all are (B3, B4).
func (w *wire) refused(what string, status int, code string, fields ...string) {
	w.r.t.Helper()
	answer := string(w.Received()[w.read:])
	w.read = len(w.Received())
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	var e struct {
		Error struct {
			Code, Message string
			Retryable     *bool
			Details       map[string]any
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" || e.Error.Retryable == nil {
		w.r.t.Errorf("%s: B3: the body is %q: %v", what, body, err)
	}
	if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", status)) || e.Error.Code != code {
		w.r.t.Errorf("%s: answered %.300q, want %d %s", what, answer, status, code)
	}
	if code == "unsupported_version" && fmt.Sprint(e.Error.Details["supported"]) != "[aep-0.1]" {
		w.r.t.Errorf("%s: B3: details %v", what, e.Error.Details)
	}
	for _, field := range append(fields, "Content-Type: application/json") {
		if !strings.Contains(head+"\r\n", "\r\n"+field+"\r\n") {
			w.r.t.Errorf("%s: the answer lacks %q: %q", what, field, head)
		}
	}
}

// offering is a handshake with no subprotocol but those of the headers.
func offering(headers ...string) string {
	return relaytest.HandshakeRequest("localhost", "/aep", relaytest.WSOptions{Headers: headers})
}

// B1 to B5, cases 1 to 4.
func TestSubprotocol(t *testing.T) {
	r := newRig(t, rigConfig{})
	for name, headers := range map[string][]string{
		"alone":                      {"Sec-WebSocket-Protocol: aep-0.1"},
		"case 1: the second":         {"Sec-WebSocket-Protocol: aep-0.2, aep-0.1"},
		"the first, without a blank": {"Sec-WebSocket-Protocol: aep-0.1,aep-0.2"},
		"case 2: two lines":          {"Sec-WebSocket-Protocol: foo", "sec-websocket-protocol: aep-0.1"},
		"with an extension": {
			"Sec-WebSocket-Protocol:  a\t,\taep-0.1 , b", "Sec-WebSocket-Extensions: permessage-deflate",
		},
	} {
		w := r.dial(0)
		w.say(offering(headers...))
		t.Log(name)
		w.upgraded()
	}
	for name, headers := range map[string][]string{
		"case 3: none":    nil,
		"case 4: case":    {"Sec-WebSocket-Protocol: AEP-0.1"},
		"another version": {"Sec-WebSocket-Protocol: aep-0.2, harmovela-0.2"},
		"a longer name":   {"Sec-WebSocket-Protocol: aep-0.10, xaep-0.1"},
		"empty":           {"Sec-WebSocket-Protocol:"},
		"of another list": {"Sec-WebSocket-Protocol: foo", "Sec-WebSocket-Extensions: aep-0.1"},
	} {
		w := r.dial(0)
		w.say(offering(headers...))
		w.refused(name, 400, "unsupported_version", "Sec-WebSocket-Protocol: aep-0.1")
	}
	if c := r.surface.Counters(); c.Refused["subprotocol"] != 6 || c.Connected != 5 || c.Connections != 5 {
		t.Errorf("counters %+v", c)
	}
}

// B4: what is no handshake.
func TestNoHandshake(t *testing.T) {
	r := newRig(t, rigConfig{})
	f := func(name, request string, status int, fields ...string) {
		t.Helper()
		w := r.dial(0)
		w.say(request)
		w.refused(name, status, "protocol_error", fields...)
	}
	f("plain", "GET /aep HTTP/1.1\r\nHost: localhost\r\n\r\n", 426, "Upgrade: websocket")
	f("HTTP/1.0", "GET /aep HTTP/1.0\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 426, "Upgrade: websocket")
	f("Connection without it", "GET /aep HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n", 426, "Upgrade: websocket")
	f("to something else", "GET /aep HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", 426, "Upgrade: websocket")
	f("POST", "POST /aep HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, "Allow: GET")
	f("DELETE and an upgrade", strings.Replace(handshake(""), "GET", "DELETE", 1), 405, "Allow: GET")
	f("version 8", strings.Replace(handshake(""), "Version: 13", "Version: 8", 1), 426, "Sec-WebSocket-Version: 13")
	f("no version", strings.Replace(handshake(""), "Sec-WebSocket-Version: 13\r\n", "", 1), 426, "Sec-WebSocket-Version: 13")
	f("bad key", strings.Replace(handshake(""), relaytest.WSKey, "short", 1), 400)
	f("a body", strings.Replace(handshake(""), "\r\n\r\n", "\r\nContent-Length: 1\r\n\r\nx", 1), 400)
	f("bad session", handshake("session_id=%20"), 400)
	f("long session", handshake("session_id="+strings.Repeat("x", 129)), 400)

	w := r.dial(0)
	w.say("HEAD /aep HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := string(w.Received()); !strings.HasPrefix(got, "HTTP/1.1 405 ") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("HEAD: %q", got)
	}
	if c := r.surface.Counters(); c.Refused["request"] != 13 || c.Connected != 0 {
		t.Errorf("counters %+v", c)
	}
}

// B6, B7, case 5: credentials at the handshake.
func TestCredentials(t *testing.T) {
	r := newRig(t, rigConfig{token: "secret token"})
	good := func(name, query string, headers ...string) {
		t.Helper()
		w := r.connect(0, query, headers...)
		w.tell(opened("s"))
		w.want(name, "session.ready s")
		w.Reset()
	}
	good("header", "", "Authorization: Bearer secret token")
	good("scheme in another case", "", "Authorization: bEARER secret token")
	good("query", "access_token=secret+token")
	good("both", "access_token=secret%20token", "Authorization: Bearer secret token")
	good("another scheme beside the query", "access_token=secret+token", "Authorization: Basic eDp5")
	good("an origin is nothing then, B8", "access_token=secret+token", "Origin: https://evil.example")

	bad := func(name, query string, headers ...string) {
		t.Helper()
		w := r.dial(0)
		w.say(handshake(query, headers...))
		w.refused(name, 401, "unauthorized", "WWW-Authenticate: Bearer")
	}
	bad("case 5", "", "Authorization: Bearer wrong")
	bad("empty", "", "Authorization:")
	bad("another scheme", "", "Authorization: Basic eDp5")
	bad("query", "access_token=wrong")
	bad("right query, wrong header", "access_token=secret+token", "Authorization: Bearer wrong")
	bad("right header, wrong query", "access_token=wrong", "Authorization: Bearer secret token")

	// B6: it opens the session named by the query only with a credential.
	w := r.connect(0, "session_id=q%2F1&access_token=secret+token&x=y")
	w.want("B6", "session.ready q/1")
	w.tell(opened("q/1"))
	w.want("B34 then", "session.ready q/1")
	w = r.connect(0, "session_id=q2")
	w.want("B6: no credential yet")
	w.tell(`{"type":"session.opened","authorization":{"scheme":"bearer","token":"secret token"}}`)
	w.want("B32: the query's name", "session.ready q2")
}

// B7, B31, case 6: credentials of session.opened.
func TestCredentialOfOpened(t *testing.T) {
	for name, c := range map[string]struct{ query, authorization string }{
		"case 6: none":            {"", ""},
		"wrong":                   {"", `,"authorization":{"scheme":"bearer","token":"x"}`},
		"wrong after a right one": {"access_token=secret", `,"authorization":{"scheme":"bearer","token":"x"}`},
		"another scheme":          {"", `,"authorization":{"scheme":"basic","token":"secret"}`},
	} {
		r := newRig(t, rigConfig{token: "secret"})
		w := r.connect(0, c.query)
		w.tell(`{"type":"session.opened","payload":{"session_id":"s"}` + c.authorization + `}`)
		w.want(name, "session.error unauthorized", "close 1008")
		if n := r.surface.Counters().Sessions; n != 0 {
			t.Errorf("%s: %d sessions", name, n)
		}
	}
}

// B8, case 42: origins of an open relay.
func TestOrigins(t *testing.T) {
	r := newRig(t, rigConfig{})
	f := func(host, origin string, ok bool) {
		t.Helper()
		w := r.dial(0)
		headers := []string{}
		if origin != "" {
			headers = append(headers, "Origin: "+origin)
		}
		w.say(strings.Replace(handshake("", headers...), "Host: localhost", "Host: "+host, 1))
		if ok {
			w.upgraded()
			return
		}
		w.refused("case 42: "+host+" "+origin, 403, "unauthorized")
	}
	f("localhost:8787", "", true)
	f("relay.example", "", true) // no web page
	f("localhost:8787", "http://localhost:3000", true)
	f("127.0.0.1:8787", "http://[::1]", true)
	f("127.0.0.1:8787", "https://dash.example", true)
	f("dash.example", "https://dash.example", true)
	f("localhost:8787", "https://evil.example", false)
	f("localhost:8787", "null", false)
	f("localhost:8787", "", true)
	f("evil.example", "https://evil.example", false) // rebound
	f("evil.example", "http://localhost", false)
}

// B9: one more than there may be.
func TestConnectionLimit(t *testing.T) {
	r := newRig(t, rigConfig{settings: func(s *Settings) { s.MaxConnections = 2 }})
	a := r.connect(0, "")
	r.connect(0, "session_id=b")
	w := r.dial(0)
	w.say(handshake(""))
	w.refused("B9", 503, "internal_error", "Retry-After: 5")
	a.Reset()
	r.run()
	r.connect(0, "")
}

// What the connection refuses by itself, and while the relay goes down, is
// worded the same.
func TestRefusals(t *testing.T) {
	r := newRig(t, rigConfig{})
	w := r.dial(0)
	w.say("GET /aep HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n")
	if got := string(w.Received()); !strings.HasPrefix(got, "HTTP/1.1 501 ") && !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("answered %q", got)
	}
	if r.surface.Refusals(nil) != nil || r.surface.Refusals([]byte("/aep/x")) != nil {
		t.Error("refusals of another path")
	}
	r.workers[0].StopServing()
	w = r.dial(0)
	w.say(handshake(""))
	w.refused("stopping", 503, "internal_error", "Retry-After: 5")
	if n := r.surface.Counters().Connections; n != 0 {
		t.Errorf("%d connections", n)
	}
}
