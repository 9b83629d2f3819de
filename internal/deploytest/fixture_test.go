package deploytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// testToken is the token of every relay here, as a relay behind a proxy needs
// one. No log may show it.
const testToken = "t0ken-SECRET123"

// fixture is a relay behind a proxy.
type fixture struct {
	t     *testing.T
	relay *relay.Relay
	proxy *proxy
	front string // what clients dial: the tunnel to the proxy's TLS port
	back  string // the relay itself

	stopOnce sync.Once
	stopErr  error
}

// start runs a relay with a token on loopback, as docs/operations.md has it,
// with further settings ("NAME=value"), and a proxy in front.
func start(t *testing.T, kind proxyKind, settings ...string) *fixture {
	t.Helper()
	f := startRelay(t, settings...)
	f.proxy = startProxy(t, kind, f.back)
	f.front = f.proxy.tunnel(t, "127.0.0.1")
	return f
}

// startPlain is start with a proxy that speaks no TLS.
func startPlain(t *testing.T, kind proxyKind) *fixture {
	t.Helper()
	f := startRelay(t)
	f.proxy = startProxy(t, kind, f.back, kind.plain...)
	f.front = f.proxy.addr
	return f
}

func startRelay(t *testing.T, settings ...string) *fixture {
	t.Helper()
	r := testrelay.Start(t, append([]string{"AEP_TOKEN=" + testToken}, settings...)...)
	f := &fixture{t: t, relay: r, back: r.Addr()}
	t.Cleanup(func() {
		if err := f.shutdown(); err != nil {
			t.Errorf("R464: Shutdown: %v", err)
		}
	})
	return f
}

// shutdown stops the relay once, as SIGTERM does.
func (f *fixture) shutdown() error {
	f.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		f.stopErr = f.relay.Shutdown(ctx)
	})
	return f.stopErr
}

// stream opens a stream through the proxy, or at addr when that is given.
func (f *fixture) stream(target string, addr ...string) *relaytest.Stream {
	f.t.Helper()
	s := f.ask(target, addr...)
	if s.Response.Status != http.StatusOK {
		f.t.Fatalf("GET %s: %d %s", target, s.Response.Status, s.Response.Body)
	}
	return s
}

// ask is stream for an answer of any status.
func (f *fixture) ask(target string, addr ...string) *relaytest.Stream {
	f.t.Helper()
	s, err := relaytest.OpenStream(append(addr, f.front)[0], target, relaytest.StreamOptions{Token: testToken})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = s.Close() })
	return s
}

// live opens a live stream and reads its first block.
func (f *fixture) live(addr ...string) *relaytest.Stream {
	f.t.Helper()
	s := f.stream("/stream", addr...)
	f.block(s, ": open ")
	return s
}

// block returns the next block, which must begin with prefix once the field
// retry is left out of account.
func (f *fixture) block(s *relaytest.Stream, prefix string) relaytest.Block {
	f.t.Helper()
	b, err := s.Next(patience)
	if err != nil {
		f.t.Fatalf("no block that begins with %q: %v", prefix, err)
	}
	for line := range strings.SplitSeq(b.Raw, "\n") {
		if strings.HasPrefix(line, prefix) {
			return b
		}
	}
	f.t.Fatalf("block %.300q, want one with %q", b.Raw, prefix)
	return b
}

// socket opens a WebSocket through the proxy, says hello and reads the answer.
func (f *fixture) socket() *relaytest.WS {
	f.t.Helper()
	w, err := relaytest.DialWS(f.front, "/socket", relaytest.WSOptions{Token: testToken})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = w.Close() })
	f.send(w, `{"type":"hello","versions":["0.1"],"role":"both","identity":{"agent":"probe"}}`)
	f.frame(w, "hello")
	return w
}

func (f *fixture) send(w *relaytest.WS, text string) {
	f.t.Helper()
	if err := w.SendText(text); err != nil {
		f.t.Fatal(err)
	}
}

// frame returns the next text message, which must be of type typ.
func (f *fixture) frame(w *relaytest.WS, typ string) string {
	f.t.Helper()
	m := f.message(w)
	e, err := relaytest.ParseEnvelope(string(m.Data))
	if err != nil || m.Opcode != relaytest.OpText || e.Type != typ {
		f.t.Fatalf("opcode %d, code %d, %.300q, %v; want a frame %s", m.Opcode, m.Code, m.Data, err, typ)
	}
	return string(m.Data)
}

func (f *fixture) message(w *relaytest.WS) relaytest.Message {
	f.t.Helper()
	m, err := w.Next(patience)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// postHead is the head of a POST /events but for the length of its body.
func postHead(contentType string) string {
	return "POST /events HTTP/1.1\r\nHost: " + serverName + "\r\nAuthorization: Bearer " + testToken +
		"\r\nAEP-Version: 0.1\r\nContent-Type: " + contentType + "\r\n"
}

// post publishes events to the relay itself.
func (f *fixture) post(events ...string) {
	f.t.Helper()
	body := relaytest.NDJSON(events...)
	request := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", postHead("application/x-ndjson"), len(body), body)
	r, err := relaytest.Do(f.back, "POST", request, patience)
	if err != nil || r.Status != http.StatusAccepted {
		f.t.Fatalf("POST /events: %+v, %v", r, err)
	}
}

// subscribers reads the gauge of the relay itself.
func (f *fixture) subscribers() int64 {
	f.t.Helper()
	request := "GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + testToken + "\r\n\r\n"
	r, err := relaytest.Do(f.back, "GET", request, patience)
	if err != nil {
		f.t.Fatal(err)
	}
	var health struct{ Subscribers int64 }
	if err := json.Unmarshal(r.Body, &health); err != nil {
		f.t.Fatal(err)
	}
	return health.Subscribers
}

// awaitSubscribers waits until the gauge is n and returns how long it took.
func (f *fixture) awaitSubscribers(n int64) time.Duration {
	f.t.Helper()
	begin := time.Now()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		got := f.subscribers()
		if got == n {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			f.t.Fatalf("%d subscribers, want %d", got, n)
		}
		<-tick.C
	}
}
