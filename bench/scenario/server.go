package scenario

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startPatience = 20 * time.Second
	stopPatience  = 5 * time.Second
	// logBytes is how much of a server's last words is kept.
	logBytes = 8 << 10
)

// ErrUnavailable tells that a server cannot run on this machine, by its own
// account (exit code 3).
var ErrUnavailable = errors.New("scenario: not available here")

// server is a server in a process of its own.
type server struct {
	addr, admin string // host:port
	cmd         *exec.Cmd
	log         *tail
	exited      chan struct{}
}

// start runs a server and waits until it accepts connections.
func start(ctx context.Context, o *Options, t target, env []string) (*server, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	args, own := t.command(o, ports[0], ports[1])
	s := &server{
		addr:   fmt.Sprint("127.0.0.1:", ports[0]),
		admin:  fmt.Sprint("127.0.0.1:", ports[1]),
		cmd:    exec.Command(args[0], args[1:]...),
		log:    &tail{},
		exited: make(chan struct{}),
	}
	for _, v := range os.Environ() { // the settings are ours alone
		if !strings.HasPrefix(v, "AEP_") && !strings.HasPrefix(v, "SLUICE_") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Env = append(append(s.cmd.Env, own...), env...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// await waits until the server accepts.
func (s *server) await(ctx context.Context) error {
	const unavailable = 3
	for end := time.Now().Add(startPatience); ; {
		c, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.exited:
			if s.cmd.ProcessState.ExitCode() == unavailable {
				return fmt.Errorf("%w: %s", ErrUnavailable, s.log)
			}
			return fmt.Errorf("scenario: %s ended: %s", s.cmd.Path, s.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("scenario: %s does not listen: %w: %s", s.cmd.Path, err, s.log)
		}
	}
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// alive tells whether the process still runs.
func (s *server) alive() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// stop ends the process, in an orderly way if it will.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(stopPatience):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

// gauges are what the relay counts about itself.
type gauges struct{ mallocs, writes, short float64 }

// gauges asks the relay's admin listener.
func (s *server) gauges() (g gauges, err error) {
	r, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return g, err
	}
	defer func() { _ = r.Body.Close() }()
	want := map[string]*float64{
		"go_memstats_mallocs_total": &g.mallocs, "sluice_writes_total": &g.writes, "sluice_short_writes_total": &g.short,
	}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v := want[name]; v != nil {
			if *v, err = strconv.ParseFloat(value, 64); err != nil {
				return g, err
			}
			delete(want, name)
		}
	}
	for name := range want {
		return g, fmt.Errorf("scenario: the relay has no metric %s", name)
	}
	return g, nil
}

// freePorts asks the kernel for ports that nobody has at the moment.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// tail keeps the last bytes written to it. Any goroutine.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if over := len(t.last) - logBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}
