package netloop

import (
	"errors"

	"golang.org/x/sys/unix"
)

// streamSendBuffer is what StreamBuffers asks for, in bytes; the kernel doubles
// it for its bookkeeping (socket(7), SO_SNDBUF). Measured: with autotuned
// buffers EPOLLOUT came 97 s late to a reader of 20 KB/s.
const streamSendBuffer = 256 << 10

// writeSocket hands p to the kernel. A full buffer is (0, nil).
func writeSocket(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Write(fd, p)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
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

func setSendBuffer(fd int) {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, streamSendBuffer)
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
