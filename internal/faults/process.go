package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// These are only used up when something is wrong. startTimeout and exitTimeout
	// are far more than a start and the 10 s after which a relay ends by itself,
	// for machines that are busy with other things.
	startTimeout = 60 * time.Second
	exitTimeout  = 60 * time.Second

	listening = "aep-relay listening on "
	adminLine = `msg="admin listener" addr=`

	// maxLines bounds the lines of a log that are kept of each kind.
	maxLines = 200
)

// ErrExit tells that a relay did not end as it was asked to.
var ErrExit = errors.New("faults: relay did not exit with 0")

// Process is a relay in a process of its own. Any goroutine may use it.
type Process struct {
	Addr  string // host:port of the relay
	Admin string // host:port of its admin listener

	cmd    *exec.Cmd
	exited chan struct{} // closed once the process was waited for
	exit   error         // of Wait; valid once exited is closed

	mu       sync.Mutex
	problems []string // error lines, panics, races
	tail     []string // the last lines
}

// ours are how the names of a relay's variables begin: the developer's own are kept
// from it.
var ours = []string{"AEP_", "AEPWS_", "FIREHOSE_", "SLUICE_"}

// Start runs a relay: name with args, in an environment without the variables
// of a relay but for those given as NAME=value. Unless they say otherwise it
// listens on a free port of 127.0.0.1 and has an admin listener there.
func Start(name string, args []string, env ...string) (*Process, error) {
	p := &Process{exited: make(chan struct{})}
	p.cmd = exec.Command(name, args...)
	for _, v := range os.Environ() {
		if !slices.ContainsFunc(ours, func(prefix string) bool { return strings.HasPrefix(v, prefix) }) {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "AEP_HOST=127.0.0.1", "AEP_PORT=0", "SLUICE_ADMIN=127.0.0.1:0")
	p.cmd.Env = append(p.cmd.Env, env...)
	// Own pipes: those of exec are closed by Wait, before all was read.
	out, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	log, logW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, out.Close(), outW.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr = outW, logW
	err = p.cmd.Start()
	_, _ = outW.Close(), logW.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close(), log.Close())
	}

	admin := make(chan string, 1)
	read := make(chan struct{})
	go p.readLog(log, admin, read)
	go func() {
		p.exit = p.cmd.Wait()
		<-read // so that Problems has everything
		close(p.exited)
	}()
	if err := p.await(out, admin); err != nil {
		p.Kill() // and now its log is complete
		return nil, fmt.Errorf("%w\n%s", err, p.Tail())
	}
	return p, nil
}

// await reads the addresses.
func (p *Process) await(out *os.File, admin <-chan string) error {
	_ = out.SetReadDeadline(time.Now().Add(startTimeout))
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { // nothing more is due, and the relay must not block on it
		_ = out.SetReadDeadline(time.Time{})
		_, _ = io.Copy(io.Discard, out)
		_ = out.Close()
	}()
	addr, found := strings.CutPrefix(line, listening)
	if err != nil || !found {
		return fmt.Errorf("faults: relay does not start: %q, %w", line, err)
	}
	p.Addr, _, _ = strings.Cut(addr, ",")
	select {
	case p.Admin = <-admin:
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("faults: relay does not name its admin listener")
	}
}

// readLog keeps the lines of the log that matter.
func (p *Process) readLog(r *os.File, admin chan<- string, read chan<- struct{}) {
	defer close(read)
	defer func() { _ = r.Close() }()
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			p.keep(strings.TrimSuffix(line, "\n"))
			if _, addr, found := strings.Cut(line, adminLine); found {
				select {
				case admin <- strings.TrimSpace(addr):
				default:
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Process) keep(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sign := range []string{"level=ERROR", "panic", "DATA RACE", "fatal error"} {
		if strings.Contains(line, sign) && len(p.problems) < maxLines {
			p.problems = append(p.problems, line)
			break
		}
	}
	if p.tail = append(p.tail, line); len(p.tail) > maxLines {
		p.tail = append(p.tail[:0], p.tail[maxLines/2:]...)
	}
}

// Problems returns the lines of its log so far that tell of an error (R14: no
// input is worth one), a panic or a race.
func (p *Process) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// Tail returns the last lines of its log.
func (p *Process) Tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends it with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Terminate sends SIGTERM and returns at once.
func (p *Process) Terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// AwaitExit waits for an end with exit code 0 (R464). It kills a process that
// does not end.
func (p *Process) AwaitExit() error {
	select {
	case <-p.exited:
	case <-time.After(exitTimeout):
		p.Kill()
		return fmt.Errorf("%w: killed after %v\n%s", ErrExit, exitTimeout, p.Tail())
	}
	if p.exit != nil {
		return fmt.Errorf("%w: %w\n%s", ErrExit, p.exit, p.Tail())
	}
	return nil
}

// Stop ends it in an orderly way.
func (p *Process) Stop() error {
	if err := p.Terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.AwaitExit()
}
