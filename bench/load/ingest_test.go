//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// post returns a request with a body of about size bytes.
func post(size int) func(dst []byte, request int) []byte {
	return func(dst []byte, request int) []byte {
		body := fmt.Sprintf("%d %s", request, strings.Repeat("b", size))
		return fmt.Appendf(dst, "POST /events HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
}

// Every request is sent once, over the connections there are; answers are
// counted by status.
func TestIngest(t *testing.T) {
	var conns atomic.Int32
	seen := make([]atomic.Int32, 500)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		body, err := io.ReadAll(r.Body)
		if _, scanErr := fmt.Sscan(string(body[:min(len(body), 10)]), &n); err != nil || scanErr != nil {
			t.Errorf("%v, %v", err, scanErr)
		}
		seen[n].Add(1)
		switch {
		case n%10 == 7:
			http.Error(w, "no", http.StatusBadRequest)
		case n%10 == 8:
			w.WriteHeader(http.StatusNoContent)
		case n%10 == 9:
			w.(http.Flusher).Flush() // chunked
			_, _ = io.WriteString(w, strings.Repeat("c", 5000))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	var calls []bool
	out, err := Ingest(context.Background(), IngestLoad{
		Addr: s.Listener.Addr().String(), Conns: 8, Requests: 500, Body: post(40_000), Warmup: 100,
		OnMeasure: func(begin bool) { calls = append(calls, begin) }, Timeout: testTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.Requests != 400 || out.Failed != 50 || out.Latency.Count() != 400 || out.Bytes < 400*40_000 || out.Wall <= 0 || out.ClientCPU <= 0 {
		t.Errorf("%+v", out)
	}
	for n := range seen {
		if got := seen[n].Load(); got != 1 {
			t.Errorf("request %d was sent %d times", n, got)
		}
	}
	if conns.Load() != 8 || !slices.Equal(calls, []bool{true, false}) {
		t.Errorf("%d connections, OnMeasure %v", conns.Load(), calls)
	}
}

// A server that does not keep to HTTP, or to its connections, is an error.
func TestIngestErrors(t *testing.T) {
	f := func(name, answer, want string, is error) {
		t.Helper()
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			defer func() { _ = nc.Close() }()
			_, _ = nc.Read(make([]byte, 4096))
			_, _ = io.WriteString(nc, answer)
			if is == nil && answer != "" {
				return
			}
			_, _ = io.Copy(io.Discard, nc) // until the client is gone
		}()
		timeout := testTimeout
		if errors.Is(is, ErrTimeout) {
			timeout = 2 * time.Second // in which the request has to be sent
		}
		_, err = Ingest(context.Background(), IngestLoad{
			Addr: ln.Addr().String(), Conns: 1, Requests: 2, Body: post(10), Timeout: timeout,
		})
		if err == nil || !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f("no answer", "", "1 not answered", ErrTimeout)
	f("half an answer", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "1 not answered", ErrTimeout)
	f("closed", "HTTP/1.1 200 OK\r\nContent-Le", "closed by the server", nil)
	f("says it closes", "HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "400 Bad", nil)
	f("no HTTP", "hello\r\n\r\n", "malformed", nil)
	f("no length", "HTTP/1.1 200 OK\r\n\r\nabc", "malformed or endless", nil)
	f("two answers", strings.Repeat("HTTP/1.1 204 X\r\n\r\n", 2), "before its request", nil)
	f("too long", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 90_000), "more than", nil)

	for _, l := range []IngestLoad{{}, {Conns: 1, Requests: 1}, {Conns: 1, Requests: 1, Warmup: 2, Body: post(1)}} {
		if _, err := Ingest(context.Background(), l); !errors.Is(err, ErrLoad) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// RFC 9112, sections 6 and 7: the length of an answer, for every beginning of
// it.
func TestAnswerLength(t *testing.T) {
	f := func(text string, status int, ends bool) {
		t.Helper()
		for i := range text {
			if n, _, _, err := answerOf([]byte(text[:i])); n != 0 || err != nil {
				t.Errorf("%q: complete at %d: %d, %v", text, i, n, err)
			}
		}
		if n, s, e, err := answerOf([]byte(text + "HTTP")); n != len(text) || s != status || e != ends || err != nil {
			t.Errorf("%q: %d of %d, status %d, ends %v, %v", text, n, len(text), s, e, err)
		}
	}
	f("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", 202, false)
	f("HTTP/1.1 200 OK\r\nContent-Length:  3 \r\n\r\nabc", 200, false)
	f("HTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n", 204, true)
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, false)
	f("HTTP/1.1 500 Oh\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", 500, false)
	for _, bad := range []string{
		"HTTP/2 200\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabcdef",
	} {
		if n, _, _, err := answerOf([]byte(bad)); err == nil {
			t.Errorf("%q: length %d", bad, n)
		}
	}
}

// A prober counts answers and failures, each probe on a new connection.
func TestProber(t *testing.T) {
	probed, conns := make(chan struct{}, 100), atomic.Int32{}
	var status atomic.Int32
	status.Store(200)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("path %q", r.URL.Path)
		}
		w.WriteHeader(int(status.Load()))
		select {
		case probed <- struct{}{}:
		default:
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	p := StartProber(s.Listener.Addr().String(), "/healthz", time.Millisecond, testTimeout)
	for range 5 {
		<-probed
	}
	if out := p.Stop(); out.Failed != 0 || out.Err != nil || out.Latency.Count() < 5 || int64(conns.Load()) != out.Latency.Count() {
		t.Errorf("%d answers on %d connections, %d failed, %v", out.Latency.Count(), conns.Load(), out.Failed, out.Err)
	}
	status.Store(503)
	for len(probed) > 0 {
		<-probed
	}
	p = StartProber(s.Listener.Addr().String(), "/healthz", time.Millisecond, testTimeout)
	<-probed
	if out := p.Stop(); out.Failed == 0 || out.Latency.Count() != 0 || !strings.Contains(fmt.Sprint(out.Err), "503") {
		t.Errorf("%d answers, %d failed, %v", out.Latency.Count(), out.Failed, out.Err)
	}
	s.Close()
	p = StartProber(s.Listener.Addr().String(), "/healthz", time.Hour, testTimeout)
	p.Stop() // may come before the first probe
}

// The gauges of this process are plausible; those of none are an error.
func TestGauges(t *testing.T) {
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var after time.Duration
	for deadline := time.Now().Add(testTimeout); after < before+time.Millisecond && time.Now().Before(deadline); {
		if after, err = CPUTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if after < before+time.Millisecond {
		t.Errorf("CPU time %v, then %v", before, after)
	}
	if rss, err := RSSBytes(os.Getpid()); err != nil || rss < 1<<20 || rss > 1<<36 {
		t.Errorf("%d bytes, %v", rss, err)
	}
	const nobody = 1 << 22
	if _, err := CPUTime(nobody); err == nil {
		t.Error("CPU time of nobody")
	}
	if _, err := RSSBytes(nobody); err == nil {
		t.Error("memory of nobody")
	}
}
