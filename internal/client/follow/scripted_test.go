package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// script is a relay that does what a test wants of it.
type script struct {
	*httptest.Server
	live    atomic.Int64 // live connections so far
	replays atomic.Int64
}

// startScript starts a relay whose n-th live stream, from 1, does what live
// says. Replays hold what replay writes, nothing if that is nil.
func startScript(tb testing.TB, live, replay func(n int64, w *block, r *http.Request)) *script {
	tb.Helper()
	s := &script{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		b := &block{ResponseWriter: w, r: r}
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Query().Get("live") != "0" {
			live(s.live.Add(1), b, r)
			return
		}
		n := s.replays.Add(1)
		if replay != nil {
			replay(n, b, r)
		}
		b.say(": replay-complete")
	})
	s.Server = httptest.NewServer(mux)
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *script) addr() string { return strings.TrimPrefix(s.URL, "http://") }

// block writes blocks of a stream.
type block struct {
	http.ResponseWriter
	r *http.Request
}

func (b *block) say(lines ...string) {
	for _, line := range lines {
		fmt.Fprint(b, line, "\n\n")
	}
	_ = http.NewResponseController(b.ResponseWriter).Flush()
}

func (b *block) event(id, session string, seq uint64) {
	e := relaytest.Event{ID: id, Session: session, Seq: seq}.JSON()
	b.say(fmt.Sprintf("event: progress.status\ndata: %s\nid: %s:0:%d", e, session, seq))
}

// hold keeps the stream open until the client goes.
func (b *block) hold() { <-b.r.Context().Done() }

// What a relay says besides events is told in its place.
func TestNotices(t *testing.T) {
	s := startScript(t, func(n int64, b *block, _ *http.Request) {
		if n > 1 {
			b.say(": open two")
			b.event("c", "s", 9)
			b.hold()
			return
		}
		b.say("retry: 1000\n: open one")
		b.event("a", "s", 0)
		b.say(": replay-exhausted s 0:7", ": shed 12")
		b.event("b", "s", 8)
		b.say("data: [1]", "data: x", ": ping", ": shutting-down")
	}, nil)
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr())}, c)
	c.awaitEvents(t, 3)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	want := []string{
		"a",
		`# gap in session "s": events before 0:7 are gone`,
		"# the relay left out 12 events of severity debug or info: reading is too slow",
		"b",
		"# the relay sent something that is no event: [1]",
		"# the relay sent something that is no event: x",
		"# the relay ends the connection: shutting-down",
		"# connection lost: the relay has ended the stream; connecting again",
		"# connected",
		"# the relay was restarted: events that it had and that were not read before are lost",
		"c",
	}
	if got := c.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The same over a WebSocket, and pings are answered.
