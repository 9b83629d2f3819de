package firehoseload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/internal/faults"
)

// Program is how the children are run.
type Program struct {
	// Relay starts a relay with further settings, as NAME=value.
	Relay func(env ...string) (*faults.Process, error)
	// Floor is the command of a program that calls Floor with so many threads,
	// and Source of one that calls Source, with the standard streams.
	Floor  func(threads int) *exec.Cmd
	Source func(count int) *exec.Cmd
}

// relay is a relay in a process of its own, on a data directory of its own.
type relay struct {
	*faults.Process
	dir string
}

// start starts a relay whose bounds are beyond what is measured, unless env says
// otherwise.
func (p Program) start(env ...string) (*relay, error) {
	dir, err := os.MkdirTemp("", "firehoseload")
	if err != nil {
		return nil, err
	}
	settings := []string{
		"SLUICE_DATA=" + dir, "FIREHOSE_PUBLISH_TOKEN=" + token, "FIREHOSE_MAX_CONSUMERS=15000",
		fmt.Sprint("FIREHOSE_SEQ_FLOOR=", int64(firstSeq)),
		// Pings are no frames, and a consumer that stalls is to stay.
		"FIREHOSE_PING_MS=3600000", "FIREHOSE_WRITE_TIMEOUT_MS=3600000",
		"FIREHOSE_UPSTREAMS=", "FIREHOSE_SERVER_HEADER=", "FIREHOSE_ADMIN_TOKEN=",
	}
	proc, err := p.Relay(append(settings, env...)...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &relay{proc, dir}, nil
}

// stop ends the relay; an error line in its log is an error.
func (r *relay) stop() error {
	err := r.Stop()
	if lines := r.Problems(); len(lines) > 0 {
		err = errors.Join(err, fmt.Errorf("firehoseload: the relay logs: %s", lines[0]))
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// settled waits until a metric has a value.
func (r *relay) settled(ctx context.Context, name string, want float64) error {
	var got float64
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var err error
		if got, err = r.Metric(name); err != nil || got == want {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("firehoseload: %s is %v, not %v", name, got, want)
}

// child is one of the other processes.
type child struct {
	cmd   *exec.Cmd
	addr  string
	lines *bufio.Reader
	in    io.WriteCloser
}

// startChild starts a process and reads its address.
func startChild(cmd *exec.Cmd) (*child, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, lines: bufio.NewReader(out), in: in}
	line, err := c.line()
	addr, found := strings.CutPrefix(line, listening)
	if err != nil || !found {
		return nil, errors.Join(fmt.Errorf("firehoseload: %s says %q: %v", cmd.Path, line, err), c.stop())
	}
	c.addr = addr
	return c, nil
}

// line reads a line of the process within patience.
func (c *child) line() (string, error) {
	timer := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := c.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// stop ends the process, by force if it does not end by itself.
func (c *child) stop() error {
	_ = c.in.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("firehoseload: %s: %w", c.cmd.Path, err)
	}
	return nil
}

// writes returns how many write(2) and the like a process has made (syscw of
// proc(5)).
func writes(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "syscw: "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("firehoseload: process %d has no count of writes", pid)
}

// cpuOf runs f and returns the CPU time that a process used meanwhile.
func cpuOf(pid int, f func() error) (time.Duration, error) {
	before, err := load.CPUTime(pid)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := load.CPUTime(pid)
	return after - before, err
}
