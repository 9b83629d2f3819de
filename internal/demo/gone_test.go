package demo

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/internal/demo/fleet"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// A relay that is gone at the end is not waited for: endTimeout is longer here
// than what a test waits.
func TestEndsAtOnceWithoutRelay(t *testing.T) {
	for _, http := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP %v", http), func(t *testing.T) {
			addr, stopRelay := startRelay(t, "")
			status := &statusLog{}
			wait, stop := play(t, Options{
				Relay: newClient(t, addr, ""), Fleet: fleet.Config{Seed: 5, Agents: 4, Rate: 300},
				HTTP: http, Status: status, Interval: 20 * time.Millisecond, last: 10 * patience,
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
			await("the beginning", func() bool {
				lines := strings.Split(status.String(), "\n")
				return len(lines) > 3 && !strings.Contains(lines[len(lines)-2], ": 0 events in")
			})
			stopRelay()
			await("the loss", func() bool {
				return strings.Contains(status.String(), "; last problem: cannot reach the relay: connection refused\n")
			})
			stop()
			if err := wait(); err != nil {
				t.Error(err)
			}
			if strings.Contains(status.String(), "dial") {
				t.Errorf("status:\n%s", status)
			}
		})
	}
}

// What was made and not taken is not counted, and is no success.
func TestNothingGotIn(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for address, want := range map[string]string{
		closed.Addr().String():                       "connection refused",
		"unix:" + filepath.Join(t.TempDir(), "none"): "no such file or directory",
	} {
		for _, http := range []bool{false, true} {
			status := &statusLog{}
			wait, _ := play(t, Options{
				Relay: newClient(t, address, ""), Fleet: fleet.Config{Agents: 3, Rate: 100}, HTTP: http,
				Duration: time.Second, Status: status, last: 10 * patience,
			})
			want := "no event got in: cannot reach the relay: " + want
			if err := wait(); !errors.Is(err, ErrNothing) || err.Error() != want {
				t.Errorf("%s, HTTP %v: %v, want %s", address, http, err, want)
			}
			if text := status.String(); !strings.Contains(text, "demo: 0 events in (0.0/s)") || !strings.Contains(text, " lost") {
				t.Errorf("%s, HTTP %v: status:\n%s", address, http, text)
			}
		}
	}
}

// The summary counts what followers get.
func TestCountsWhatGotIn(t *testing.T) {
	for _, http := range []bool{false, true} {
		addr, _ := startRelay(t, "")
		s, err := relaytest.OpenStream(addr, "/stream", relaytest.StreamOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status := &statusLog{}
		wait, stop := play(t, Options{
			Relay: newClient(t, addr, ""), Fleet: fleet.Config{Seed: 4, Agents: 3, Rate: 300}, HTTP: http, Status: status, last: patience,
		})
		// What comes twice was sent twice (R161). Going offline is an agent's last.
		seen, agents := map[string]bool{}, map[string]bool{}
		for offline := 0; offline < 3; {
			if len(agents) == 3 && len(seen) >= 100 {
				stop()
			}
			b, err := s.Next(patience)
			if err != nil {
				t.Fatal(err)
			}
			if !b.IsEvent() {
				continue
			}
			e := parseEvent(t, b.Data)
			if key := e.Source + " " + e.ID; !seen[key] {
				seen[key], agents[e.Agent] = true, true
				if e.Type == "agent.presence" && e.Data["state"] == "offline" {
					offline++
				}
			}
		}
		_ = s.Close()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("demo: %d events in (", len(seen))
		if text := status.String(); !strings.Contains(text, want) || strings.Contains(text, " lost") {
			t.Errorf("HTTP %v: want %q:\n%s", http, want, text)
		}
	}
}

func TestPlain(t *testing.T) {
	dial := func(err error) error {
		inner := &url.Error{Op: "Get", URL: "http://x/socket", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
		return fmt.Errorf("failed to WebSocket dial: failed to send handshake request: %w", inner)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "cannot reach the relay: connection refused"},
		{dial(os.NewSyscallError("connect", syscall.ENOENT)), "cannot reach the relay: no such file or directory"},
		{dial(&net.DNSError{Name: "x", IsNotFound: true}), "cannot reach the relay: no such host"},
		{dial(&net.DNSError{Name: "x"}), "cannot reach the relay: its name cannot be looked up"},
		{dial(os.ErrDeadlineExceeded), "the relay does not answer"},
		{fmt.Errorf("failed to read: %w", context.DeadlineExceeded), "the relay does not answer"},
		{&url.Error{Op: "Post", URL: "http://x", Err: x509.UnknownAuthorityError{}}, "cannot reach the relay: x509: certificate signed by unknown authority"},
		{fmt.Errorf("failed to get reader: %w", websocket.CloseError{Code: 1001}), "the relay closed the connection"},
		{fmt.Errorf("failed to get reader: %w", websocket.CloseError{Code: 1013, Reason: "slow"}), "the relay closed the connection: slow"},
		{&url.Error{Op: "Post", URL: "http://x", Err: io.EOF}, "the connection was lost"},
		{&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, "the connection was lost"},
		{fmt.Errorf("%w: 404", ErrRefused), "the relay refuses: 404"},
		{errors.New("invalid: no source"), "invalid: no source"},
	} {
		if got := plain(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
