package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// stopping starts the shutdown and waits until the relay accepts no more. The
// channel gives what Shutdown returned.
func (f *fixture) stopping(t *testing.T) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f.shutdown() }()
	deadline := time.Now().Add(patience)
	for {
		c, err := relaytest.Dial(f.addr)
		if err != nil {
			return done
		}
		_ = c.Close()
		if time.Now().After(deadline) {
			t.Fatal("R460: the relay accepts connections during its shutdown")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// drained wants Shutdown to have succeeded. That all was closed within its 5 s
// the relay says itself; how long the rest may take is only bounded.
func drained(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("R464: Shutdown: %v", err)
		}
	case <-time.After(endPatience):
		t.Errorf("R464: Shutdown has not ended after %v", endPatience)
	}
}

// inFlight is how long the relay waits for requests in flight before it ends
// streams and takes no more events.
const inFlight = time.Second

// tooLate tells that a round proves nothing: the test itself was so slow that
// the relay, which was told to stop after begin, need not wait any more.
func tooLate(t *testing.T, begin time.Time) bool {
	t.Helper()
	took := time.Since(begin)
	if took >= inFlight {
		t.Logf("%v for what the relay waits for %v", took, inFlight)
	}
	return took >= inFlight
}

// late is a request in flight whose body comes byte by byte until finish sends
// the rest: one that stands still is cut 2 s after the signal.
type late struct {
	t    *testing.T
	c    *relaytest.Conn
	left int // of the spaces before the event; owned by the goroutine until over
	end  chan struct{}
	over chan struct{}
}

const lateSpaces = 10_000

// openLate begins a post of an event, which nothing but white space comes of
// until finish. It ends with the test.
func (f *fixture) openLate(t *testing.T) *late {
	t.Helper()
	l := &late{t: t, c: f.openBody(t, lateSpaces), left: lateSpaces, end: make(chan struct{}), over: make(chan struct{})}
	t.Cleanup(l.hold)
	go func() {
		defer close(l.over)
		for tick := time.Tick(50 * time.Millisecond); ; {
			select {
			case <-tick:
				if l.left > 0 && l.c.SendString(" ") == nil {
					l.left--
				}
			case <-l.end:
				return
			}
		}
	}()
	return l
}

// hold lets nothing more come; twice is once.
func (l *late) hold() {
	select {
	case <-l.end:
	default:
		close(l.end)
	}
	<-l.over
}

// finish sends the rest, returns the answer and closes the connection, which
// would be kept for 2 s otherwise.
func (l *late) finish() *relaytest.Response {
	l.t.Helper()
	l.hold()
	r := answer(l.t, l.c, "POST", strings.Repeat(" ", l.left)+lateEvent)
	_ = l.c.Close()
	return r
}

