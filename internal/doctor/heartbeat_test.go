package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/internal/client"
)

// fakeRelay is as much of a relay as the heartbeat needs. It pings, or cuts, that
// long after a stream was opened, and after it has answered a ping on a socket.
func fakeRelay(stream, socket time.Duration, cut bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			_, _ = io.WriteString(w, `{"ok":true}`)
		case "/.well-known/aep":
			_, _ = io.WriteString(w, `{"aep":["0.1"],"endpoints":{"events":"/events","stream":"/stream","socket":"/socket"}}`)
		case "/stream":
			if r.Method != http.MethodGet {
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-cache, no-transform")
			_, _ = io.WriteString(w, ": open b\n\n")
			_ = http.NewResponseController(w).Flush()
			if sleep(r.Context(), stream) && !cut {
				_, _ = io.WriteString(w, ": ping\n\n")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		case "/socket":
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
			ponged := make(chan struct{}, 1)
			go func() {
				defer cancel()
				answers := map[bool]string{true: `{"type":"hello"}`, false: `{"type":"pong"}`}
				for {
					_, text, err := c.Read(ctx)
					if err != nil {
						return
					}
					isHello := bytes.Contains(text, []byte("hello"))
					_ = c.Write(ctx, websocket.MessageText, []byte(answers[isHello]))
					if !isHello {
						ponged <- struct{}{}
					}
				}
			}()
			select {
			case <-ponged:
			case <-ctx.Done():
				return
			}
			if sleep(ctx, socket) && !cut {
				_ = c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"ping","t":%d}`, time.Now().Add(-time.Hour).UnixMilli()))
				<-ctx.Done()
			}
		}
	})
}

// sleep waits, for a fake relay, and tells whether it may go on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		stream, socket time.Duration
		cut            bool
		v              Verdict
		text           string
	}{
		{"no ping on the stream", time.Hour, 0, false, Fail, "no ping on the stream"},
		{"no ping on the WebSocket", 0, time.Hour, false, Fail, "no ping on the WebSocket"},
		{"cut when quiet", 100 * time.Millisecond, 100 * time.Millisecond, true, Fail, "proxy_read_timeout"},
		{"clock of the relay is wrong", 0, 100 * time.Millisecond, false, Warn, "1h0m0s apart, by the relay's ping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(fakeRelay(c.stream, c.socket, c.cut))
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			found := examine(t, server.URL, "", Options{heartbeat: time.Second, slack: shortTimeout})
			want(t, found, "websocket", OK)
			want(t, found, "heartbeat", c.v, c.text)
		})
	}
}

// The real one takes its time.
func TestHeartbeatOfARelay(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a heartbeat: 25 s")
	}
	t.Parallel()
	found := examine(t, front{}.start(t, startRelay(t)), "", Options{heartbeat: heartbeatInterval, slack: patience})
	want(t, found, "heartbeat", OK, "ping on stream after", "WebSocket after")
	for _, after := range regexp.MustCompile(`after ([0-9.ms]+)`).FindAllStringSubmatch(found["heartbeat"].Seen, -1) {
		// The machine may be slow, the relay must not be early.
		if d, err := time.ParseDuration(after[1]); err != nil || d < 24*time.Second || d > 2*heartbeatInterval {
			t.Errorf("a ping after %v, want 25 s: %v", d, err)
		}
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	metrics := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	healthy := []string{
		"# HELP sluice_ready whatever", "sluice_ready 1", "sluice_descriptors_open 10", "sluice_descriptors_limit 1e+06",
		"sluice_connections 3", "sluice_connections_limit 900000", `sluice_loop_panics_total{loop="0"} 0`,
	}
	for _, c := range []struct {
		name, ready, metrics string
		v                    Verdict
		text                 string
	}{
		{"well", "", metrics(healthy...), OK, "10 of 1000000 descriptors, 3 of 900000 connections"},
		{"not ready", "draining", "", Fail, "draining"},
		{"few descriptors", "", metrics(append(healthy, "sluice_descriptors_limit 1024")...), Warn, "LimitNOFILE"},
		{"descriptors run out", "", metrics(append(healthy, "sluice_descriptors_open 900000")...), Warn, "run out"},
		{"full", "", metrics(append(healthy, "sluice_connections 899999")...), Warn, "SLUICE_MAX_CONNS"},
		{"older metrics", "", metrics("sluice_ready 1", "process_open_fds 9", "process_max_fds 10"), Warn, "run out"},
		{"panics", "", metrics(append(healthy, `sluice_loop_panics_total{loop="1"} 2`)...), Warn, "2 panics"},
		{"not one of a relay", "", "node_cpu 1\n", Warn, "no relay"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("the admin listener was sent the token")
			}
			switch {
			case r.URL.Path == "/readyz" && c.ready != "":
				http.Error(w, c.ready, http.StatusServiceUnavailable)
			case r.URL.Path == "/metrics":
				_, _ = io.WriteString(w, c.metrics)
			}
		}))
		r, err := client.New("127.0.0.1:1", testToken)
		if err != nil {
			t.Fatal(err)
		}
		d := newDoctor(t, r)
		d.Admin = server.URL + "/"
		if got := d.checkAdmin(t.Context()); got.verdict != c.v || !strings.Contains(got.seen+" "+got.advice, c.text) {
			t.Errorf("%s: %+v, want %s and %q", c.name, got, c.v, c.text)
		}
		server.Close()
		if got := d.checkAdmin(t.Context()); got.verdict != Skip {
			t.Errorf("%s, closed: %+v", c.name, got)
		}
		d.AdminGiven = true
		if got := d.checkAdmin(t.Context()); got.verdict != Warn || !strings.Contains(got.seen, "no admin listener at "+server.URL) {
			t.Errorf("%s, closed, asked for: %+v", c.name, got)
		}
		d.Admin = ""
		if got := d.checkAdmin(t.Context()); got.verdict != Skip || !strings.Contains(got.seen, "turned off") {
			t.Errorf("%s, off: %+v", c.name, got)
		}
	}
}

func TestParseAdmin(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:8788": "http://127.0.0.1:8788", "[::1]:8788": "http://[::1]:8788", "localhost:1": "http://localhost:1",
		"http://relay.example:8788/": "http://relay.example:8788", "https://relay.example/admin": "https://relay.example/admin",
		"": "", "foo": "", "foo:": "", ":8788": "", "ftp://x": "", "http://": "", "http://u:p@x": "", "http://x?y": "", "http://re lay": "",
		"unix:/x": "", "x:y": "",
	} {
		got, err := ParseAdmin(address)
		if got != want || errors.Is(err, ErrAdmin) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
	}
}
