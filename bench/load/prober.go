//go:build linux

package load

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"
)

// ProberOutcome is what a Prober found.
type ProberOutcome struct {
	Latency *Histogram // of answers 2xx, from the intended time of the request
	Failed  int64      // probes without an answer 2xx
	Err     error      // of the last failed probe
}

// Prober asks for a path again and again, each time over a new connection, for
// example for /healthz while a herd connects. It is open-loop: a probe that
// waited for the one before counts from when it was intended.
type Prober struct {
	addr, path        string
	interval, timeout time.Duration
	stop, done        chan struct{}
	outcome           ProberOutcome // owned by the goroutine until done
}

// StartProber begins to GET path from addr (HOST:PORT) every interval, each
// probe with a timeout. The caller must Stop it.
func StartProber(addr, path string, interval, timeout time.Duration) *Prober {
	p := &Prober{
		addr: addr, path: path, interval: max(interval, time.Millisecond), timeout: timeout,
		stop: make(chan struct{}), done: make(chan struct{}),
		outcome: ProberOutcome{Latency: new(Histogram)},
	}
	go p.probeAll()
	return p
}

// Stop ends the prober, waits for a probe under way, and returns what was
// found. Call it once.
func (p *Prober) Stop() ProberOutcome {
	close(p.stop)
	<-p.done
	return p.outcome
}

// probeAll probes by schedule.
func (p *Prober) probeAll() {
	defer close(p.done)
	for intended := time.Now(); ; intended = intended.Add(p.interval) {
		select {
		case <-p.stop:
			return
		case <-time.After(time.Until(intended)):
		}
		if err := p.probe(); err != nil {
			p.outcome.Failed++
			p.outcome.Err = err
			continue
		}
		p.outcome.Latency.Record(time.Since(intended))
	}
}

// probe asks once.
func (p *Prober) probe() error {
	nc, err := net.DialTimeout("tcp4", p.addr, p.timeout)
	if err != nil {
		return fmt.Errorf("load: probe: %w", err)
	}
	defer func() {
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
	}()
	_ = nc.SetDeadline(time.Now().Add(p.timeout))
	if _, err := fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", p.path, p.addr); err != nil {
		return fmt.Errorf("load: probe: %w", err)
	}
	line, err := bufio.NewReader(nc).ReadString('\n')
	if err != nil {
		return fmt.Errorf("load: probe: %w after %q", err, line)
	}
	if status := statusOf([]byte(strings.TrimSpace(line))); status < 200 || status > 299 {
		return fmt.Errorf("load: probe: %q", excerpt([]byte(line)))
	}
	return nil
}
