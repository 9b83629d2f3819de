package doctor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

const testToken = "t0ken-SECRET123"

const (
	// patience bounds what has to come. It is used up only when a test fails.
	patience = time.Minute
	// shortTimeout is that of an examination in which some checks are to run into
	// it, and the others must not, on a slow machine either.
	shortTimeout = 5 * time.Second
)

// startRelay runs a relay until the test ends and returns its URL.
func startRelay(t *testing.T, settings ...string) string {
	t.Helper()
	r := testrelay.Start(t, settings...)
	t.Cleanup(func() { testrelay.Stop(t, r) })
	addr := r.Addr()
	if strings.HasPrefix(addr, "unix:") {
		return addr
	}
	return "http://" + addr
}

// examine runs all checks on a relay, with the token, and returns the findings
// by check. No finding may hold the token. A slow machine is no finding.
func examine(t *testing.T, address, token string, o Options) map[string]Finding {
	t.Helper()
	c, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	return examineClient(t, c, o)
}

func examineClient(t *testing.T, c *client.Relay, o Options) map[string]Finding {
	t.Helper()
	o.Relay = c
	if o.heartbeat == 0 {
		o.Quick = true
	}
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	if o.slow == 0 {
		o.slow = patience
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Finding{}
	for _, f := range report.Findings {
		found[f.Check] = f
		if line := f.Line(false); strings.Contains(line, "SECRET") || strings.Contains(line, "\x1b") {
			t.Errorf("R15: %q", line)
		}
	}
	if len(found) != 14 {
		t.Errorf("%d checks", len(found))
	}
	return found
}

// want holds a finding to its verdict and to texts that it must have.
func want(t *testing.T, found map[string]Finding, check string, v Verdict, texts ...string) {
	t.Helper()
	f := found[check]
	if f.Verdict != v {
		t.Errorf("%s: %s, want %s: %s", check, f.Verdict, v, f.Line(false))
	}
	for _, text := range texts {
		if !strings.Contains(f.Seen+" "+f.Advice, text) {
			t.Errorf("%s: want %q in %s", check, text, f.Line(false))
		}
	}
}

// onlyThese fails if another check than those warns or fails.
func onlyThese(t *testing.T, found map[string]Finding, checks ...string) {
	t.Helper()
	for name, f := range found {
		if (f.Verdict == Warn || f.Verdict == Fail) && !strings.Contains(strings.Join(checks, " "), name) {
			t.Errorf("%s", f.Line(false))
		}
	}
}

// front is a proxy in front of a relay. Request and response may be changed;
// respond may answer by itself and return true.
type front struct {
	request  func(*http.Request)
	response func(*http.Response)
	respond  func(http.ResponseWriter, *http.Request) bool
}

func (f front) start(t *testing.T, address string) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(to)
	p.FlushInterval = -1
	p.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	p.ModifyResponse = func(r *http.Response) error {
		if f.response != nil {
			f.response(r)
		}
		return nil
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.respond != nil && f.respond(w, r) {
			return
		}
		if f.request != nil {
			f.request(r)
		}
		defer func() {
			// The proxy ends so when the relay's side breaks off.
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
		}()
		p.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// isStream tells whether an answer is one.
func isStream(r *http.Response) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream")
}

// holding passes a body on only in pieces of a size.
type holding struct {
	io.ReadCloser
	size int
	held []byte
}

func (h *holding) Read(p []byte) (int, error) {
	for len(h.held) < h.size {
		buf := make([]byte, 4096)
		n, err := h.ReadCloser.Read(buf)
		h.held = append(h.held, buf[:n]...)
		if err != nil {
			if len(h.held) > 0 && errors.Is(err, io.EOF) {
				break
			}
			return 0, err
		}
	}
	n := copy(p, h.held)
	h.held = h.held[n:]
	return n, nil
}
