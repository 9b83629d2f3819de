package faults_test

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

const (
	// headTime and bodyTime are when the relay cuts a head that is not complete
	// (R47), and a body of which less than 4 KiB came.
	headTime = 10 * time.Second
	// late is how much later than that a busy machine may notice: less than a
	// trickler has octets for.
	late = 60 * time.Second
)

// trickler is a connection that sends one octet at a time.
type trickler struct {
	nc     *net.TCPConn
	rest   []byte
	begun  time.Time
	status chan string // status line of the answer, or the error
}

// startTrickler sends all of a request but for its last octets.
func startTrickler(tb testing.TB, addr, first, rest string) *trickler {
	nc, err := faults.Dial(addr, 0)
	must(tb, "dial", err)
	c := &trickler{nc: nc, rest: []byte(rest), begun: time.Now(), status: make(chan string, 1)}
	if _, err := nc.Write([]byte(first)); err != nil {
		tb.Fatal(err)
	}
	go func() {
		line, err := bufio.NewReaderSize(nc, 256).ReadString('\n')
		if err != nil && !errors.Is(err, syscall.ECONNRESET) && line == "" {
			line = err.Error()
		}
		c.status <- strings.TrimSpace(line)
	}()
	return c
}

// TestSlowloris: 2,000 heads and 500 bodies that come an octet at a time, and
// 500 connections that say nothing, disturb no stream. A head has 10 s from its
// first octet, not from its last, and a body has to have a rate (R47, C16).
func TestSlowloris(t *testing.T) {
	t.Parallel()
	p := startRelay(t)
	base := gauges(t, p)
	h := startHealthy(t, p.Addr, "healthy", 6, 200)
	var all []*trickler
	for range scale(2000, 200) {
		all = append(all, startTrickler(t, p.Addr, "G", "ET /stream HTTP/1.1\r\nHost: localhost\r\nX-Never: "+strings.Repeat("x", 200)))
	}
	heads := len(all)
	for range scale(500, 50) {
		head := string(faults.PostHead(nil, p.Addr, 1<<20))
		all = append(all, startTrickler(t, p.Addr, head, strings.Repeat(" ", 200)))
	}
	bodies := len(all)
	for range scale(500, 50) {
		all = append(all, startTrickler(t, p.Addr, "", ""))
	}

	stop := make(chan struct{})
	var trickle sync.WaitGroup
	trickle.Go(func() { sendOctets(all[:bodies], stop) })
	if testing.Short() {
		time.Sleep(2 * time.Second) // the time that streams are watched
	} else {
		checkTricklers(t, "R47: head", all[:heads])
		checkTricklers(t, "body", all[heads:bodies])
	}
	close(stop)
	trickle.Wait()
	h.end()
	h.checkDelay("C16", 5*time.Second)
	for _, c := range all {
		_ = c.nc.Close()
	}
	must(t, "after all left", p.AwaitBaseline(base, patience))
}

// sendOctets sends one octet to each about twice a second.
func sendOctets(all []*trickler, stop <-chan struct{}) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		for _, c := range all {
			if n < len(c.rest) {
				_ = c.nc.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = c.nc.Write(c.rest[n : n+1]) // fails once it was cut
			}
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// checkTricklers wants each to be answered 408 in time, or cut.
func checkTricklers(t *testing.T, what string, all []*trickler) {
	t.Helper()
	var wg sync.WaitGroup
	var early, wrong atomic.Int64
	var sample failure
	for _, c := range all {
		wg.Go(func() {
			select {
			case status := <-c.status:
				if took := time.Since(c.begun); took < headTime-time.Second {
					early.Add(1)
				}
				if status != "" && !strings.HasPrefix(status, "HTTP/1.1 408 ") {
					wrong.Add(1)
					sample.set(errors.New(status))
				}
			case <-time.After(time.Until(c.begun.Add(headTime + late))):
				wrong.Add(1)
				sample.set(errors.New("neither answered nor cut"))
			}
		})
	}
	wg.Wait()
	if n := early.Load(); n > 0 {
		t.Errorf("%s: %d of %d cut before their time", what, n, len(all))
	}
	if n := wrong.Load(); n > 0 {
		t.Errorf("%s: %d of %d not answered 408: %v", what, n, len(all), sample.get())
	}
}
