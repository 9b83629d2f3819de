package netloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// loopbackTries bounds how often another port is asked for when ::1 has the
// one that 127.0.0.1 was given.
const loopbackTries = 64

// address is a parsed element of Config.Addrs.
type address struct {
	path string // of a Unix socket, else empty
	host string
	port string
}

func parseAddr(s string) (address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if path == "" {
			return address{}, fmt.Errorf("%w: %q has no path", ErrAddress, s)
		}
		return address{path: path}, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return address{}, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return address{}, fmt.Errorf("%w: %q has no port from 0 to 65535", ErrAddress, s)
	}
	return address{host: host, port: port}, nil
}

// listenAll opens every address or none.
func listenAll(addrs []string) (lns []net.Listener, err error) {
	defer func() {
		if err != nil {
			closeListeners(lns)
			lns = nil
		}
	}()
	for _, s := range addrs {
		a, err := parseAddr(s)
		if err != nil {
			return lns, err
		}
		more, err := a.listen()
		if err != nil {
			return lns, fmt.Errorf("netloop: listen on %q: %w", s, err)
		}
		lns = append(lns, more...)
	}
	return lns, nil
}

func closeListeners(lns []net.Listener) {
	for _, ln := range lns {
		_ = ln.Close()
	}
}

func (a address) listen() ([]net.Listener, error) {
	switch {
	case a.path != "":
		return one(listenUnix(a.path))
	case a.host == "localhost":
		return listenLoopback(a.port)
	}
	return one(listenTCP(a.host, a.port))
}

func one(ln net.Listener, err error) ([]net.Listener, error) {
	if err != nil {
		return nil, err
	}
	return []net.Listener{ln}, nil
}

// listenTCP opens a plain listener: SO_REUSEADDR, which net sets, and never
// SO_REUSEPORT, so that a second live copy is refused. Accepted sockets have
// TCP_NODELAY and keep-alive, also from net. Multipath TCP is off: its sockets
// know neither SIOCOUTQ nor all options.
func listenTCP(host, port string) (net.Listener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc.Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
}

// listenLoopback opens 127.0.0.1 and, where it exists, ::1 on one port.
func listenLoopback(port string) ([]net.Listener, error) {
	for try := 1; ; try++ {
		v4, err := listenTCP("127.0.0.1", port)
		if err != nil {
			return nil, err
		}
		bound := strconv.Itoa(v4.Addr().(*net.TCPAddr).Port)
		v6, err := listenTCP("::1", bound)
		switch {
		case err == nil:
			return []net.Listener{v4, v6}, nil
		case noSuchAddress(err):
			return []net.Listener{v4}, nil
		}
		_ = v4.Close()
		if bound == port || try == loopbackTries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
}

// noSuchAddress tells that the machine has no such address or family.
func noSuchAddress(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}

// listenUnix opens a Unix socket. A file that a killed process left behind is
// replaced; one that a live process listens on is not.
func listenUnix(path string) (net.Listener, error) {
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		ln, err = net.Listen("unix", path)
	}
	return ln, err
}

// abandoned tells that path is a socket on which nobody listens.
func abandoned(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