// rounds runs test several times side by side: what races with the shutdown
// does not show each time.
func rounds(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Parallel()
	for i := range 12 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestR461Streams: what is queued, that is all that was acknowledged before
// the signal (R78), then the comment and a regular end (C56).
func TestR461Streams(t *testing.T) { rounds(t, endsStreams) }

func endsStreams(t *testing.T) {
	f := startRelay(t, nil)
	plain, filtered := f.stream(t, "", relaytest.StreamOptions{}), f.stream(t, query("filter", `{"type":"tool.*"}`), relaytest.StreamOptions{})
	old := f.stream(t, "", relaytest.StreamOptions{HTTP10: true})
	e := relaytest.Event{Session: "s"}.JSON()
	f.post(t, e)
	done := f.stopping(t)
	for _, s := range []*stream{plain, old} {
		if got := s.event().Data; got != e {
			t.Errorf("queued event: %s", got)
		}
	}
	for _, s := range []*stream{plain, old, filtered} {
		if b := s.block(); b.Raw != ": shutting-down" {
			t.Errorf("block %q, want : shutting-down", b.Raw)
		}
		s.ended()
	}
	drained(t, done)
}

// TestR461UnfinishedReplay: ends as a live stream does.
func TestR461UnfinishedReplay(t *testing.T) {
	t.Parallel()
	// A small send buffer, so that what it holds is read in good time.
	f := startRelay(t, map[string]string{"SLUICE_SEND_BUFFER": "32768"})
	const held = 2000 // more than the buffers of both kernels and a window
	f.fill(t, "s", held, 2000)
	s := f.stream(t, "live=0&from=all", relaytest.StreamOptions{RecvBytes: 16 << 10})
	s.event()
	done := f.stopping(t)
	events := 1
	for {
		b := s.block()
		if !b.IsEvent() {
			if b.Raw != ": shutting-down" {
				t.Errorf("after %d events: %q, want : shutting-down", events, b.Raw)
			}
			break
		}
		events++
	}
	s.ended()
	if events == held {
		t.Error("the whole replay came: nothing was unfinished")
	}
	drained(t, done)
}

// TestR462Sockets: what is queued, closing with positions, Close 1001.
func TestR462Sockets(t *testing.T) { rounds(t, endsSockets) }

func endsSockets(t *testing.T) {
	f := startRelay(t, nil)
	w, idle := f.socket(t, ""), f.socket(t, "")
	silent := f.dial(t, relaytest.WSOptions{})
	w.subscribe(`{"type":"subscribe","id":"q"}`)
	w.subscribe(`{"type":"subscribe","id":2,"filter":{"session":"b"}}`)
	f.post(t, at{1, 7}.event("a"), at{1, 3}.event("a"), at{0, 9}.event("b"), relaytest.AgentEvent().JSON())
	done := f.stopping(t)
	for range 5 {
		w.text()
	}
	closing := func(w *socket, delivered ...string) {
		t.Helper()
		text := w.text()
		e, err := relaytest.ParseEnvelope(text)
		if err != nil || e.Type != "closing" || e.Reason != "shutting-down" || len(e.Closing) != len(delivered) || !strings.Contains(text, `"delivered"`) {
			t.Errorf("R462: %s, want closing, shutting-down, %q", text, delivered)
		}
		for _, d := range e.Closing {
			got := fmt.Sprintf("%s %s %d:%d", d.Sub, d.Session, d.Epoch, d.Seq)
			found := false
			for _, want := range delivered {
				found = found || got == want
			}
			if !found {
				t.Errorf("R430: delivered has %s, want of %q", got, delivered)
			}
		}
		if reason := w.closes(1001); reason != "shutting down" {
			t.Errorf("R462: reason %q", reason)
		}
	}
	closing(w, `"q" a 1:3`, `"q" b 0:9`, `2 b 0:9`)
	closing(idle)
	for {
		m, err := silent.Next(patience)
		if relaytest.IsTimeout(err) {
			t.Error("a socket before hello stays open")
		}
		if err != nil || m.Opcode == relaytest.OpClose {
			_ = silent.SendClose(1001, "")
			break
		}
	}
	drained(t, done)
}

// TestW38StubbornPeers: peers that ignore Close, or read nothing, are cut, and
// the shutdown succeeds (R462).
func TestW38StubbornPeers(t *testing.T) {
	// Alone: the relay's own 2 s for each of two steps leave a second of R464's 5.
	f := startRelay(t, nil)
	deaf := f.socket(t, "")
	stalled := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 4 << 10})
	stalled.subscribe(`{"type":"subscribe","id":"q"}`)
	f.stream(t, "", relaytest.StreamOptions{RecvBytes: 4 << 10})
	f.fill(t, "s", 4000, 1000)
	done := f.stopping(t)
	drained(t, done)
	deaf.frame("closing")
	if m := deaf.next(); m.Code != 1001 {
		t.Errorf("%+v, want Close 1001", m)
	}
}

// TestR463InFlight: requests in flight finish, idle connections go.
func TestR463InFlight(t *testing.T) { rounds(t, finishesRequests) }

func finishesRequests(t *testing.T) {
	f := startRelay(t, nil)
	idle, busy, fresh := f.raw(t, 0), f.raw(t, 0), f.raw(t, 0)
	if r := answer(t, idle, "GET", f.request("GET", "/healthz")); r.Status != 200 {
		t.Fatal(r.Status)
	}
	request := f.postRequest(jsonType, relaytest.Event{Session: "s"}.JSON(), "Expect: 100-continue")
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	if r := answer(t, busy, "POST", head+"\r\n\r\n"); r.Status != 100 { // now it is in flight
		t.Fatal(r.Status)
	}
	// One that is accepted after the stop has 2 s for a request, not none.
	f.awaitSnapshot(t, "three connections", func(s *admin.Snapshot) bool { return s.Connections == 3 })
	begin := time.Now()
	done := f.stopping(t)
	if err := idle.AwaitEOF(patience); err != nil {
		t.Errorf("idle connection: %v", err)
	}
	if err := fresh.AwaitEOF(patience); err != nil {
		t.Errorf("connection without a request: %v", err)
	}
	if r := answer(t, busy, "POST", body); r.Status != 202 && !(r.Status == 503 && tooLate(t, begin)) {
		t.Errorf("request in flight: %d", r.Status)
	}
	if err := busy.AwaitEOF(patience); err != nil {
		t.Errorf("R463: no keep-alive reuse: %v", err)
	}
	drained(t, done)
}

// TestR463BeforeStreams: what a request in flight brings still reaches the
// streams, and one that comes to its end after them is not acknowledged: nobody
// would ever get its events.
func TestR463BeforeStreams(t *testing.T) { rounds(t, servesRequestsFirst) }

func servesRequestsFirst(t *testing.T) {
	f := startRelay(t, nil)
	s := f.stream(t, "", relaytest.StreamOptions{})
	event := relaytest.Event{Session: "s"}.JSON()
	soon, late := f.raw(t, 0), f.openLate(t)
	head, body, _ := strings.Cut(f.postRequest(jsonType, event, "Expect: 100-continue"), "\r\n\r\n")
	if r := answer(t, soon, "POST", head+"\r\n\r\n"); r.Status != 100 {
		t.Fatal(r.Status)
	}
	begin := time.Now()
	done := f.stopping(t)
	switch r := answer(t, soon, "POST", body); {
	case r.Status == 202:
		if got := s.event().Data; got != event {
			t.Errorf("the stream has %q", got)
		}
	case r.Status != 503 || !tooLate(t, begin):
		t.Errorf("request in flight: %d", r.Status)
	}
	if b := s.block(); b.Raw != ": shutting-down" {
		t.Errorf("block %q, want : shutting-down", b.Raw)
	}
	s.ended()
	if r := late.finish(); r.Status != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("after the streams have ended: %d, Retry-After %q", r.Status, r.Header.Get("Retry-After"))
	}
	drained(t, done)
}

