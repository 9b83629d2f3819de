package netloop

// What is surprising about the reactor library and this package is built
// around. Each test asserts what gnet does today: one that fails after an
// upgrade says which part of the package may become simpler, or wrong.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"golang.org/x/sys/unix"
)

func init() {
	children["emfile"] = func() { emfileChild(false) }
	children["emfile-reuseport"] = func() { emfileChild(true) }
	children["panic"] = panicChild
}

// emfileChild runs a gnet server, takes all descriptors and connects.
func emfileChild(reusePort bool) {
	booted := make(chan int, 1)
	ended := make(chan error, 1)
	h := &hooks{boot: func(e gnet.Engine) { booted <- portOf(e) }}
	// A connected socket is needed once the descriptors are gone.
	client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	opened := make(chan struct{}, 1)
	h.open = func(gnet.Conn) { opened <- struct{}{} }
	go func() {
		ended <- gnet.Run(h, "tcp://127.0.0.1:0", gnet.WithReusePort(reusePort),
			gnet.WithNumEventLoop(1), gnet.WithLogger(reactorLog{quiet}))
	}()
	port := <-booted
	first, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-opened // the engine runs
	var r unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	r.Cur = 64
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &r)
	for _, err := openSpare(); err == nil; _, err = openSpare() {
	}
	_ = unix.Connect(client, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	fmt.Println("Run returned", <-ended)
	_ = first.SetReadDeadline(time.Now().Add(patience))
	_, err = first.Read(make([]byte, 1))
	fmt.Println("established connection reads", err)
}

// portOf returns the port that an engine of one listener has been given, 0 for
// none. In OnBoot: later Dup races with the end of the engine.
func portOf(e gnet.Engine) int {
	fd, err := e.Dup()
	if err != nil {
		return 0
	}
	defer closeDescriptor(fd)
	addr, _ := unix.Getsockname(fd)
	if in, ok := addr.(*unix.SockaddrInet4); ok {
		return in.Port
	}
	return 0
}

