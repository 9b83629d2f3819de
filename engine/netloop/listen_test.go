package netloop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/engine/loop"
)

// Whatever an address is, it is taken apart or refused by name.
func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"", ":0", "localhost:8787", "[::1]:0", "unix:/run/s", "unix:", "a:b:c", "1.2.3.4:99999", "x:-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseAddr(s)
		if err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("parseAddr(%q) = %v, unnamed", s, err)
		}
		if err == nil && (a.path == "") == (a.port == "") {
			t.Errorf("parseAddr(%q) = %+v: path and port are alternatives", s, a)
		}
	})
}

// Port 0 is told truly, and both loopback addresses share it.
func TestLoopbackSharesPort(t *testing.T) {
	s := serve(t, Config{Addrs: []string{"localhost:0"}}, echo)
	addrs := s.Addrs()
	first := addrs[0].(*net.TCPAddr)
	if !first.IP.Equal(net.IPv4(127, 0, 0, 1)) || first.Port == 0 {
		t.Fatalf("first address %v", first)
	}
	for _, a := range addrs {
		if p := a.(*net.TCPAddr).Port; p != first.Port {
			t.Errorf("%v is not on port %d", a, first.Port)
		}
		c := dialTo(t, a)
		send(t, c, "hello")
		expect(t, c, "hello")
	}
	probe, err := listenTCP("::1", "0")
	if err == nil {
		_ = probe.Close()
	}
	if (err == nil) != (len(addrs) == 2) {
		t.Errorf("addresses %v although ::1: %v", addrs, err)
	}
}

// When ::1 has the port already, another is asked for; a given port is refused.
func TestLoopbackTaken(t *testing.T) {
	six, port := onlyOnSix(t)
	defer six.Close() //nolint:errcheck
	open := openDescriptors()
	lns, err := listenAll([]string{fmt.Sprint("localhost:", port)})
	if !errors.Is(err, syscall.EADDRINUSE) {
		closeListeners(lns)
		t.Errorf("port taken on ::1: %v", err)
	}
	// Another process may have the port by now, so that it is not asked for.
	if n := openDescriptors(); n > open {
		t.Errorf("127.0.0.1 was not given back: %d descriptors, then %d", open, n)
	}
}

// onlyOnSix returns a listener on ::1 whose port was free on 127.0.0.1 a moment
// ago.
func onlyOnSix(t *testing.T) (six net.Listener, port int) {
	t.Helper()
	lns, err := listenLoopback("0")
	if err != nil {
		t.Fatal(err)
	}
	if len(lns) < 2 {
		closeListeners(lns)
		t.Skip("no ::1")
	}
	_ = lns[0].Close()
	return lns[1], lns[1].Addr().(*net.TCPAddr).Port
}

// C57: two live copies on one port or path are refused.
func TestTwoCopiesRefused(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	s := serve(t, Config{Addrs: []string{"127.0.0.1:0", "unix:" + sock}}, echo)
	tcp := s.Addrs()[0].String()
	every := fmt.Sprint(":", s.Addrs()[0].(*net.TCPAddr).Port)
	for _, addr := range []string{tcp, every, "unix:" + sock} {
		again, err := New(Config{Addrs: []string{"127.0.0.1:0", addr}, Log: quiet}, loop.SystemClock{}, echo)
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, "Listen on "+addr, again.Listen(), syscall.EADDRINUSE)
		if n := len(again.Addrs()); n != 0 {
			t.Errorf("%d listeners open after a failed Listen", n)
		}
	}
	for _, a := range s.Addrs() { // the first copy is undisturbed
		c := dialTo(t, a)
		send(t, c, "x")
		expect(t, c, "x")
	}
}

// A socket file left by a killed process is replaced, another file is not.
func TestUnixLeftBehind(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "left")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
	s := serve(t, Config{Addrs: []string{"unix:" + left}}, echo)
	c := s.dial(t)
	send(t, c, "x")
	expect(t, c, "x")

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(file); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening on a file: %v", err)
	}
	if b, err := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("file is now %q, %v", b, err)
	}
}
