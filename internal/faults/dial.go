package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	// sources is how many loopback addresses connections come from. One has
	// about 28,000 ports, and one that was closed here first is not free for a
	// minute (TIME_WAIT).
	sources = 64

	// DialTimeout bounds a dial, and the first answer. A SYN that a full queue has
	// dropped is sent again after 1, 3, 7, 15 and 31 s.
	DialTimeout = 60 * time.Second

	// bindAddressNoPort is IP_BIND_ADDRESS_NO_PORT (ip(7)): the port is chosen
	// by connect, so that it has to be unique for the whole connection only.
	bindAddressNoPort = 0x18
)

var dials atomic.Uint32

// Dial connects to addr from one of many loopback addresses, so that the number
// of connections is not bounded by the ports of one. recvBytes is the kernel's
// receive buffer, 0 for the default. Any goroutine.
func Dial(addr string, recvBytes int) (*net.TCPConn, error) {
	from := net.IPv4(127, 0, 0, byte(2+dials.Add(1)%sources))
	d := net.Dialer{
		Timeout:   DialTimeout,
		LocalAddr: &net.TCPAddr{IP: from},
		KeepAlive: -1,
		Control: func(_, _ string, rc syscall.RawConn) error {
			var serr error
			err := rc.Control(func(fd uintptr) {
				serr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindAddressNoPort, 1)
				if serr == nil && recvBytes > 0 {
					serr = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, recvBytes)
				}
			})
			return errors.Join(err, serr)
		},
	}
	nc, err := d.DialContext(context.Background(), "tcp4", addr)
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	return nc.(*net.TCPConn), nil
}

// reset closes nc with RST.
func reset(nc *net.TCPConn) {
	_ = nc.SetLinger(0)
	_ = nc.Close()
}

// Get asks addr for a path on a connection of its own.
func Get(addr, path string, timeout time.Duration) (*relaytest.Response, error) {
	return relaytest.Do(addr, "GET", "GET "+path+" HTTP/1.1\r\nHost: "+addr+"\r\nConnection: close\r\n\r\n", timeout)
}