func TestSocketNotices(t *testing.T) {
	pong := make(chan string, 1)
	connections := atomic.Int64{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /socket", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		say := func(texts ...string) {
			for _, text := range texts {
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(text))
			}
		}
		read := func() string {
			_, text, _ := conn.Read(r.Context())
			return string(text)
		}
		n := connections.Add(1)
		if got := read(); got != `{"type":"hello","versions":["0.1"],"role":"consumer"}` {
			t.Errorf("hello: %s", got)
		}
		subscribe := read()
		say(fmt.Sprintf(`{"type":"hello","capabilities":{"experimental":{"boot":"%d"}}}`, min(n, 2)), `{"type":"subscribed","id":"tail"}`)
		if n > 1 {
			// R55: to another relay the position means nothing.
			if want := fmt.Sprintf(`"from":[{"session":"s","epoch":0,"seq":%d}]`, []int{7, -1}[n-2]); !strings.Contains(subscribe, want) {
				t.Errorf("subscribe %d: %s", n, subscribe)
			}
			say(relaytest.Event{ID: "c", Session: "s", Seq: 8}.JSON())
			_ = read()
			return
		}
		if subscribe != `{"type":"subscribe","id":"tail","filter":{"agent":"probe"},"capture":"metadata"}` {
			t.Errorf("subscribe: %s", subscribe)
		}
		say(relaytest.Event{ID: "a", Session: "s"}.JSON(),
			`{"type":"replay-exhausted","sub":"tail","session":"s","earliest":{"epoch":0,"seq":7}}`,
			`{"type":"shed","count":12}`, `{"type":"from-the-future"}`, `{"type":7}`,
			relaytest.Event{ID: "b", Session: "s", Seq: 7}.JSON(), `{"type":"ping","t":12345}`)
		pong <- read()
		_ = conn.Write(r.Context(), websocket.MessageBinary, []byte("ignored"))
		say(`{"type":"closing","reason":"backpressure","delivered":[]}`)
		_ = conn.Close(websocket.StatusTryAgainLater, "backpressure")
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		(&block{ResponseWriter: w, r: r}).say(": open 2", ": replay-complete")
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c := newCollector()
	r := startFollow(t, Options{
		Relay: at(t, strings.TrimPrefix(s.URL, "http://")), Socket: true, Filter: `{"agent":"probe"}`, Ceiling: "metadata",
	}, c)
	c.awaitEvents(t, 3)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	if got := <-pong; got != `{"type":"pong","t":12345}` {
		t.Errorf("pong: %s", got)
	}
	want := []string{
		"a",
		`# gap in session "s": events before 0:7 are gone`,
		"# the relay left out 12 events of severity debug or info: reading is too slow",
		"b",
		"# the relay ends the connection: backpressure",
		"# connection lost: the relay has closed the socket with 1013 backpressure; connecting again",
		"# connected",
		"# the relay was restarted: events that it had and that were not read before are lost",
		"c",
	}
	if got := c.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What another attempt would get again ends Follow, with the relay's text.
func TestRefusals(t *testing.T) {
	f := func(status int, kind, body, want string) {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		defer s.Close()
		for _, o := range []Options{{}, {Socket: true}, {Once: true}} {
			if o.Socket && status == http.StatusOK {
				continue
			}
			o.Relay = at(t, strings.TrimPrefix(s.URL, "http://"))
			err := startFollow(t, o, newCollector()).wait(t)
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Status != status || !strings.Contains(err.Error(), want) {
				t.Errorf("%d %s: %v, want %q", status, body, err, want)
			}
		}
	}
	f(400, "text/plain", "bad filter JSON\n", "400 Bad Request: bad filter JSON")
	f(401, "", "", "401 Unauthorized: its token is wanted")
	f(403, "text/plain", "set \x1b[1mAEP_ORIGINS", `403 Forbidden: set \x1b[1mAEP_ORIGINS`)
	f(404, "text/plain", "", "404 Not Found")
	f(200, "text/html", "<p>hello", "is this a relay?")
}

// R320: a subscription that is refused.
func TestSocketRefusal(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		text := []byte(`{"type":"error","id":"tail","code":"invalid-filter","detail":"no such thing"}`)
		_ = conn.Write(r.Context(), websocket.MessageText, text)
		_, _, _ = conn.Read(r.Context())
		_, _, _ = conn.Read(r.Context())
		_, _, _ = conn.Read(r.Context())
	}))
	defer s.Close()
	err := startFollow(t, Options{Relay: at(t, strings.TrimPrefix(s.URL, "http://")), Socket: true}, newCollector()).wait(t)
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Text != "invalid-filter: no such thing" {
		t.Error(err)
	}
}

