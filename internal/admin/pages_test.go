package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

func TestPages(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	check := func(method, target string, status int, want string) {
		t.Helper()
		got := f.do(method, target)
		if got.status != status || !strings.Contains(got.body, want) {
			t.Errorf("%s %s: %d %q, want %d and %q", method, target, got.status, got.body, status, want)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
			if got.header.Get(name) != want {
				t.Errorf("%s %s: %s is %q", method, target, name, got.header.Get(name))
			}
		}
		for name := range got.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s: has %s", method, target, name)
			}
		}
	}
	for _, path := range []string{"/metrics", "/readyz", "/livez", "/consumers", "/debug/pprof"} {
		check("GET", "/", 200, path)
	}
	check("GET", "/", 200, "sluice v1.2.3")
	check("GET", "/readyz", 200, "ready\n")
	check("GET", "/livez", 200, "live\n")
	check("HEAD", "/readyz", 200, "")
	check("GET", "/debug/pprof/", 200, "/debug/pprof/heap")
	check("GET", "/debug/pprof", 200, "/debug/pprof/heap")

	check("GET", "/nothing", 404, textNotFound)
	check("GET", "//metrics", 404, textNotFound)
	check("GET", "/metrics/", 404, textNotFound)
	check("GET", "/debug/../metrics", 404, textNotFound)
	check("POST", "/metrics", 405, textMethod)
	check("DELETE", "/readyz", 405, textMethod)
	check("OPTIONS", "/metrics", 405, textMethod)
	check("POST", "/nothing", 404, textNotFound)
	if got := f.do("POST", "/metrics").header.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow %q", got)
	}
	if got := f.raw("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 404 ") {
		t.Errorf("OPTIONS *: %q", got)
	}
}

// Each page that the index names exists, and each that exists is named by an
// index.
func TestIndexNamesAllPages(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	listed := f.get("/").body
	for path := range f.server.pages {
		if path != "/" && path != profilePrefix && !strings.Contains(listed, path+" ") {
			t.Errorf("the index does not name %s", path)
		}
	}
	if !strings.Contains(listed, "/metrics ") || strings.Contains(listed, "cmdline") {
		t.Errorf("index:\n%s", listed)
	}
}

func TestReadyzTellsTheReason(t *testing.T) {
	f := serveSource(t, &fakeSource{ready: func() error { return errors.New("loop 1 has not turned for 3s") }}, timing{})
	if got := f.get("/readyz"); got.status != 503 || got.body != "loop 1 has not turned for 3s\n" {
		t.Errorf("%d %q", got.status, got.body)
	}
	if got := f.get("/livez"); got.status != 200 {
		t.Errorf("livez: %d: a relay that is not ready still lives", got.status)
	}
}

