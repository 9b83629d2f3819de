package relay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// do sends a raw request on a new connection and reads one answer.
func (f *fixture) do(t *testing.T, method, request string) *relaytest.Response {
	t.Helper()
	r, err := relaytest.Do(f.addr, method, request, patience)
	if err != nil {
		t.Fatalf("%.200q: %v", request, err)
	}
	return r
}

// request is the text of a request with the fixture's Host and no token.
func (f *fixture) request(method, target string, headers ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: " + f.addr + "\r\n" + lines(headers) + "\r\n"
}

func lines(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	return strings.Join(headers, "\r\n") + "\r\n"
}

// auth is the token's header line, or nothing for a relay without a token.
func (f *fixture) auth() []string {
	if f.token == "" {
		return nil
	}
	return []string{"Authorization: Bearer " + f.token}
}

// get asks with the token.
func (f *fixture) get(t *testing.T, target string, headers ...string) *relaytest.Response {
	t.Helper()
	return f.do(t, "GET", f.request("GET", target, append(f.auth(), headers...)...))
}

// postRequest is the text of a POST /events with the token and all that the
// contract wants, body included.
func (f *fixture) postRequest(contentType, body string, headers ...string) string {
	headers = append(append(f.auth(), "AEP-Version: 0.1", "Content-Type: "+contentType,
		fmt.Sprintf("Content-Length: %d", len(body))), headers...)
	return f.request("POST", "/events", headers...) + body
}

const (
	ndjson   = "application/x-ndjson"
	jsonType = "application/json"
)

func (f *fixture) postBody(t *testing.T, contentType, body string, headers ...string) *relaytest.Response {
	t.Helper()
	return f.do(t, "POST", f.postRequest(contentType, body, headers...))
}

// post publishes events in one NDJSON body and wants 202.
func (f *fixture) post(t *testing.T, events ...string) {
	t.Helper()
	r := f.postBody(t, ndjson, relaytest.NDJSON(events...))
	if r.Status != 202 || len(r.Body) != 0 {
		t.Fatalf("R77: POST of %d events answered %d %q", len(events), r.Status, r.Body)
	}
}

// health is the body of GET /healthz.
type health struct {
	OK          bool `json:"ok"`
	Sessions    int  `json:"sessions"`
	Subscribers int  `json:"subscribers"`
	Connections int  `json:"connections"`
}

func (f *fixture) health(t *testing.T) health {
	t.Helper()
	var h health
	r := f.get(t, "/healthz")
	if err := json.Unmarshal(r.Body, &h); r.Status != 200 || err != nil || !h.OK {
		t.Fatalf("R50: /healthz answered %d %q", r.Status, r.Body)
	}
	return h
}