// R274 retry, and Retry-After (RFC 9110): a relay is left alone for as long as
// it asks. Pauses get longer without a word of it.
func TestPauses(t *testing.T) {
	answers := atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			http.NotFound(w, r)
			return
		}
		switch answers.Add(1) {
		case 1, 2:
			w.WriteHeader(http.StatusBadGateway)
		case 3:
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 4:
			w.Header().Set("Content-Type", "text/event-stream")
			(&block{ResponseWriter: w, r: r}).say("retry: 60000\n: open x")
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer s.Close()
	var pauses []time.Duration
	c := newCollector()
	o := Options{Relay: at(t, strings.TrimPrefix(s.URL, "http://")), pause: func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	}}
	if err := startFollow(t, o, c).wait(t); err == nil {
		t.Error("no error")
	}
	const sec = time.Second
	want := [][2]time.Duration{{sec / 2, sec}, {sec, 2 * sec}, {40 * sec, 41 * sec}, {60 * sec, 61 * sec}}
	for i, w := range want {
		if i >= len(pauses) || pauses[i] < w[0] || pauses[i] > w[1] {
			t.Errorf("pauses %v, want within %v", pauses, want)
			break
		}
	}
	wantLines := []string{
		"# no connection: the relay answers 502 Bad Gateway; trying again",
		"# no connection: the relay answers 503 Service Unavailable; trying again",
		"# connected",
		"# connection lost: the relay has ended the stream; connecting again",
	}
	if got := c.lines(); !slices.Equal(got, wantLines) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wantLines, "\n"))
	}
}

// A connection on which nothing is heard is as good as lost.
func TestSilence(t *testing.T) {
	s := startScript(t, func(n int64, b *block, _ *http.Request) {
		b.say(": open x")
		if n > 1 {
			b.event("a", "s", 0)
		}
		b.hold()
	}, nil)
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr()), Silence: 50 * time.Millisecond}, c)
	if n := c.awaitNotice(t, Lost); n.Text != errSilent.Error() {
		t.Errorf("lost: %s", n.Text)
	}
	c.awaitEvents(t, 1)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
}

// Events without a place in a session are told apart by source and id alone.
func TestDedupe(t *testing.T) {
	s := startScript(t, func(n int64, b *block, _ *http.Request) {
		if n > 1 {
			b.hold()
			return
		}
		b.say(": open x")
		text := func(id, source, more string) string {
			return fmt.Sprintf(`data: {"aep":"0.1","id":%q,"source":%q,"type":"agent.heartbeat"%s}`, id, source, more)
		}
		b.say(text("1", "a", ""), text("1", "a", ""), text("1", "b", ""), text("2", "a", ""))
		b.say(text("3", "a", `,"session":"s","seq":4`), text("3", "a", `,"session":"s","seq":4.0`))
	}, nil)
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr())}, c)
	c.awaitNotice(t, Lost)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	if got := c.lines()[:4]; !slices.Equal(got, []string{"1", "1", "2", "3"}) {
		t.Errorf("%v", c.lines())
	}
}

// An event that is too long ends Follow: it would come again each time.
func TestTooLong(t *testing.T) {
	long := `{"id":"` + strings.Repeat("x", 20_000) + `"}`
	s := startScript(t, func(_ int64, b *block, _ *http.Request) {
		b.say(": open x", "data: "+long)
		b.hold()
	}, nil)
	o := Options{Relay: at(t, s.addr()), MaxEventBytes: 10_000}
	if err := startFollow(t, o, newCollector()).wait(t); !errors.Is(err, ErrTooLong) {
		t.Errorf("SSE: %v", err)
	}
	ws := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(long))
		_, _, _ = conn.Read(r.Context())
	}))
	defer ws.Close()
	o = Options{Relay: at(t, strings.TrimPrefix(ws.URL, "http://")), MaxEventBytes: 10_000, Socket: true}
	if err := startFollow(t, o, newCollector()).wait(t); !errors.Is(err, ErrTooLong) {
		t.Errorf("WebSocket: %v", err)
	}
}

