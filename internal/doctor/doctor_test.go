package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// A relay as it is by default has nothing to be said against.
func TestHealthyRelay(t *testing.T) {
	t.Parallel()
	unix := "unix:" + filepath.Join(t.TempDir(), "r.sock")
	for _, c := range []struct {
		name, token string
		settings    []string
	}{
		{"open", "", nil},
		{"with a token", testToken, []string{"AEP_TOKEN=" + testToken}},
		{"on a Unix socket", testToken, []string{"AEP_TOKEN=" + testToken, "AEP_HOST=" + unix}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := examine(t, startRelay(t, c.settings...), c.token, Options{Publish: true})
			onlyThese(t, found)
			for _, check := range []string{
				"address", "tls", "health", "token", "discovery", "clock", "keep-alive", "origin", "stream", "compression",
				"websocket", "publish",
			} {
				want(t, found, check, OK)
			}
			want(t, found, "heartbeat", Skip, "--quick")
			want(t, found, "admin", Skip)
		})
	}
}

// Nothing is published unless it is allowed to be.
func TestPublishesOnlyWhenAllowed(t *testing.T) {
	t.Parallel()
	var posts atomic.Int64
	address := front{request: func(r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
	}}.start(t, startRelay(t))
	want(t, examine(t, address, "", Options{}), "publish", Skip, "--publish")
	if posts.Load() != 0 {
		t.Error("something was published")
	}
	want(t, examine(t, address, "", Options{Publish: true}), "publish", OK, "stream", "WebSocket")
	if posts.Load() != 1 {
		t.Errorf("%d events were published", posts.Load())
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	withToken, open := startRelay(t, "AEP_TOKEN="+testToken), startRelay(t)
	replace := front{request: func(r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			r.Header.Set("Authorization", "Bearer "+testToken)
		}
	}}.start(t, withToken)
	add := front{request: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testToken) }}.start(t, withToken)
	drop := front{request: func(r *http.Request) { r.Header.Del("Authorization") }}.start(t, withToken)
	for _, c := range []struct {
		name, address, token string
		v                    Verdict
		text                 string
	}{
		{"none given", withToken, "", Fail, "set AEP_TOKEN or --token-file"},
		{"a wrong one", withToken, "wrong", Fail, "refuses the token"},
		{"given and not asked for", open, testToken, Warn, "none is asked for"},
		{"a proxy puts the right one in place", replace, testToken, Fail, "a wrong token is answered 200"},
		{"a proxy adds it", add, testToken, Warn, "a proxy in front adds it"},
		{"a proxy drops it", drop, testToken, Fail, "pass Authorization on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := examine(t, c.address, c.token, Options{})
			want(t, found, "token", c.v, c.text)
			if c.v == Fail && !strings.Contains(c.name, "puts") {
				want(t, found, "websocket", Skip)
			}
		})
	}
}

// What comes late is worth a warning.
func TestSlow(t *testing.T) {
	t.Parallel()
	found := examine(t, startRelay(t), "", Options{Publish: true, slow: 1})
	want(t, found, "stream", Warn, "its first block came after")
	want(t, found, "publish", Warn, "on the stream after")
	onlyThese(t, found, "stream", "publish")
}

// An open relay at an address that others reach is worth a warning. The relay
// stands for another host through the client's dialer.
func TestOpenRelayOfTheNetwork(t *testing.T) {
	t.Parallel()
	to := strings.TrimPrefix(startRelay(t, "AEP_ORIGINS=*"), "http://")
	c, err := client.New("http://relay.example:8787", "")
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	d := newDoctor(t, c)
	if f := d.checkToken(t.Context()); f.verdict != Warn || !strings.Contains(f.seen, "not loopback") {
		t.Errorf("%+v", f)
	}
	if f := d.checkTLS(t.Context()); f.verdict != Warn || !strings.Contains(f.seen, "in the clear") {
		t.Errorf("%+v", f)
	}
	if f := d.checkOrigin(t.Context()); f.verdict != Warn || !strings.Contains(f.advice, "AEP_ORIGINS=*") {
		t.Errorf("%+v", f)
	}
}

func newDoctor(t *testing.T, c *client.Relay) *doctor {
	return &doctor{Options: Options{Relay: c, Timeout: patience}, http: c.HTTP}
}

