package netloop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-relay/sluice/engine/loop"
)

// N1, C53, C54: the cap follows from the limit, and nothing else grows with it.
func TestDeriveLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		limit   uint64
		open    int
		cfg     Config
		reserve int
		conns   int
		slots   int
		err     error
	}{
		"small":        {limit: 64, open: 8, cfg: Config{Loops: 1}, reserve: 8 + 4 + 2 + 3 + 4 + 8, conns: 35, slots: 2},
		"usual":        {limit: 1024, open: 10, cfg: Config{Loops: 2}, reserve: 10 + 8 + 2 + 3 + 64 + 128, conns: 809, slots: 32},
		"large":        {limit: 1 << 20, open: 10, cfg: Config{Loops: 2}, reserve: 10 + 8 + 2 + 3 + 128 + 256, conns: 1<<20 - 407, slots: 64},
		"C53 huge":     {limit: 1_073_741_816, open: 10, cfg: Config{Loops: 2}, reserve: 407, conns: 1_073_741_816 - 407, slots: 64},
		"unlimited":    {limit: ^uint64(0), open: 10, cfg: Config{Loops: 2}, reserve: 407, conns: 1<<31 - 1 - 407, slots: 64},
		"own reserve":  {limit: 1024, open: 10, cfg: Config{Loops: 2, Reserve: 24}, reserve: 24, conns: 1000, slots: 32},
		"own cap":      {limit: 1024, open: 10, cfg: Config{Loops: 2, MaxConns: 100}, reserve: 215, conns: 100, slots: 32},
		"C54 cap":      {limit: 1024, open: 10, cfg: Config{Loops: 2, MaxConns: 810}, err: ErrMaxConns},
		"nothing left": {limit: 24, open: 8, cfg: Config{Loops: 1}, err: ErrFewDescriptors},
		"all reserved": {limit: 100, open: 8, cfg: Config{Loops: 1, Reserve: 100}, err: ErrFewDescriptors},
	} {
		tc.cfg.Addrs = []string{":0"}
		l, err := deriveLimits(tc.limit, tc.open, &tc.cfg)
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
		if err == nil && (l.Reserve != tc.reserve || l.Conns != tc.conns || l.slots != tc.slots) {
			t.Errorf("%s: %+v, want reserve %d, conns %d, slots %d", name, l, tc.reserve, tc.conns, tc.slots)
		}
	}
}

func init() {
	children["raise"] = raiseChild
	children["exhaust"] = exhaustChild
}

func limitTo(soft, hard uint64) {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: hard}); err != nil {
		fmt.Println("setrlimit:", err)
		os.Exit(1)
	}
}

func raiseChild() {
	limitTo(200, 400)
	s, err := New(Config{Addrs: []string{":0"}, Log: quiet}, loop.SystemClock{}, echo)
	if err != nil {
		fmt.Println(err)
		return
	}
	var r unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	fmt.Println(s.Limits().Descriptors, r.Cur)
	limitTo(12, 12)
	_, err = New(Config{Addrs: []string{":0"}, Log: quiet}, loop.SystemClock{}, echo)
	fmt.Println(errors.Is(err, ErrFewDescriptors))
}

// C53: the soft limit is raised to the hard one; too low a limit is an error.
func TestRaisesLimit(t *testing.T) {
	out, err := child(t, "raise").CombinedOutput()
	if err != nil || string(out) != "400 400\ntrue\n" {
		t.Errorf("child says %q, %v", out, err)
	}
}

// exhaustChild serves under a limit of 64 descriptors and obeys lines: "eat"
// opens files until none can be opened, "free" closes them, "stat" reports.
func exhaustChild() {
	limitTo(64, 64)
	s, err := New(Config{Addrs: []string{"127.0.0.1:0"}, Loops: 1, Log: quiet}, loop.SystemClock{}, echo)
	if err == nil {
		err = s.Listen()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		fmt.Println("served:", s.Serve())
		os.Exit(1)
	}()
	fmt.Println(s.Addrs()[0], s.Limits().Conns)
	var eaten []int
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "eat":
			for enrolling() { // its second descriptor would be free later
				runtime.Gosched()
			}
			for fd, err := openSpare(); err == nil; fd, err = openSpare() {
				eaten = append(eaten, fd)
			}
			fmt.Println(len(eaten))
		case "free":
			for _, fd := range eaten {
				closeDescriptor(fd)
			}
			eaten = nil
			fmt.Println(0)
		case "stat":
			var ru unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &ru)
			r := s.Refused()
			fmt.Println((ru.Utime.Nano()+ru.Stime.Nano())/1e3, s.Conns(), r.Cap, r.Descriptors, r.AcceptErrors)
		}
	}
}

// enrolling tells that the reactor is still busy taking a connection.
func enrolling() bool {
	buf := make([]byte, 1<<20)
	return bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("(*eventloop).enroll"))
}

// exhausting is the parent's view of exhaustChild.
type exhausting struct {
	t     *testing.T
	in    io.Writer
	out   *bufio.Reader
	addr  string
	conns int
}