// R38: bound to loopback, only loopback names are answered, and no page of
// another origin.
func TestHostCheck(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	_, port, err := net.SplitHostPort(f.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	check := func(name string, status int, want string, headers ...string) {
		t.Helper()
		for _, target := range []string{"/metrics", "/readyz", "/consumers", "/debug/pprof/heap", "/", "/nothing"} {
			got := f.get(target, headers...)
			if status == 403 {
				refused++
			}
			if (got.status == 403) != (status == 403) || !strings.Contains(got.body, want) {
				t.Errorf("%s: %s with %q: %d %q, want %d and %q", name, target, headers, got.status, got.body, status, want)
			}
		}
	}
	check("own address", 200, "")
	check("name", 200, "", "Host", "localhost:"+port)
	check("name without port", 200, "", "Host", "localhost")
	check("below localhost", 200, "", "Host", "sluice.localhost:"+port)
	check("other loopback address", 200, "", "Host", "127.9.9.9")
	check("IPv6", 200, "", "Host", "[::1]:"+port)
	check("loopback page", 200, "", "Origin", "http://localhost:3000")

	check("rebound name", 403, textHost, "Host", "evil.example:"+port)
	check("name that begins with an address", 403, textHost, "Host", "127.0.0.1.evil.example")
	check("name that ends in localhost", 403, textHost, "Host", "evillocalhost")
	check("private address", 403, textHost, "Host", "192.168.0.1")
	check("unspecified address", 403, textHost, "Host", "0.0.0.0:"+port)
	check("rebound page", 403, textHost, "Host", "evil.example", "Origin", "http://evil.example")
	check("foreign page", 403, textOrigin, "Origin", "https://evil.example")
	check("opaque page", 403, textOrigin, "Origin", "null")
	check("two origins", 403, textOrigin, "Origin", "http://localhost", "Origin", "https://evil.example")

	raw := func(name, request, want string) {
		t.Helper()
		if got := f.raw(request); !strings.HasPrefix(got, "HTTP/1."+want) {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	raw("HTTP/1.0 without Host", "GET /livez HTTP/1.0\r\n\r\n", "0 200 ")
	raw("HTTP/1.1 without Host", "GET /livez HTTP/1.1\r\n\r\n", "1 400 ")
	raw("empty Host", "GET /livez HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", "1 403 ")
	raw("two Hosts", "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "1 400 ")
	raw("absolute form", "GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "1 403 ")
	refused += 2 // the empty one and the absolute one

	if got := int(counterValue(t, f, "sluice_admin_refusals_total")); got != refused {
		t.Errorf("%d refusals counted, want %d", got, refused)
	}
}

// R38: off loopback the operator chose the names; foreign pages stay out, and
// the log has a warning.
func TestHostCheckOffLoopback(t *testing.T) {
	log := &relaytest.LogBuffer{}
	ln := fakeListener{addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8788}}
	s, err := newServer(Config{Source: &fakeSource{}, Log: textLog(log)}, defaultTiming, ln)
	if err != nil {
		t.Fatal(err)
	}
	defer s.cancel()
	check := func(host, origin string, want string) {
		t.Helper()
		r, err := http.NewRequest("GET", "http://"+host+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if got := s.refusal(r); got != want {
			t.Errorf("Host %q, Origin %q: %q, want %q", host, origin, got, want)
		}
	}
	check("relay.example:8788", "", "")
	check("relay.example:8788", "http://relay.example:8788", "")
	check("relay.example:8788", "https://evil.example", textOrigin)
	if !strings.Contains(log.String(), "asks for no token") {
		t.Errorf("no warning in the log: %q", log)
	}
}

// R15: nothing that a client sends in a query or a header comes back, and none
// of it is logged.
func TestNothingIsEchoed(t *testing.T) {
	const secret = "s3cr3t"
	source := &fakeSource{}
	f := serveSource(t, source, timing{})
	// The source breaks after the first page, so that errors are seen as well.
	source.take = func(context.Context) (*Snapshot, error) {
		if source.calls.Load() > 2 {
			panic("the source is broken")
		}
		return fullSnapshot(), nil
	}
	for _, target := range []string{
		"/", "/metrics", "/readyz", "/livez", "/consumers", "/consumers?format=" + secret, "//metrics", "/" + secret,
		"/debug/pprof", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/" + secret, "/debug/pprof/symbol",
		"/debug/pprof/profile?seconds=" + secret, "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap;" + secret,
	} {
		sep := "?"
		if strings.Contains(target, "?") {
			sep = "&"
		}
		got := f.get(target+sep+"access_token="+secret, "Authorization", "Bearer "+secret, "X-Other", secret)
		if strings.Contains(got.body, secret) {
			t.Errorf("%s: the body has it:\n%s", target, got.body)
		}
		for name, values := range got.header {
			if strings.Contains(strings.Join(values, " "), secret) {
				t.Errorf("%s: %s has it: %q", target, name, values)
			}
		}
	}
	// net/http contains the panic and logs it.
	if got := f.raw("GET /metrics?access_token=" + secret + " HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != "" {
		t.Errorf("answer of a page that panicked: %q", got)
	}
	if text := f.log.String(); strings.Contains(text, secret) || !strings.Contains(text, "the source is broken") {
		t.Errorf("log:\n%s", text)
	}
	if got := f.get("/livez"); got.status != 200 {
		t.Errorf("livez after a panic: %d", got.status)
	}
}

// AD2: a loop that is stuck costs a scrape its time, and no more.
func TestSnapshotTimeout(t *testing.T) {
	limits := defaultTiming
	limits.snapshot = 20 * time.Millisecond
	f := serveSource(t, &fakeSource{take: blocked}, limits)
	for _, target := range []string{"/metrics", "/consumers"} {
		got := f.get(target)
		if got.status != 503 || !strings.Contains(got.body, context.DeadlineExceeded.Error()) {
			t.Errorf("%s: %d %q", target, got.status, got.body)
		}
	}
	if got := f.get("/livez"); got.status != 200 {
		t.Errorf("livez: %d", got.status)
	}
}

// A snapshot ends with the client that asked for it.
func TestSnapshotEndsWithClient(t *testing.T) {
	limits := defaultTiming
	limits.snapshot = time.Hour
	ended := make(chan error, 1)
	source := &fakeSource{take: func(ctx context.Context) (*Snapshot, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}
	f := serveSource(t, source, limits)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+f.server.Addr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := f.client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	eventually(t, "the source is asked", func() bool { return source.calls.Load() == 1 })
	cancel()
	if err := <-gone; err == nil {
		t.Error("the request was answered")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the snapshot ended with %v", err)
	}
}

// At most snapshotCount snapshots are under way; more requests wait.
func TestSnapshotsAtOnce(t *testing.T) {
	var now, most atomic.Int64
	release := make(chan struct{})
	source := &fakeSource{take: func(context.Context) (*Snapshot, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
		return fullSnapshot(), nil
	}}
	limits := defaultTiming
	limits.snapshot = time.Hour
	f := serveSource(t, source, limits)
	const requests = 3 * snapshotCount
	var answers []<-chan answer
	for range requests {
		answers = append(answers, f.begin("/consumers"))
	}
	eventually(t, "all are connected and the first asked", func() bool {
		return f.server.gate.open.Load() == requests && now.Load() == snapshotCount
	})
	close(release)
	for _, c := range answers {
		if got := <-c; got.status != 200 {
			t.Errorf("%d %q", got.status, got.body)
		}
	}
	if most.Load() != snapshotCount || source.calls.Load() != requests {
		t.Errorf("%d snapshots at once, %d in all", most.Load(), source.calls.Load())
	}
}

// A request that waits for its turn gives up in time, too.
func TestSnapshotTimeoutWhileWaiting(t *testing.T) {
	limits := defaultTiming
	limits.snapshot = 20 * time.Millisecond
	source := &fakeSource{}
	f := serveSource(t, source, limits)
	for range snapshotCount {
		f.server.snapshots <- struct{}{}
	}
	if got := f.get("/metrics"); got.status != 503 || source.calls.Load() != 0 {
		t.Errorf("%d %q, %d snapshots", got.status, got.body, source.calls.Load())
	}
}