// TestR463BeforeDrain: the same when peers are told over a window.
func TestR463BeforeDrain(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"SLUICE_DRAIN": "500ms"})
	s := f.stream(t, "", relaytest.StreamOptions{})
	late := f.openLate(t)
	done := f.stopping(t)
	if b := s.block(); b.Raw != ": shutting-down" {
		t.Errorf("block %q, want : shutting-down", b.Raw)
	}
	s.ended()
	if r := late.finish(); r.Status != 503 {
		t.Errorf("after the only stream has ended: %d", r.Status)
	}
	drained(t, done)
}

// TestR464Limit: a request that is still coming 5 s after the signal makes the
// shutdown fail; its connection is closed then.
func TestR464Limit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 5 s")
	}
	f := startRelay(t, nil)
	f.openLate(t) // progress, but no end
	begin := time.Now()
	err := <-f.stopping(t)
	// Where only the end of the loops closed it, it would be 10 s.
	if took := time.Since(begin); err == nil || took < 4*time.Second || took > 9500*time.Millisecond {
		t.Errorf("Shutdown with a request that never ends: %v after %v, want an error at 5 s", err, took)
	}
	f.stopErr = nil // expected here
}

// TestR463SilentBody: a request whose body has stopped coming does not keep the
// shutdown from its end (W38).
func TestR463SilentBody(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	c := f.openBody(t, lateSpaces)
	drained(t, f.stopping(t))
	if _, err := c.Drain(patience); relaytest.IsTimeout(err) {
		t.Error("the connection stays open")
	}
}

// lateEvent is what stands at the end of the bodies of openBody.
var lateEvent = relaytest.Event{Session: "s"}.JSON()

// openBody begins a request whose body the relay reads: so many spaces and
// lateEvent.
func (f *fixture) openBody(t *testing.T, spaces int) *relaytest.Conn {
	t.Helper()
	c := f.raw(t, 0)
	body := strings.Repeat(" ", spaces) + lateEvent
	request := f.postRequest(jsonType, body, "Expect: 100-continue")
	if r := answer(t, c, "POST", strings.TrimSuffix(request, body)); r.Status != 100 {
		t.Fatal(r.Status)
	}
	return c
}

// TestR12Run: the line on stdout, and a regular end (R11, R12).
func TestR12Run(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  map[string]string
		host string
		auth string
	}{
		{"loopback", nil, "127.0.0.1", "OFF"},
		{"R13 default without a token", map[string]string{"AEP_HOST": ""}, "127.0.0.1", "OFF"},
		{"default with a token", map[string]string{"AEP_HOST": "", "AEP_TOKEN": testToken}, "", "on"},
		{"loopback with a token", map[string]string{"AEP_TOKEN": testToken}, "127.0.0.1", "on"},
		{"R13 wide without a token", map[string]string{"AEP_HOST": "0.0.0.0"}, "", "OFF"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		out, in := io.Pipe()
		log := &relaytest.LogBuffer{}
		done := make(chan error, 1)
		cfg := testConfig(t, c.env)
		go func() {
			done <- relay.Run(ctx, cfg, slog.New(slog.NewTextHandler(log, nil)), in, relay.Control{})
			_ = in.Close()
		}()
		lines := bufio.NewReader(out)
		line, err := lines.ReadString('\n')
		rest, ok := strings.CutPrefix(line, "aep-relay listening on ")
		if err != nil || !ok {
			t.Fatalf("%s: stdout %q, %v", c.name, line, err)
		}
		addr, _, _ := strings.Cut(rest, " ")
		host, port, err := net.SplitHostPort(strings.TrimRight(addr, ",;\n"))
		if err != nil || host != c.host || port == "0" {
			t.Errorf("%s: %q, want host %q and the bound port", c.name, line, c.host)
		}
		if words := strings.NewReplacer(",", " ", "(", " ", ")", " ", ":", " ").Replace(line) + " "; !strings.Contains(strings.ReplaceAll(words, "\n", " "), " "+c.auth+" ") {
			t.Errorf("%s: %q, want auth %s", c.name, line, c.auth)
		}
		if r, err := relaytest.Do("127.0.0.1:"+port, "GET", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", patience); err != nil || r.Status != 200 {
			t.Errorf("%s: the line came before the listener accepts: %+v, %v", c.name, r, err)
		}
		cancel()
		more, _ := io.ReadAll(lines)
		if err := <-done; err != nil || len(more) != 0 {
			t.Errorf("%s: Run: %v, and further stdout %q", c.name, err, more)
		}
		if strings.Contains(line+log.String(), "SECRET123") {
			t.Errorf("R15: %s: the token is shown", c.name)
		}
	}
}