// awaitHealth polls /healthz until ok accepts it.
func (f *fixture) awaitHealth(t *testing.T, what string, ok func(health) bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		h := f.health(t)
		if ok(h) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: /healthz still says %+v", what, h)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stream is an open event stream of one test.
type stream struct {
	*relaytest.Stream
	t *testing.T
}

// stream opens GET /stream?query with the token and reads its first block.
func (f *fixture) stream(t *testing.T, query string, o relaytest.StreamOptions) *stream {
	t.Helper()
	if o.Token == "" {
		o.Token = f.token
	}
	rs, err := relaytest.OpenStream(f.addr, "/stream?"+query, o)
	if err != nil {
		t.Fatalf("GET /stream?%.200s: %v", query, err)
	}
	t.Cleanup(func() { _ = rs.Close() })
	if rs.Response.Status != 200 {
		t.Fatalf("GET /stream?%.200s answered %d %q", query, rs.Response.Status, rs.Response.Body)
	}
	s := &stream{Stream: rs, t: t}
	b, err := s.Next(patience)
	if err != nil || len(b.Comments) == 0 || !strings.HasPrefix(b.Comments[0], "open ") {
		t.Fatalf("R274: first block %+v, %v; want \": open <boot>\"", b, err)
	}
	return s
}

// block is the next block other than a ping.
func (s *stream) block() relaytest.Block {
	s.t.Helper()
	for {
		b, err := s.Next(patience)
		if err != nil {
			s.t.Fatalf("stream: %v (block %+v)", err, b)
		}
		if b.Raw != ": ping" {
			return b
		}
	}
}

// event is the next block, which must be an event.
func (s *stream) event() relaytest.Block {
	s.t.Helper()
	b := s.block()
	if !b.IsEvent() {
		s.t.Fatalf("got block %q, want an event", b.Raw)
	}
	return b
}

// until collects blocks up to the one whose data or raw text is last, that one
// left out.
func (s *stream) until(last string) []relaytest.Block {
	s.t.Helper()
	var all []relaytest.Block
	for {
		b := s.block()
		if b.Data == last || b.Raw == last {
			return all
		}
		all = append(all, b)
	}
}

// ended wants a clean end now.
func (s *stream) ended() {
	s.t.Helper()
	if b, err := s.Next(patience); !errors.Is(err, io.EOF) {
		s.t.Errorf("stream goes on with %q, %v; want a clean end", b.Raw, err)
	}
	if s.Misaligned != 0 {
		s.t.Errorf("R272a: %d chunks did not end with a whole block", s.Misaligned)
	}
}

// replay reads GET /stream?live=0&query to its end and returns what stands
// between the opening and ": replay-complete".
func (f *fixture) replay(t *testing.T, query string, headers ...string) []relaytest.Block {
	t.Helper()
	s := f.stream(t, "live=0&"+query, relaytest.StreamOptions{Headers: headers})
	blocks := s.until(": replay-complete")
	s.ended()
	_ = s.Close()
	return blocks
}

// texts is the data of each event block, and the raw text of any other.
func texts(blocks []relaytest.Block) []string {
	var all []string
	for _, b := range blocks {
		if b.IsEvent() {
			all = append(all, b.Data)
		} else {
			all = append(all, b.Raw)
		}
	}
	return all
}

// held is everything that a replay of all sessions gives.
func (f *fixture) held(t *testing.T) []string {
	t.Helper()
	return texts(f.replay(t, "from=all"))
}

// socket is an open WebSocket of one test.
type socket struct {
	*relaytest.WS
	t     *testing.T
	pings int
}

// dial opens a WebSocket with the token and says nothing.
func (f *fixture) dial(t *testing.T, o relaytest.WSOptions) *socket {
	t.Helper()
	if o.Token == "" {
		o.Token = f.token
	}
	w, err := relaytest.DialWS(f.addr, "/socket", o)
	if err != nil {
		t.Fatalf("GET /socket: %v", err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return &socket{WS: w, t: t}
}

const helloBoth = `{"type":"hello","versions":["0.1"],"role":"both"}`

// socket opens a WebSocket, says hello (helloBoth when empty) and reads the
// relay's hello.
func (f *fixture) socket(t *testing.T, hello string) *socket {
	t.Helper()
	return f.socketWith(t, hello, relaytest.WSOptions{})
}

func (f *fixture) socketWith(t *testing.T, hello string, o relaytest.WSOptions) *socket {
	t.Helper()
	w := f.dial(t, o)
	if hello == "" {
		hello = helloBoth
	}
	w.send(hello)
	if e := w.frame("hello"); e.Role != "both" {
		t.Fatalf("R310: relay's hello has role %q", e.Role)
	}
	return w
}

// send sends each text as one message.
func (w *socket) send(texts ...string) {
	w.t.Helper()
	for _, s := range texts {
		if err := w.SendText(s); err != nil {
			w.t.Fatalf("WebSocket send of %.200q: %v", s, err)
		}
	}
}

// next is the next message but for pings of either kind.
func (w *socket) next() relaytest.Message {
	w.t.Helper()
	for {
		m, err := w.Next(patience)
		if err != nil {
			w.t.Fatalf("WebSocket: %v", err)
		}
		if m.Opcode != relaytest.OpPing && !isFrame(string(m.Data), "ping") {
			return m
		}
	}
}

// isFrame tells whether a short text is a frame of type typ.
func isFrame(text, typ string) bool {
	if len(text) > 256 || !strings.Contains(text, `"`+typ+`"`) {
		return false
	}
	e, err := relaytest.ParseEnvelope(text)
	return err == nil && e.Type == typ
}

// text is the next text message.
func (w *socket) text() string {
	w.t.Helper()
	m := w.next()
	if m.Opcode != relaytest.OpText {
		w.t.Fatalf("WebSocket: got opcode %d %q (close %d %q), want text", m.Opcode, m.Data, m.Code, m.Reason)
	}
	return string(m.Data)
}

// frame is the next text message, which must be a frame of type typ.
func (w *socket) frame(typ string) relaytest.Envelope {
	w.t.Helper()
	text := w.text()
	e, err := relaytest.ParseEnvelope(text)
	if err != nil || e.Type != typ {
		w.t.Fatalf("WebSocket: got %.300s (%v), want a frame of type %q", text, err, typ)
	}
	return e
}

// refused is the next text message, which must be an error frame with code.
func (w *socket) refused(code string) relaytest.Envelope {
	w.t.Helper()
	e := w.frame("error")
	if e.Code != code {
		w.t.Errorf("error frame has code %q (%s), want %q", e.Code, e.Detail, code)
	}
	return e
}

// subscribe sends a subscribe frame and wants it accepted.
func (w *socket) subscribe(frame string) {
	w.t.Helper()
	w.send(frame)
	w.frame("subscribed")
}

// barrier sends a ping and returns the messages that come before its pong: all
// that the relay owed live when it processed the ping (R329).
func (w *socket) barrier() []string {
	w.t.Helper()
	w.pings++
	mark := fmt.Sprintf(`"barrier-%d"`, w.pings)
	w.send(`{"type":"ping","t":` + mark + `}`)
	var all []string
	for {
		text := w.text()
		if isFrame(text, "pong") && strings.Contains(text, mark) {
			return all
		}
		all = append(all, text)
	}
}

// replayed reads n messages, and then what comes before the next pong. It is
// for what a barrier alone says nothing about: a replay, since a connection
// that replays gets replies in between (R329), and commands on their way to
// their target.
func (w *socket) replayed(n int) []string {
	w.t.Helper()
	var all []string
	for range n {
		all = append(all, w.text())
	}
	return append(all, w.barrier()...)
}

// closes wants a Close frame with code next, answers it and wants the end of
// the connection. It returns the reason.
func (w *socket) closes(code int) string {
	w.t.Helper()
	m := w.next()
	if m.Opcode != relaytest.OpClose || m.Code != code {
		w.t.Fatalf("WebSocket: got opcode %d %.300q (close %d %q), want Close %d", m.Opcode, m.Data, m.Code, m.Reason, code)
	}
	_ = w.SendClose(m.Code, "")
	if err := w.AwaitEOF(patience); err != nil {
		w.t.Errorf("after the closing handshake: %v, want the end of the connection", err)
	}
	return m.Reason
}
