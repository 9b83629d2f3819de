package netloop

import (
	"errors"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writeSocket hands p, which is not empty, to the kernel. A full buffer is
// (0, nil). The socket does not block, so the scheduler is not told of the call
// (as syscall.Write would): that is 3 % of what a delivery costs.
func writeSocket(fd int, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, errno
		}
	}
}

// unackedBytes returns the length of the send queue (tcp(7), SIOCOUTQ).
func unackedBytes(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

func setSendBuffer(fd, bytes int) {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
}

// localAddr returns the address that a TCP socket is bound to, the zero value
// for others.
func localAddr(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 && addr.Is6() {
			addr = addr.WithZone(strconv.FormatUint(uint64(sa.ZoneId), 10))
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// setReset makes the coming close send a RST (socket(7), SO_LINGER).
func setReset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

func shutdownWrite(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) }

// discardInput reads away what has arrived, at most about limit bytes, and
// returns how much that was and whether the peer has finished sending. It does
// not block.
func discardInput(fd int, scratch []byte, limit int) (n int, finished bool) {
	for n < limit {
		k, err := unix.Read(fd, scratch)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return n, false
		case err != nil || k <= 0:
			return n, true
		}
		n += k
	}
	return n, false
}

// ringBell writes one byte. That the kernel's buffer is full is as good: there
// is something to read.
func ringBell(fd int) error {
	_, err := writeSocket(fd, bell[:])
	return err
}

var bell = [1]byte{1}

// duplicate returns another descriptor of the same socket.
func duplicate(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

// acceptNow accepts one connection that is waiting, or fails.
func acceptNow(fd int) (int, error) {
	n, _, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return n, err
}

func closeDescriptor(fd int) { _ = unix.Close(fd) }

// openSpare returns a descriptor that stands for nothing.
func openSpare() (int, error) {
	return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// exhausted tells that accept failed for want of descriptors or kernel memory
// (accept(2)): waiting helps, and nothing else does.
func exhausted(err error) bool {
	for _, e := range [...]unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
