package deploytest

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// tenMegabytes is a body of 10,000 events, the most that one may hold.
func tenMegabytes() string {
	events := make([]string, 10_000)
	for seq := range events {
		events[seq] = relaytest.Padded("big", uint64(seq), "", 860).JSON()
	}
	return relaytest.NDJSON(events...)
}

// chunked makes the chunked form of a body.
func chunked(body string) string {
	var b strings.Builder
	for piece := range slices.Chunk([]byte(body), 100_000) {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(piece), piece)
	}
	return b.String() + "0\r\n\r\n"
}

// R48: a body of 10 MB passes, of a known length and chunked, and every event
// arrives.
func TestLargePost(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		body := tenMegabytes()
		if len(body) < 10_000_000 {
			t.Fatalf("body of %d bytes", len(body))
		}
		c, err := relaytest.Dial(f.front)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		head := postHead("application/x-ndjson")
		for _, request := range []string{
			fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body),
			head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body),
		} {
			begin := time.Now()
			if err := c.SendString(request); err != nil {
				t.Fatal(err)
			}
			r, err := c.ReadResponse("POST", patience)
			if err != nil || r.Status != http.StatusAccepted {
				t.Fatalf("%+v, %v", r, err)
			}
			t.Logf("%d bytes in %v", len(request), time.Since(begin))
		}
		s := f.stream("/stream?live=0&from=all", f.back)
		f.block(s, ": open ")
		for seq := range uint64(10_000) {
			e, err := relaytest.ParseEnvelope(f.block(s, "data: ").Data)
			if err != nil || e.SeqNumber() != seq {
				t.Fatalf("got seq %d, %v, want %d", e.SeqNumber(), err, seq)
			}
		}
		f.block(s, ": replay-complete")
	})
}

// R76: the relay's own 413 can be read, of a known length and chunked, although
// the client is still sending. One that waits for 100 Continue never sends the
// body here: the head is enough to refuse it.
func TestTooLargeIsReadable(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		body := strings.Repeat(" ", 20<<20)
		head := postHead("application/json")
		for name, request := range map[string]string{
			"known":   fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body),
			"chunked": head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body),
			"waiting": fmt.Sprintf("%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", head, len(body)),
		} {
			for range 5 { // a reset that overtakes the answer comes now and then
				wantTooLarge(t, f, name, request)
			}
		}
	})
}

func wantTooLarge(t *testing.T, f *fixture, name, request string) {
	t.Helper()
	c, err := relaytest.Dial(f.front)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	sent := make(chan error, 1)
	go func() { sent <- c.SendString(request) }()
	r, err := c.ReadResponse("POST", patience)
	if err == nil && r.Status == http.StatusContinue { // a proxy may ask for the body itself
		t.Logf("%s: the proxy answers 100 by itself", name)
		r, err = c.ReadResponse("POST", patience)
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if r.Status != http.StatusRequestEntityTooLarge || !strings.Contains(string(r.Body), "16777216") {
		t.Errorf("%s: %d %.300q, want 413 with the relay's text", name, r.Status, r.Body)
	}
	_ = c.Close()
	<-sent // an error when the other side has closed
}

// TestRequestHeads looks at what reaches the relay, from the relay's place.
func TestRequestHeads(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan *http.Request, 64)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" { // HAProxy asks on its own
				seen <- r
			}
		})}
		go func() { _ = server.Serve(ln) }()
		t.Cleanup(func() { _ = server.Close() })
		p := startProxy(t, kind, ln.Addr().String())
		front := p.tunnel(t, "127.0.0.1")

		request := "GET /stream?access_token=" + testToken + "&from=%5B%5D HTTP/1.1\r\nHost: " + serverName + "\r\n" +
			"X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 203.0.113.10\r\nLast-Event-ID: s:0:1\r\n" +
			"Authorization: Bearer x\r\nOrigin: https://dash.example\r\nAEP-Version: 0.1\r\n"
		for _, upgrade := range []bool{false, true} {
			more := "\r\n"
			if upgrade {
				more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
					"Sec-WebSocket-Protocol: aep\r\nSec-WebSocket-Key: " + relaytest.WSKey + "\r\n\r\n"
			}
			if _, err := relaytest.Do(front, "GET", request+more, patience); err != nil {
				t.Fatal(err)
			}
			r := <-seen
			want := map[string]string{
				"Last-Event-Id": "s:0:1", "Authorization": "Bearer x", "Origin": "https://dash.example",
				"Aep-Version": "0.1", "X-Forwarded-For": "127.0.0.1",
			}
			if upgrade {
				want["Upgrade"], want["Connection"] = "websocket", "upgrade"
				want["Sec-Websocket-Key"], want["Sec-Websocket-Version"] = relaytest.WSKey, "13"
				want["Sec-Websocket-Protocol"] = "aep"
			}
			for name, value := range want {
				if got := r.Header.Values(name); len(got) != 1 || !strings.EqualFold(got[0], value) {
					t.Errorf("upgrade %v: %s: %q, want %q once", upgrade, name, got, value)
				}
			}
			if r.Host != serverName || r.RequestURI != "/stream?access_token="+testToken+"&from=%5B%5D" {
				t.Errorf("upgrade %v: Host %q, target %q", upgrade, r.Host, r.RequestURI)
			}
		}
	})
}

// SLUICE_TRUSTED_PROXIES: connections are counted for clients, and not for the
// proxy that all of them come through.
func TestClientsAreCounted(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind, "SLUICE_TRUSTED_PROXIES=127.0.0.1", "SLUICE_MAX_CONNS_PER_IP=2")
		first, second := f.proxy.tunnel(t, "127.0.0.2"), f.proxy.tunnel(t, "127.0.0.3")
		leaves := f.live(first)
		f.live(first)
		f.live(second)
		r := f.ask("/stream", first).Response
		if r.Status != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
			t.Errorf("third connection of a client: %d %q, want 429 and Retry-After", r.Status, r.Header)
		}
		f.live(second)
		_ = leaves.Close()
		f.awaitSubscribers(3)
		f.live(first)
	})
}

// R15: the snippets keep tokens out of logs: in the query of a request that
// succeeds, of one that is refused, and of one for which there is no relay.
func TestNoTokenInLogs(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		f := start(t, kind)
		get := func(path string, status int) {
			t.Helper()
			request := "GET " + path + "?access_token=" + testToken + " HTTP/1.1\r\nHost: " + serverName + "\r\n\r\n"
			r, err := relaytest.Do(f.front, "GET", request, patience)
			if err != nil || r.Status != status {
				t.Errorf("%s: %+v, %v, want %d", path, r, err, status)
			}
		}
		get("/connections", http.StatusOK)
		get("/nothing-here", http.StatusNotFound)
		if err := f.shutdown(); err != nil {
			t.Error(err)
		}
		get("/after", map[string]int{"nginx": 502, "haproxy": 503}[kind.name])
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		deadline := time.Now().Add(patience)
		for !strings.Contains(f.proxy.logged(t), "/after") {
			if time.Now().After(deadline) {
				t.Fatalf("the last request is not logged:\n%s", f.proxy.logged(t))
			}
			<-tick.C
		}
		if text := f.proxy.logged(t); strings.Contains(text, "SECRET123") {
			t.Errorf("the token is logged:\n%s", text)
		}
	})
}
