package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// fakeListener has an address and nothing else.
type fakeListener struct{ addr net.Addr }

func (fakeListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (fakeListener) Close() error              { return nil }
func (l fakeListener) Addr() net.Addr          { return l.addr }

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// counterValue returns the value of a metric without labels.
func counterValue(t *testing.T, f *fixture, name string) float64 {
	t.Helper()
	for line := range strings.Lines(f.get("/metrics").body) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestStartOff(t *testing.T) {
	for _, addr := range []string{"", Off} {
		s, err := Start(Config{Addr: addr})
		if s != nil || err != nil {
			t.Fatalf("Start(%q) = %v, %v", addr, s, err)
		}
		if s.Addr() != "" || s.Close(context.Background()) != nil {
			t.Errorf("%q: a server that is off has an address or cannot be closed", addr)
		}
	}
}

func TestStartErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	f := func(name string, cfg Config, want error) {
		t.Helper()
		s, err := Start(cfg)
		if s != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v, want %v", name, s, err, want)
		}
	}
	f("taken port", Config{Addr: taken.Addr().String(), Source: &fakeSource{}}, syscall.EADDRINUSE)
	f("no port", Config{Addr: "127.0.0.1", Source: &fakeSource{}}, ErrConfig)
	f("too many colons", Config{Addr: "::1:8788", Source: &fakeSource{}}, ErrConfig)
	f("no source", Config{Addr: "127.0.0.1:0"}, ErrConfig)

	s, err := Start(Config{Addr: "127.0.0.1:99999", Source: &fakeSource{}})
	if s != nil || err == nil {
		t.Errorf("port out of range: %v, %v", s, err)
	}
}

func TestAddrIsTheBoundOne(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	host, port, err := net.SplitHostPort(f.server.Addr())
	if err != nil || host != "127.0.0.1" || port == "0" {
		t.Errorf("Addr %q, %v", f.server.Addr(), err)
	}
}

// ask sends a request for a page on an open connection and reads the answer.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
}

// AD1: the connection after the last that fits waits until one is over.
func TestConnectionCap(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	var conns []net.Conn
	for range maxConns {
		c := f.dial()
		ask(t, c)
		conns = append(conns, c)
	}
	late := f.dial()
	if _, err := io.WriteString(late, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := http.ReadResponse(bufio.NewReader(late), nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("connection %d was answered: %v", maxConns+1, err)
	case <-time.After(100 * time.Millisecond):
	}
	if n := f.server.gate.open.Load(); n != maxConns {
		t.Errorf("%d connections are open, want %d", n, maxConns)
	}
	_ = conns[0].Close()
	if err := <-answered; err != nil {
		t.Fatalf("after one was over: %v", err)
	}
}

// AD2: who sends nothing, half a head, or nothing more, is cut.
func TestSlowClientsAreCut(t *testing.T) {
	const short = 50 * time.Millisecond
	f := serveSource(t, &fakeSource{}, timing{header: short, read: short, write: short, idle: short, snapshot: short})
	check := func(name, sent string) {
		t.Helper()
		c := f.dial()
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: still open after %v: %v", name, patience, err)
		}
	}
	check("nothing", "")
	check("half a head", "GET /livez HTTP/1.1\r\nHost: loc")
	check("idle after a request", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	check("half a body", "POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n0x1")
	eventually(t, "all are over", func() bool { return f.server.gate.open.Load() == 0 })
}

func TestLargeHeadIsRefused(t *testing.T) {
	f := serveSource(t, &fakeSource{}, timing{})
	got := f.raw("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Large: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("%.80q", got)
	}
}

// AD4, also with a full house and connections that wait in the kernel.
func TestCloseLeavesNothing(t *testing.T) {
	for _, conns := range []int{0, 1, maxConns, maxConns + 8} {
		s, err := Start(Config{Addr: "127.0.0.1:0", Source: &fakeSource{}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range conns {
			c, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if i < maxConns && i%2 == 0 {
				_ = c.SetDeadline(time.Now().Add(patience))
				ask(t, c)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range 2 {
			if err := s.Close(ctx); err != nil || ctx.Err() != nil {
				t.Errorf("%d connections: Close: %v, %v", conns, err, ctx.Err())
			}
		}
		if n := s.gate.open.Load(); n != 0 {
			t.Errorf("%d connections: %d open after Close", conns, n)
		}
		if c, err := net.Dial("tcp", s.Addr()); err == nil {
			_ = c.Close()
			t.Errorf("%d connections: still listening after Close", conns)
		}
	}
	if left := leaked(); left != "" {
		t.Errorf("goroutines left:\n%s", left)
	}
}

// Close lets a request finish that can.
func TestCloseLetsRequestsFinish(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	f := serveSource(t, &fakeSource{take: func(context.Context) (*Snapshot, error) {
		close(asked)
		<-release
		return fullSnapshot(), nil
	}}, timing{})
	got := f.begin("/consumers")
	<-asked
	closed := make(chan error, 1)
	go func() { closed <- f.server.Close(context.Background()) }()
	eventually(t, "the listener is closed", func() bool {
		c, err := net.Dial("tcp", f.server.Addr())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(release)
	if a := <-got; a.status != 200 {
		t.Errorf("%d %q", a.status, a.body)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Close ends a snapshot under way, also when the request has a body that never
// comes, behind which the server does not notice that the connection is gone.
func TestCloseEndsSnapshot(t *testing.T) {
	limits := defaultTiming
	limits.snapshot = time.Hour
	for _, header := range []string{"", "Content-Length: 9\r\n"} {
		source := &fakeSource{take: blocked}
		f := serveSource(t, source, limits)
		if _, err := io.WriteString(f.dial(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the source is asked", func() bool { return source.calls.Load() == 1 })
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.server.Close(ctx); err != nil {
			t.Errorf("with header %q: Close: %v", header, err)
		}
	}
}

// Close waits for a source that does not listen no longer than its context.
func TestCloseCutsRequests(t *testing.T) {
	asked := make(chan struct{})
	release := make(chan struct{})
	f := serveSource(t, &fakeSource{take: func(context.Context) (*Snapshot, error) {
		close(asked)
		<-release
		return nil, errors.New("too late")
	}}, timing{})
	got := f.begin("/metrics")
	<-asked
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := f.server.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if a := <-got; a.status != 0 { // the client is not kept waiting
		t.Errorf("the request was answered: %d %q", a.status, a.body)
	}
	close(release)
	if err := f.server.Close(context.Background()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// A listener that fails for good is logged, and Close still works.
func TestListenerFails(t *testing.T) {
	log := &relaytest.LogBuffer{}
	ln := fakeListener{addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}
	s, err := newServer(Config{Source: &fakeSource{}, Log: textLog(log)}, defaultTiming, ln)
	if err != nil {
		t.Fatal(err)
	}
	go s.serve()
	<-s.drained
	if !strings.Contains(log.String(), "admin listener ended") {
		t.Errorf("log: %q", log)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
