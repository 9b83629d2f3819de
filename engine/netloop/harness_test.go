package netloop

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
)

// patience bounds every wait of the tests; nothing waits for it when all is
// well.
const patience = time.Minute

// childEnv names the program that a re-executed test binary runs instead of
// the tests.
const childEnv = "NETLOOP_TEST_CHILD"

// children are the programs for TestMain, by name.
var children = map[string]func(){}

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		children[name]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts the named program in a process of its own.
func child(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	return cmd
}

var quiet = slog.New(slog.DiscardHandler)

// eventually waits until cond holds. It is for what other parties do (the
// kernel, the reactor's worker pool) and nobody reports.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// recv takes one value from ch.
func recv[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

// checkLeaks fails the test when it ends with more goroutines or descriptors
// than it began with. It must be called before anything is started.
func checkLeaks(t *testing.T) {
	t.Helper()
	// The runtime keeps descriptors for its own poller once there are sockets.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	goroutines, fds := len(stacks()), openDescriptors()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		eventually(t, "goroutines back to where they were", func() bool {
			if n := stacks(); len(n) > goroutines {
				return false
			}
			return true
		})
		eventually(t, "descriptors back to where they were", func() bool {
			return openDescriptors() <= fds
		})
	})
}

// stacks returns the goroutines that are neither the test framework's nor those
// of the reactor library's process-wide worker pool, whose idle workers stay
// for 10 s.
func stacks() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var own []string
	for _, s := range strings.Split(string(buf), "\n\n") {
		if !strings.Contains(s, "panjf2000/ants") && !strings.Contains(s, "testing.tRunner.func") {
			own = append(own, s)
		}
	}
	return own
}

// peer is a scriptable handler.
type peer struct {
	loop.Transport
	l        *loop.Loop
	data     func(p *peer, b []byte)
	writable func(p *peer)
	onClose  func(p *peer, err error)
	closes   atomic.Int32
	closed   chan error
}

func newPeer(l *loop.Loop, t loop.Transport) *peer {
	return &peer{Transport: t, l: l, closed: make(chan error, 4)}
}

func (p *peer) OnData(b []byte) {
	if p.data != nil {
		p.data(p, b)
	}
}

func (p *peer) OnWritable() {
	if p.writable != nil {
		p.writable(p)
	}
}

func (p *peer) OnClose(err error) {
	p.closes.Add(1)
	p.closed <- err
	if p.onClose != nil {
		p.onClose(p, err)
	}
}

// sender writes what it was given, however little the kernel takes at a time.
type sender struct {
	rest []byte
}

func (s *sender) run(p *peer) {
	for len(s.rest) > 0 {
		n, err := p.Write(s.rest)
		if err != nil {
			return
		}
		s.rest = s.rest[n:]
		if n == 0 || len(s.rest) > 0 {
			p.WantWritable()
			return
		}
	}
}

// echo answers with what it receives.
func echo(l *loop.Loop, t loop.Transport) loop.Handler {
	p := newPeer(l, t)
	out := &sender{}
	p.data = func(p *peer, b []byte) {
		out.rest = append(out.rest, b...)
		out.run(p)
	}
	p.writable = out.run
	return p
}

// with makes an accept function of a script and tells of each peer.
func with(peers chan<- *peer, script func(*peer)) loop.AcceptFunc {
	return func(l *loop.Loop, t loop.Transport) loop.Handler {
		p := newPeer(l, t)
		if script != nil {
			script(p)
		}
		if peers != nil {
			peers <- p
		}
		return p
	}
}

// running is a served server.
type running struct {
	*Server
	served chan error
}

// serve starts a server, by default on 127.0.0.1 with one loop, and stops it at
// the end of the test.
func serve(t *testing.T, cfg Config, accept loop.AcceptFunc, prepare ...func(*Server)) *running {
	t.Helper()
	checkLeaks(t)
	s := serveRaw(t, cfg, accept, prepare...)
	t.Cleanup(func() {
		s.stop(t)
		if err := recv(t, "Serve returns", s.served); err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
		if n := s.Conns(); n != 0 {
			t.Errorf("%d connections left after Stop", n)
		}
	})
	return s
}

func serveRaw(t *testing.T, cfg Config, accept loop.AcceptFunc, prepare ...func(*Server)) *running {
	t.Helper()
	if cfg.Addrs == nil {
		cfg.Addrs = []string{"127.0.0.1:0"}
	}
	if cfg.Loops == 0 {
		cfg.Loops = 1
	}
	cfg.Log = quiet
	s, err := New(cfg, loop.SystemClock{}, accept)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(s)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	r := &running{s, make(chan error, 1)}
	go func() { r.served <- s.Serve() }()
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		t.Fatalf("Stop = %v", err)
	}
}

// dial connects to the server's first address, or to addr.
func (r *running) dial(t *testing.T) net.Conn {
	t.Helper()
	return dialTo(t, r.Addrs()[0])
}

func dialTo(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// expect reads exactly want.
func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got[:n], err, want)
	}
}

// expectEnd reads to an orderly end.
func expectEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Fatalf("read %q, %v, want the end", b, err)
	}
}

// onLoop runs f on l and waits for it.
func onLoop(t *testing.T, l *loop.Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	if err := l.Post(func() { defer close(done); f() }); err != nil {
		t.Fatal(err)
	}
	recv(t, "posted function ran", done)
}

// idles tells that busy, which measures the CPU time spent in a span, comes to
// less than a part of it. It is measured again while it does not: what spins
// does so in each span, and what else there is to do, such as collecting the
// garbage of earlier tests, comes to an end.
func idles(span time.Duration, part float64, busy func(time.Duration) time.Duration) (used time.Duration, ok bool) {
	for range 10 {
		if used = busy(span); used.Seconds() <= part*span.Seconds() {
			return used, true
		}
	}
	return used, false
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (want == nil) != (got == nil) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}