// What is in front of a relay can do wrong, one at a time.
func TestProxies(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	onStream := func(f func(*http.Response)) func(*http.Response) {
		return func(r *http.Response) {
			if isStream(r) {
				f(r)
			}
		}
	}
	f := func(name string, p front, check string, v Verdict, texts ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Publish: true}
			if strings.HasPrefix(name, "holds ") || name == "compresses unasked" {
				o.Timeout = shortTimeout // nothing comes
			}
			found := examine(t, p.start(t, relay), "", o)
			want(t, found, check, v, texts...)
			// A stream that does not come through cannot be published to either.
			onlyThese(t, found, check, "publish")
		})
	}
	f("passes all on", front{}, "stream", OK)
	f("holds the body until 8 KB", front{response: onStream(func(r *http.Response) {
		r.Body = &holding{ReadCloser: r.Body, size: 8 << 10}
	})}, "stream", Fail, "nothing else in", "proxy_buffering off")
	f("holds the whole answer", front{respond: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/stream" || r.Method != http.MethodGet || r.Header.Get("Origin") != "" {
			return false
		}
		<-r.Context().Done()
		return true
	}}, "stream", Fail, "not even the head", "proxy_buffering off")
	f("compresses unasked", front{response: onStream(func(r *http.Response) {
		r.Header.Set("Content-Encoding", "gzip")
		r.Body = zipped(r.Body)
	})}, "stream", Fail, "gzip", "no-transform")
	f("compresses if it may", front{response: func(r *http.Response) {
		if isStream(r) && strings.Contains(r.Request.Header.Get("Accept-Encoding"), "br") {
			r.Header.Set("Content-Encoding", "br")
		}
	}}, "compression", Fail, "compressed with br", "gzip off")
	f("takes the type away", front{response: onStream(func(r *http.Response) { r.Header.Set("Content-Type", "text/plain") })},
		"stream", Fail, "text/plain", "browsers refuse it")
	f("allows transformations", front{response: onStream(func(r *http.Response) { r.Header.Set("Cache-Control", "no-cache") })},
		"stream", Warn, "no-transform")
	f("has a wrong clock", front{respond: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat))
		return false
	}, response: func(r *http.Response) { r.Header.Del("Date") }}, "clock", Warn, "apart", "NTP")
	f("does not upgrade", front{request: func(r *http.Request) {
		r.Header.Del("Upgrade")
		r.Header.Set("Connection", "close")
	}}, "websocket", Fail, "404", "proxy_http_version 1.1")
	f("says 400 to upgrades", front{respond: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/socket" {
			http.Error(w, "no \x1b[31mupgrade", http.StatusBadRequest)
		}
		return r.URL.Path == "/socket"
	}}, "websocket", Fail, `400 Bad Request: no \x1b[31mupgrade`)
	f("does not keep connections", front{respond: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/socket" {
			w.Header().Set("Connection", "close")
		}
		return false
	}}, "keep-alive", Warn, "keepalive_timeout")
	f("answers preflights itself", front{respond: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return r.Method == http.MethodOptions
	}}, "origin", Warn, "405", "pass OPTIONS on")
	f("refuses bodies", front{respond: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		return r.Method == http.MethodPost
	}}, "publish", Fail, "413", "client_max_body_size")
	f("drops AEP-Version", front{request: func(r *http.Request) { r.Header.Del("Aep-Version") }}, "publish", Fail, "426", "AEP-Version")
	f("speaks another version", front{respond: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/.well-known/aep" {
			_, _ = io.WriteString(w, `{"aep":["7.0"]}`)
		}
		return r.URL.Path == "/.well-known/aep"
	}}, "discovery", Fail, "[7.0]")
	f("asks two relays", front{response: onStream(func(r *http.Response) {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(": open another\n\n"), r.Body), r.Body}
	})}, "stream", Warn, "more than one relay")
}

// zipped compresses without ever flushing, as a proxy does.
func zipped(in io.ReadCloser) io.ReadCloser {
	out, w := io.Pipe()
	go func() {
		z := gzip.NewWriter(w)
		_, err := io.Copy(z, in)
		_ = w.CloseWithError(errors.Join(err, io.EOF))
	}()
	return struct {
		io.Reader
		io.Closer
	}{out, closers{in, out}}
}

type closers []io.Closer

func (c closers) Close() error {
	for _, one := range c {
		_ = one.Close()
	}
	return nil
}