// An error of the sink ends Follow as it is, and nothing is saved after it.
func TestSinkError(t *testing.T) {
	s := startScript(t, func(_ int64, b *block, _ *http.Request) {
		b.say(": open x")
		b.event("a", "s", 0)
		b.hold()
	}, nil)
	c := newCollector()
	c.fail = errors.New("no room")
	o := Options{Relay: at(t, s.addr()), State: filepath.Join(t.TempDir(), "state")}
	if err := startFollow(t, o, c).wait(t); err != c.fail {
		t.Errorf("%v, want %v", err, c.fail)
	}
	if s, _, err := readState(o.State); err != nil || len(s.Sessions) > 0 {
		t.Errorf("state %+v, %v", s, err)
	}
}

// A replay that is to end is given up after a few attempts that bring nothing.
func TestOnceGivesUp(t *testing.T) {
	tries := atomic.Int64{}
	s := startScript(t, nil, func(_ int64, b *block, _ *http.Request) {
		tries.Add(1)
		panic(http.ErrAbortHandler)
	})
	err := startFollow(t, Options{Relay: at(t, s.addr()), Once: true}, newCollector()).wait(t)
	if !errors.Is(err, ErrGaveUp) || tries.Load() != maxTries {
		t.Errorf("%v after %d tries", err, tries.Load())
	}
}

// A relay that is not there is said to be so, in few words.
func TestOnceUnreachable(t *testing.T) {
	s := startScript(t, nil, nil)
	addr := s.addr()
	s.Close()
	err := startFollow(t, Options{Relay: at(t, addr), Once: true}, newCollector()).wait(t)
	if !errors.Is(err, ErrGaveUp) || !errors.Is(err, syscall.ECONNREFUSED) ||
		err.Error() != "cannot reach the relay: connection refused" {
		t.Errorf("%v", err)
	}
}

// Two relays that take turns behind one address do not keep a reader from
// pausing between its attempts.
func TestAlternatingRelays(t *testing.T) {
	s := startScript(t, nil, func(n int64, b *block, _ *http.Request) {
		b.say(fmt.Sprint(": open ", n))
		b.event(fmt.Sprint("e", n), "s", uint64(n))
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
	})
	err := startFollow(t, Options{Relay: at(t, s.addr()), Once: true}, newCollector()).wait(t)
	if !errors.Is(err, ErrGaveUp) || s.replays.Load() > 4*maxTries+2 {
		t.Errorf("%v after %d replays", err, s.replays.Load())
	}
}

// A stream may come in any pieces.
func TestStreamSplitAnywhere(t *testing.T) {
	var text bytes.Buffer
	for i := range uint64(3) {
		e := relaytest.Event{ID: fmt.Sprint("e", i), Session: "ü", Seq: i}.JSON()
		fmt.Fprintf(&text, "event: progress.status\ndata: %s\nid: ü:0:%d\n\n: replay-exhausted ü 0:%d\n\n", e, i, i)
	}
	want := "e0 gap e1 gap e2 gap"
	for cut := range text.Len() {
		var got []string
		f := follower{o: Options{MaxEventBytes: 1000, Silence: time.Minute}}
		w := newWatch(func() {}, time.Minute)
		body := &pieces{text.Bytes()[:cut], text.Bytes()[cut:]}
		err := f.readStream(body, &request{live: true}, w, func(b *batch) error {
			for i := range b.items {
				switch it := &b.items[i]; it.what {
				case isEvent:
					e, _ := f.parse(b.text(it))
					got = append(got, fmt.Sprint("e", e.at.seq))
				case isGap:
					got = append(got, "gap")
				}
			}
			return nil
		})
		if err != errEnded || strings.Join(got, " ") != want {
			t.Fatalf("cut at %d: %v, %v", cut, got, err)
		}
	}
}

// pieces is a body that is read in pieces.
type pieces [][]byte

func (p *pieces) Read(buf []byte) (int, error) {
	for len(*p) > 0 && len((*p)[0]) == 0 {
		*p = (*p)[1:]
	}
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(buf, (*p)[0])
	(*p)[0] = (*p)[0][n:]
	return n, nil
}
