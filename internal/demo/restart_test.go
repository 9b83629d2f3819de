package demo

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/demo/fleet"
)

// front is a port whose connections go to the relay of the moment.
type front struct {
	ln    net.Listener
	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{ln: ln, to: to, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { f.pass(c) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); f.turn(""); all.Wait() })
	return f
}

// turn cuts all connections; new ones go elsewhere, nowhere if to is "".
func (f *front) turn(to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = to
	for c := range f.conns {
		_ = c.Close()
	}
}

func (f *front) pass(c net.Conn) {
	defer func() { _ = c.Close() }()
	f.mu.Lock()
	to := f.to
	f.conns[c] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, c)
	}()
	if to == "" {
		return
	}
	back, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = back.Close() }()
	go func() { _, _ = io.Copy(back, c); _ = back.Close() }()
	_, _ = io.Copy(c, back)
}

// Two relays and a time without one: between them they have every event.
func TestRelayRestarts(t *testing.T) {
	for _, http := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP %v", http), func(t *testing.T) {
			first, _ := startRelay(t, "")
			second, _ := startRelay(t, "")
			f := newFront(t, first)
			status := &statusLog{}
			wait, stop := play(t, Options{
				Relay: newClient(t, f.ln.Addr().String(), ""), Fleet: fleet.Config{Seed: 5, Agents: 4, Rate: 300},
				HTTP: http, Status: status, Interval: 50 * time.Millisecond, last: patience,
			})
			await := func(what string, ok func() bool) {
				t.Helper()
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for begin := time.Now(); !ok(); <-tick.C {
					if time.Since(begin) > patience {
						t.Fatalf("%s does not happen; status:\n%s", what, status)
					}
				}
			}
			await("the beginning", func() bool { return len(replay(t, first, "")) > 100 })
			mark := len(status.String())
			f.turn("")
			lost := "0 of 4 connected"
			if http {
				lost = "not connected"
			}
			await("the loss", func() bool { return strings.Contains(status.String()[mark:], lost) })
			f.turn(second)
			await("the return", func() bool { return len(replay(t, second, "")) > 100 })
			f.turn(second) // and a cut alone
			before := len(replay(t, second, ""))
			await("the second return", func() bool { return len(replay(t, second, "")) > before+100 })
			stop()
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			events := append(replay(t, first, ""), replay(t, second, "")...)
			sessions, _ := contiguous(t, events)
			t.Logf("%d events, %d sessions", len(events), sessions)
			if !strings.Contains(status.String(), "reconnects") {
				t.Errorf("status:\n%s", status)
			}
		})
	}
}