// Things that answer, and are no relay.
func TestNoRelay(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for _, c := range []struct {
		name    string
		handler http.Handler
		text    string
	}{
		{"503", status(503, "busy"), "does not reach the relay"},
		{"502", status(502, "<html>\x1b]0;evil\x07"), "does not reach the relay"},
		{"404", status(404, ""), "check the URL"},
		{"redirect", status(301, ""), "give the address that it redirects to"},
		{"a page", status(200, "<html>welcome"), "something else listens there"},
		{"hangs", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over.Done() }), "no answer in time"},
		{"endless", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for over.Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}), "something else listens there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			t.Cleanup(func() { _ = server.Listener.Close(); server.CloseClientConnections() })
			var o Options
			if c.name == "hangs" {
				o.Timeout = shortTimeout
			}
			found := examine(t, server.URL, "", o)
			want(t, found, "health", Fail, c.text)
			for _, check := range []string{"token", "stream", "websocket", "heartbeat"} {
				want(t, found, check, Skip)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	closed := "127.0.0.1:" + testrelay.FixedPort(t)
	want(t, examine(t, closed, "", Options{}), "address", Fail, "sluice serve")
	want(t, examine(t, "unix:"+filepath.Join(t.TempDir(), "none"), "", Options{}), "address", Fail, "no such socket")
	want(t, examine(t, "http://name.invalid:1", "", Options{Timeout: shortTimeout}), "address", Fail, "DNS")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	relay := startRelay(t, "AEP_TOKEN="+testToken)
	back := front{}.start(t, relay)
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := http.NewRequestWithContext(r.Context(), r.Method, back+r.URL.Path, nil)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return
		}
		defer func() { _ = response.Body.Close() }()
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	})
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	f := func(name, address string, config *tls.Config, v Verdict, text string) {
		t.Helper()
		c, err := client.New(address, testToken)
		if err != nil {
			t.Fatal(err)
		}
		c.HTTP.Transport.(*http.Transport).TLSClientConfig = config
		got := newDoctor(t, c).checkTLS(t.Context())
		if got.verdict != v || !strings.Contains(got.seen+got.advice, text) {
			t.Errorf("%s: %+v, want %s and %q", name, got, v, text)
		}
	}
	trusting := func(now time.Time) *tls.Config {
		config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.Time = func() time.Time { return now }
		return config
	}
	f("good", server.URL, trusting(time.Now()), OK, "certificate valid until")
	f("unknown authority", server.URL, nil, Fail, "SSL_CERT_FILE")
	f("expired", server.URL, trusting(time.Now().AddDate(200, 0, 0)), Fail, "renew the certificate")
	named := trusting(time.Now())
	named.ServerName = "other.test"
	f("another name", server.URL, named, Fail, "for another name")
	f("no TLS there", strings.Replace(back, "http:", "https:", 1), nil, Fail, "use http://")
	f("plain and local", back, nil, OK, "on this machine")
}

func TestSkew(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		from, to, sent, got time.Duration // from now
		v                   Verdict
	}{
		{0, time.Second, 0, 0, OK},
		{-time.Second, 0, 0, 100 * time.Millisecond, OK},
		{-2900 * time.Millisecond, -1900 * time.Millisecond, 0, 0, OK},
		{-4 * time.Second, -3 * time.Second, 0, 0, Warn},
		{3 * time.Second, 4 * time.Second, 0, 0, Warn},
		{3 * time.Second, 4 * time.Second, 0, 5 * time.Second, OK}, // nothing can be said
	} {
		if got := skew(now.Add(c.from), now.Add(c.to), now.Add(c.sent), now.Add(c.got), "x"); got.verdict != c.v {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// DR1: whenever it is interrupted, it ends.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	c, err := client.New(startRelay(t), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	var cancelled time.Time
	_, err = Run(ctx, Options{Relay: c, Timeout: patience, heartbeat: time.Hour, Each: func(f Finding) {
		seen++
		if f.Check == "admin" { // the heartbeat is next
			time.AfterFunc(50*time.Millisecond, func() { cancelled = time.Now(); cancel() })
		}
	}})
	if !errors.Is(err, context.Canceled) || seen != 13 {
		t.Errorf("%d findings, %v", seen, err)
	}
	if took := time.Since(cancelled); took > patience {
		t.Errorf("it took %v", took)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	c, err := client.New(startRelay(t), "")
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	o := Options{Relay: c, Timeout: patience, slow: patience, Quick: true}
	o.Each = func(f Finding) { lines.WriteString(f.Line(true)) }
	report, err := Run(t.Context(), o)
	if err != nil || report.Summary() != "all is well" {
		t.Errorf("%v, %q", err, report.Summary())
	}
	if n := strings.Count(lines.String(), "\x1b[32mok  \x1b[0m  "); n < 11 {
		t.Errorf("%d of:\n%s", n, &lines)
	}
	text, err := json.Marshal(report)
	var back Report
	if err != nil || json.Unmarshal(text, &back) != nil || len(back.Findings) != 14 || back.Findings[0].Check != "address" {
		t.Errorf("%s, %v", text, err)
	}
	for _, c := range []struct {
		report Report
		want   string
	}{
		{Report{Warnings: 2}, "nothing failed, 2 warnings"},
		{Report{Findings: make([]Finding, 14), Failures: 1, Warnings: 2}, "1 of 14 checks failed, 2 warnings"},
	} {
		if got := c.report.Summary(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
