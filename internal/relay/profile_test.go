package relay_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// serverEnd returns a descriptor, of the test, of this process's socket whose
// peer is client, a "host:port" of IPv4.
func serverEnd(t *testing.T, client string) int {
	t.Helper()
	isIt := func(fd int) bool {
		peer, err := syscall.Getpeername(fd)
		addr, ok := peer.(*syscall.SockaddrInet4)
		return err == nil && ok && net.JoinHostPort(net.IP(addr.Addr[:]).String(), strconv.Itoa(addr.Port)) == client
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !isIt(fd) {
			continue
		}
		// The number may be another's by now: that of the accepted socket is
		// free as soon as the reactor has its own.
		own, err := syscall.Dup(fd)
		if err != nil {
			continue
		}
		if isIt(own) {
			return own
		}
		_ = syscall.Close(own)
	}
	t.Fatalf("no socket has %s as its peer", client)
	return -1
}

// TestProfileInForce: a started relay uses what its profile gives, and what the
// environment says instead of it. The Go runtime's share is tested in a
// process of its own, by cmd/sluice.
func TestProfileInForce(t *testing.T) {
	t.Parallel()
	f := func(sendBuffer, maxBody int, env map[string]string) {
		t.Helper()
		r := startRelay(t, env)
		s := r.stream(t, "", relaytest.StreamOptions{})
		end := serverEnd(t, s.LocalAddr())
		got, err := syscall.GetsockoptInt(end, syscall.SOL_SOCKET, syscall.SO_SNDBUF)
		_ = syscall.Close(end)
		if err != nil || got != 2*sendBuffer { // the kernel doubles it (socket(7))
			t.Errorf("%v: send buffer %d, %v, want twice %d", env, got, err, sendBuffer)
		}
		for over, status := range map[int]int{0: 100, 1: 413} {
			head := fmt.Sprintf("POST /events HTTP/1.1\r\nHost: localhost\r\nAEP-Version: 0.1\r\nContent-Type: application/json\r\n"+
				"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", maxBody+over)
			c, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, len("HTTP/1.1 413"))
			if _, err := c.Write([]byte(head)); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, answer); err != nil || !strings.HasSuffix(string(answer), strconv.Itoa(status)) {
				t.Errorf("%v: body of %d bytes: %q, %v, want %d", env, maxBody+over, answer, err, status)
			}
			_ = c.Close()
		}
		_ = s.Close()
	}
	f(65_536, 4<<20, map[string]string{config.EnvProfile: "edge"})
	f(32_768, 8, map[string]string{config.EnvProfile: "edge", config.EnvSendBuffer: "32768", config.EnvMaxBody: "8"})
}
