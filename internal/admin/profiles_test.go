package admin

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every profile is served but the command line, which may hold secrets.
func TestProfiles(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	check := func(target string, status int, want string) {
		t.Helper()
		got := f.get(target)
		if got.status != status || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %.200q, want %d and %q", target, got.status, got.body, status, want)
		}
	}
	for _, name := range []string{"allocs", "goroutine", "heap", "threadcreate"} {
		check(profilePrefix+name+"?debug=1", 200, "")
		if got := f.get(profilePrefix + name); !isProfile([]byte(got.body)) {
			t.Errorf("%s is no profile: %.40q", name, got.body)
		}
	}
	check(profilePrefix+"goroutine?debug=2", 200, "goroutine ")
	check(profilePrefix+"heap?gc=1&debug=1", 200, "heap profile")
	check(profilePrefix+"symbol", 200, "num_symbols")

	check(profilePrefix+"cmdline", 404, textNotFound)
	check(profilePrefix+"cmdline/", 404, textNotFound)
	check(profilePrefix+"Cmdline", 404, textNotFound)
	check(profilePrefix+"nothing", 404, textNotFound)

	for _, seconds := range []string{"301", "1e9", "-1", "NaN", "Inf", "x", "0x"} {
		for _, name := range []string{"profile", "trace", "heap"} {
			check(profilePrefix+name+"?seconds="+seconds, 400, textSeconds)
		}
	}
	if got := f.get(profilePrefix+"heap", "Sec-Fetch-Site", "cross-site"); got.status != 403 {
		t.Errorf("asked for by another site: %d", got.status)
	}
	if got := f.get(profilePrefix+"heap", "Sec-Fetch-Site", "same-origin"); got.status != 200 {
		t.Errorf("asked for by a link: %d", got.status)
	}
}

// Locks and waits are sampled only while somebody asks.
func TestSampledProfiles(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	for _, name := range []string{"block", "mutex"} {
		for _, query := range []string{"", "?debug=1", "?seconds=0"} {
			if got := f.get(profilePrefix + name + query); got.status != 400 || got.body != textSampled {
				t.Errorf("%s%s: %d %q", name, query, got.status, got.body)
			}
		}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // contends for a lock as long as it is looked for
		defer close(done)
		var mu sync.Mutex
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			waiter := make(chan struct{})
			go func() {
				mu.Lock()
				defer mu.Unlock()
				close(waiter)
			}()
			time.Sleep(time.Millisecond)
			mu.Unlock()
			<-waiter
		}
	}()
	for _, name := range []string{"block", "mutex"} {
		seen := false
		for range 30 { // one contended lock of ten is seen, and a machine may be slow
			got := f.get(profilePrefix + name + "?seconds=1")
			text, ok := unzip([]byte(got.body))
			if got.status != 200 || !ok {
				t.Fatalf("%s: %d %.80q", name, got.status, got.body)
			}
			if seen = bytes.Contains(text, []byte("TestSampledProfiles")); seen {
				break
			}
		}
		if !seen {
			t.Errorf("%s does not name who waited", name)
		}
	}
	close(stop)
	<-done
	if got := runtime.SetMutexProfileFraction(-1); got != 0 {
		t.Errorf("locks are still sampled: 1 of %d", got)
	}
}

func TestSymbolBodyIsBounded(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	post := func(body string) answer {
		t.Helper()
		resp, err := f.client.Post("http://"+f.server.Addr()+profilePrefix+"symbol", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{resp.StatusCode, resp.Header, string(b)}
	}
	if got := post("0x1+0x2"); got.status != 200 || !strings.HasPrefix(got.body, "num_symbols: 1\n") {
		t.Errorf("%d %q", got.status, got.body)
	}
	if got := post(strings.Repeat("0x1+", maxSymbolBytes/4+1)); !strings.Contains(got.body, "too large") {
		t.Errorf("a body over the bound was read: %d %q", got.status, got.body)
	}
}

// A profile takes longer than a request may take to be read or answered.
func TestProfileOutlivesTimeouts(t *testing.T) {
	limits := defaultTiming
	limits.read, limits.write = 5*time.Second, 5*time.Second // what a slow machine has to write one
	f := serveSource(t, &fakeSource{}, limits)
	answers := map[string]<-chan answer{}
	for _, target := range []string{"profile?seconds=6", "heap?seconds=6"} {
		answers[target] = f.begin(profilePrefix + target)
	}
	for target, c := range answers {
		if got := <-c; got.status != 200 || !isProfile([]byte(got.body)) {
			t.Errorf("%s: %d %.80q", target, got.status, got.body)
		}
	}
	if got := f.get(profilePrefix + "trace?seconds=0.5"); got.status != 200 || !strings.HasPrefix(got.body, "go 1.") {
		t.Errorf("trace: %d %.80q", got.status, got.body)
	}
}

// A profile of minutes does not hold up Close.
func TestCloseEndsProfile(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	got := f.begin(profilePrefix + "trace?seconds=300")
	eventually(t, "the trace runs", trace.IsEnabled)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.server.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	<-got
}

// isProfile reports whether a body is a gzip stream with something in it, which
// is how profiles are written.
func isProfile(body []byte) bool {
	_, ok := unzip(body)
	return ok
}

// unzip returns what a profile holds: protobuf, with its names as plain text.
func unzip(body []byte) (text []byte, ok bool) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false
	}
	text, err = io.ReadAll(z)
	return text, err == nil && len(text) > 0
}

// The package's own handlers are on http.DefaultServeMux, with cmdline: this
// server must not fall back to it.
func TestDefaultMuxIsNotServed(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	if f.server.http.Handler == http.Handler(http.DefaultServeMux) || f.server.http.Handler == nil {
		t.Error("the default mux is served")
	}
}