// An accept that finds no descriptor ends the whole engine and every
// connection, and Run returns nil. Hence own listeners.
func TestPitfallExhaustionEndsEngine(t *testing.T) {
	for _, name := range []string{"emfile", "emfile-reuseport"} {
		out, err := child(t, name).CombinedOutput()
		const want = "Run returned <nil>\nestablished connection reads EOF\n"
		if err != nil || string(out) != want {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

// Execute is not first-in first-out once 1,024 tasks wait. Hence a doorbell.
func TestPitfallExecuteReorders(t *testing.T) {
	r := startReactor(t, &hooks{})
	c, _ := r.pair()
	el := c.EventLoop()
	hold, held := make(chan struct{}), make(chan struct{})
	r.post(el, func() { close(held); <-hold })
	recv(t, "loop held", held)
	order := make(chan string, 2)
	r.post(el, func() { r.post(el, func() { order <- "later" }) })
	for range 1023 {
		r.post(el, func() {})
	}
	r.post(el, func() { order <- "earlier" }) // the 1,025th that waits
	close(hold)
	if first := recv(t, "task", order); first != "later" {
		t.Errorf("%s ran first: Execute is in order now", first)
	}
	recv(t, "task", order)
}

// OnShutdown comes before the connections are closed.
func TestPitfallShutdownIsEarly(t *testing.T) {
	order := make(chan string, 2)
	r := startReactor(t, &hooks{
		closed:   func(gnet.Conn, error) { order <- "OnClose" },
		shutdown: func() { order <- "OnShutdown" },
	})
	r.pair()
	r.stop()
	if first := recv(t, "callback", order); first != "OnShutdown" {
		t.Errorf("%s came first", first)
	}
	if second := recv(t, "callback", order); second != "OnClose" {
		t.Errorf("%s came second", second)
	}
}

// OnTick runs beside the loops, not on them. Hence no ticker.
func TestPitfallTickIsOffLoop(t *testing.T) {
	ticks := make(chan struct{}, 1)
	r := startReactor(t, &hooks{tick: func() {
		select {
		case ticks <- struct{}{}:
		default:
		}
	}}, gnet.WithTicker(true))
	c, _ := r.pair()
	hold, held := make(chan struct{}), make(chan struct{})
	r.post(c.EventLoop(), func() { close(held); <-hold })
	recv(t, "the only loop is held", held)
	for range 3 {
		recv(t, "tick", ticks)
	}
	close(hold)
}

// A half-close closes the connection: an answer that comes later is lost.
func TestPitfallHalfCloseCloses(t *testing.T) {
	closed := make(chan error, 1)
	r := startReactor(t, &hooks{closed: func(_ gnet.Conn, err error) { closed <- err }})
	c, other := r.pair()
	send(t, other, "request")
	_ = other.(*net.UnixConn).CloseWrite()
	if err := recv(t, "OnClose", closed); !errors.Is(err, io.EOF) {
		t.Errorf("OnClose(%v), want EOF", err)
	}
	var err error
	answered := make(chan error, 1)
	_ = c.AsyncWrite([]byte("answer"), func(_ gnet.Conn, e error) error { answered <- e; return nil })
	if err = recv(t, "AsyncWrite", answered); !errors.Is(err, net.ErrClosed) {
		t.Errorf("late answer: %v", err)
	}
	expectEnd(t, other)
}

// panicChild panics in OnTraffic.
func panicChild() {
	cli, err := gnet.NewClient(&hooks{traffic: func(gnet.Conn) gnet.Action { panic("in a handler") }},
		gnet.WithNumEventLoop(1), gnet.WithLogger(reactorLog{quiet}))
	if err == nil {
		err = cli.Start()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	nc, peer, err := socketPair()
	if err == nil {
		_, err = cli.Enroll(nc)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = syscall.Write(peer, []byte("x"))
	<-time.After(patience)
	fmt.Println("still alive")
}

// A panic in a handler ends the process. Hence own recovering.
func TestPitfallPanicsEndProcess(t *testing.T) {
	out, err := child(t, "panic").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: in a handler") {
		t.Errorf("child: %v, %q", err, out)
	}
}

// With SO_REUSEPORT and port 0 each loop listens on a port of its own.
func TestPitfallReusePortSplitsPorts(t *testing.T) {
	checkLeaks(t)
	before := listeningPorts(t)
	engines := make(chan gnet.Engine, 1)
	ended := make(chan error, 1)
	h := &hooks{boot: func(e gnet.Engine) { engines <- e }}
	go func() {
		ended <- gnet.Run(h, "tcp://127.0.0.1:0", gnet.WithReusePort(true), gnet.WithNumEventLoop(2),
			gnet.WithLogger(reactorLog{quiet}))
	}()
	e := recv(t, "boot", engines)
	eventually(t, "two ports for one address", func() bool {
		return len(listeningPorts(t)) == len(before)+2
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
	recv(t, "Run returns", ended)
}

// listeningPorts returns the ports of the process's listening sockets.
func listeningPorts(t *testing.T) map[int]bool {
	t.Helper()
	ports := map[int]bool{}
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range dir {
		var fd int
		_, _ = fmt.Sscan(f.Name(), &fd)
		if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
			continue
		}
		if sa, err := unix.Getsockname(fd); err == nil {
			if in, ok := sa.(*unix.SockaddrInet4); ok {
				ports[in.Port] = true
			}
		}
	}
	return ports
}

// A task that executes itself again keeps the loop from its sockets; over a
// goroutine hop it does not. Hence the hop of Loop.Turn.
func TestPitfallSelfExecuteStarvesReads(t *testing.T) {
	const slices = 200
	for _, hop := range []bool{false, true} {
		var seen atomic.Bool
		r := startReactor(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
			_, _ = c.Discard(-1)
			seen.Store(true)
			return gnet.None
		}})
		c, other := r.pair()
		el := c.EventLoop()
		done := make(chan int, 1)
		n := 0
		var slice func()
		slice = func() {
			if n == 0 {
				send(t, other, "x") // readable from now on
			}
			n++
			for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; { // a slice of work
			}
			switch {
			case n == slices || seen.Load():
				done <- n
			case hop:
				go r.post(el, slice)
			default:
				r.post(el, slice)
			}
		}
		r.post(el, slice)
		if at := recv(t, "slices", done); (at < slices) != hop {
			t.Errorf("hop %v: read after slice %d of %d", hop, at, slices)
		}
		eventually(t, "read in the end", seen.Load)
	}
}

// A loop that dies does so silently: Execute still says yes, and nothing runs.
// Hence the keeper sockets and the liveness check.
func TestPitfallDeadLoopIsSilent(t *testing.T) {
	closed := make(chan struct{})
	r := startReactor(t, &hooks{closed: func(gnet.Conn, error) { close(closed) }})
	c, _ := r.pair()
	el := c.EventLoop()
	err := el.Execute(context.Background(), gnet.RunnableFunc(
		func(context.Context) error { return gneterrors.ErrEngineShutdown }))
	if err != nil {
		t.Fatal(err)
	}
	recv(t, "the loop's connections closed", closed)
	ran := make(chan struct{}, 1)
	r.post(el, func() { ran <- struct{}{} })
	r.stop() // waits for the loop
	if len(ran) != 0 {
		t.Error("a dead loop ran a task")
	}
}

// Registration happens by the client's least connections, keepers included:
// enrolling as many sockets as there are loops reaches each.
func TestPitfallEnrolReachesEachLoop(t *testing.T) {
	const loops = 8
	checkLeaks(t)
	cli, err := gnet.NewClient(&hooks{}, gnet.WithNumEventLoop(loops), gnet.WithLogger(reactorLog{quiet}))
	if err == nil {
		err = cli.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &reactorTest{t: t, cli: cli}
	t.Cleanup(r.stop)
	seen := map[gnet.EventLoop]bool{}
	for range loops {
		c, _ := r.pair()
		seen[c.EventLoop()] = true
	}
	if len(seen) != loops {
		t.Errorf("%d of %d loops reached", len(seen), loops)
	}
}
