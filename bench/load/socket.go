//go:build linux

package load

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxEvents = 1024

	// sources is how many loopback addresses consumers come from, beginning
	// with 127.0.0.10. One has about 28,000 ports, some of them in TIME_WAIT.
	sources     = 8
	firstSource = 10

	// spareDescriptors are left for the runtime, files and probers.
	spareDescriptors = 64

	// edges are the events that a connection is watched for (epoll(7)).
	edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	// ended are the events after which a read may find the end behind the data.
	ended = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
)

var start = time.Now()

// now returns nanoseconds of the monotonic clock since the process began.
func now() int64 { return int64(time.Since(start)) }

// rawRead is read(2) without telling the scheduler: the sockets never block.
func rawRead(fd int, b []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		if e != syscall.EINTR {
			return int(n), e
		}
	}
}

// rawWrite sends on a socket that never blocks, without SIGPIPE.
func rawWrite(fd int, b []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_NOSIGNAL, 0, 0)
		if e != syscall.EINTR {
			return int(n), e
		}
	}
}

// wait returns the events of an epoll: first without waiting and without
// telling the scheduler; then, if there are none, in at most d. It may return
// none before that.
func wait(epoll int, events []unix.EpollEvent, d time.Duration) ([]unix.EpollEvent, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_WAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if e == 0 && n == 0 && d > 0 {
		ts := unix.NsecToTimespec(int64(d))
		n, _, e = syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
			uintptr(unsafe.Pointer(&ts)), 0, 0)
		if e == syscall.ENOSYS { // before Linux 5.11
			ms := (d + time.Millisecond - 1) / time.Millisecond
			n, _, e = syscall.Syscall6(unix.SYS_EPOLL_WAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
				uintptr(ms), 0, 0)
		}
	}
	switch e {
	case 0:
		return events[:n], nil
	case syscall.EINTR:
		return nil, nil
	}
	return nil, os.NewSyscallError("epoll_wait", e)
}

// dial begins to connect to addr and watches the socket under a key. source
// chooses the local address if addr is a loopback one.
func dial(epoll int, addr *unix.SockaddrInet4, source, recvBytes int, key int32) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := connect(fd, addr, source, recvBytes); err != nil {
		closeReset(fd)
		return -1, err
	}
	// Added after connect, for a new socket counts as hung up (EPOLLHUP).
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: edges, Fd: key}); err != nil {
		closeReset(fd)
		return -1, os.NewSyscallError("epoll_ctl", err)
	}
	return fd, nil
}

// connect sets a socket up and begins to connect.
func connect(fd int, addr *unix.SockaddrInet4, source, recvBytes int) error {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if recvBytes > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, recvBytes); err != nil {
			return os.NewSyscallError("setsockopt SO_RCVBUF", err)
		}
	}
	if addr.Addr[0] == 127 {
		// The port is chosen by connect, so that it has to be unique for the
		// whole connection only (ip(7)).
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
			return os.NewSyscallError("setsockopt IP_BIND_ADDRESS_NO_PORT", err)
		}
		local := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(firstSource + source%sources)}}
		if err := unix.Bind(fd, &local); err != nil {
			return os.NewSyscallError("bind", err)
		}
	}
	if err := unix.Connect(fd, addr); err != nil && err != unix.EINPROGRESS {
		return os.NewSyscallError("connect", err)
	}
	return nil
}

// connected returns the error of a connection that was under way.
func connected(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return os.NewSyscallError("connect", err)
}

// closeReset closes a socket with RST, which leaves no TIME_WAIT behind.
func closeReset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	_ = unix.Close(fd)
}

// raiseDescriptors raises the soft limit of descriptors to the hard one.
func raiseDescriptors() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}

// checkDescriptors tells whether n sockets more can be opened.
func checkDescriptors(n int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	open := 0
	if names, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(names)
	}
	if need := uint64(n + open + spareDescriptors); need > limit.Cur {
		return fmt.Errorf("%w: %d consumers need %d, the limit is %d", ErrDescriptors, n, need, limit.Cur)
	}
	return nil
}