func startExhausting(t *testing.T) *exhausting {
	t.Helper()
	cmd := child(t, "exhaust")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	e := &exhausting{t: t, in: in, out: bufio.NewReader(out)}
	if _, err := fmt.Sscan(e.line(), &e.addr, &e.conns); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *exhausting) line() string {
	e.t.Helper()
	s, err := e.out.ReadString('\n')
	if err != nil {
		e.t.Fatalf("child: %q, %v", s, err)
	}
	return strings.TrimSpace(s)
}

func (e *exhausting) order(cmd string) string {
	e.t.Helper()
	if _, err := fmt.Fprintln(e.in, cmd); err != nil {
		e.t.Fatal(err)
	}
	return e.line()
}

type exhaustStat struct{ cpuMicros, conns, overCap, descriptors, acceptErrors int64 }

func (e *exhausting) stat() (s exhaustStat) {
	e.t.Helper()
	_, err := fmt.Sscan(e.order("stat"), &s.cpuMicros, &s.conns, &s.overCap, &s.descriptors, &s.acceptErrors)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// idle fails when the server uses more than a fifth of a CPU all the time.
func (e *exhausting) idle() {
	e.t.Helper()
	const span = 200 * time.Millisecond
	used, ok := idles(span, 0.2, func(span time.Duration) time.Duration {
		before := e.stat().cpuMicros
		<-time.After(span) // the time measured over
		return time.Duration(e.stat().cpuMicros-before) * time.Microsecond
	})
	if !ok {
		e.t.Errorf("%v of CPU in %v", used, span)
	}
}

// ask sends a request and tells whether it was echoed or refused with 503.
func (e *exhausting) ask(c net.Conn) (served bool, err error) {
	const request = "GET / HTTP/1.1\r\n"
	if _, err := io.WriteString(c, request); err != nil {
		return false, err
	}
	b := make([]byte, len(refusal))
	if _, err := io.ReadFull(c, b[:len(request)]); err != nil {
		return false, err
	}
	if string(b[:len(request)]) == request {
		return true, nil
	}
	if _, err := io.ReadFull(c, b[len(request):]); err != nil || string(b) != refusal {
		return false, fmt.Errorf("answer %q, %w", b, err)
	}
	_, err = io.ReadAll(c)
	return false, err
}

func (e *exhausting) dial() net.Conn {
	e.t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// dialMany asks on n connections at once and returns those that are served.
func (e *exhausting) dialMany(n int) (served []net.Conn) {
	e.t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		c := e.dial()
		wg.Go(func() {
			ok, err := e.ask(c)
			if err != nil {
				e.t.Errorf("neither served nor answered: %v", err)
			}
			if ok {
				mu.Lock()
				served = append(served, c)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return served
}

// C51: far more connections than descriptors. Exactly the cap is served, the
// others are answered, and all is well afterwards.
func TestMoreConnectionsThanDescriptors(t *testing.T) {
	e := startExhausting(t)
	served := e.dialMany(150)
	if len(served) != e.conns {
		t.Errorf("%d of 150 served, the cap is %d", len(served), e.conns)
	}
	e.idle()
	for _, c := range served {
		if ok, err := e.ask(c); !ok || err != nil {
			t.Errorf("established connection: served %v, %v", ok, err)
		}
		_ = c.Close()
	}
	if s := e.stat(); s.overCap != int64(150-e.conns) || s.acceptErrors != 0 {
		t.Errorf("counters %+v, want %d over the cap", s, 150-e.conns)
	}
	eventually(t, "places given back", func() bool { return e.stat().conns == 0 })
	if n := len(e.dialMany(10)); n != 10 {
		t.Errorf("%d of 10 served afterwards", n)
	}
}

// C51: no descriptor at all is left, the reserve included: connections are
// refused over the spare one, accept backs off, and serving goes on when there
// are descriptors again.
func TestDescriptorsExhausted(t *testing.T) {
	e := startExhausting(t)
	old := e.dial()
	if ok, err := e.ask(old); !ok || err != nil {
		t.Fatalf("served %v, %v", ok, err)
	}
	e.order("eat")
	if n := len(e.dialMany(40)); n != 0 {
		t.Errorf("%d of 40 served without descriptors", n)
	}
	e.idle()
	if ok, err := e.ask(old); !ok || err != nil {
		t.Errorf("established connection: served %v, %v", ok, err)
	}
	// The last ones are counted behind their answers.
	eventually(t, "40 refused for descriptors", func() bool { return e.stat().descriptors >= 40 })
	if s := e.stat(); s.descriptors != 40 || s.acceptErrors == 0 || s.acceptErrors > 40 {
		t.Errorf("counters %+v, want 40 refused for descriptors", s)
	}
	e.order("free")
	// An accept that failed before may still refuse those that wait.
	eventually(t, "served again", func() bool { return len(e.dialMany(1)) == 1 })
	if n := len(e.dialMany(5)); n != 5 {
		t.Errorf("%d of 5 served afterwards", n)
	}
}
