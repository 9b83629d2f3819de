package firehoseload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const (
	// readBytes is how much one read(2) takes.
	readBytes = 256 << 10
	maxEvents = 1024
	// sources is how many loopback addresses the consumers come from, beginning
	// with 127.0.0.10: one has about 28,000 ports.
	sources     = 8
	firstSource = 10
	// patience bounds the wait for an answer, and for deliveries.
	patience = 60 * time.Second
)

// Errors of a run.
var (
	errStream  = errors.New("firehoseload: a consumer's stream is wrong")
	errLost    = errors.New("firehoseload: a consumer lost its connection")
	errTimeout = errors.New("firehoseload: deliveries did not come")
	errAnswer  = errors.New("firehoseload: unexpected answer")
)

// consumer is one connection. Next is the number of the frame that comes next
// (B1).
type consumer struct {
	fd   int
	next int64
	part []byte // of a message whose rest did not come yet
}

// consumers are read on one epoll(7), level-triggered. Those that stall are
// connected and never read.
type consumers struct {
	epoll   int
	open    []consumer
	stalled []int
	sample  sample
	// check judges a message beyond its length and number; nil compares it with
	// the sample.
	check func(message []byte) error

	through int64 // all are to get the numbers up to it
	missing int64 // deliveries until they have
	buf     []byte
	events  [maxEvents]syscall.EpollEvent
}

// newConsumers returns consumers that wait for copies of a sample.
func newConsumers(s sample) (*consumers, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &consumers{epoll: epoll, sample: s, buf: make([]byte, readBytes)}, nil
}

// connect opens n connections more that are read, and whose first frame has a
// number.
func (c *consumers) connect(addr string, n int, first int64) error {
	for range n {
		fd, err := c.dial(addr, 0)
		if err != nil {
			return err
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(len(c.open))}
		c.open = append(c.open, consumer{fd: fd, next: first})
		if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	c.through = first - 1
	return nil
}

// stall opens n connections that are never read, with receive buffers as small
// as the kernel makes them.
func (c *consumers) stall(addr string, n int) error {
	for range n {
		fd, err := c.dial(addr, 1)
		if err != nil {
			return err
		}
		c.stalled = append(c.stalled, fd)
	}
	return nil
}

// upgrade is a consumer's request.
const upgrade = "GET /xrpc/com.atproto.sync.subscribeRepos HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n" +
	"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// dial opens one connection and waits for its 101.
func (c *consumers) dial(addr string, recvBytes int) (fd int, err error) {
	to, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return -1, err
	}
	if fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = syscall.Close(fd)
		}
	}()
	if recvBytes > 0 {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, recvBytes)
	}
	limit := syscall.NsecToTimeval(int64(patience))
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)
	source := firstSource + (len(c.open)+len(c.stalled))%sources
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(source)}}); err != nil {
		return -1, os.NewSyscallError("bind", err)
	}
	if err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}); err != nil {
		return -1, os.NewSyscallError("connect", err)
	}
	if _, err = syscall.Write(fd, []byte(upgrade)); err != nil {
		return -1, os.NewSyscallError("write", err)
	}
	head, err := readHead(fd)
	if err != nil || !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
		return -1, fmt.Errorf("%w: %.200q %v", errAnswer, head, err)
	}
	return fd, os.NewSyscallError("fcntl", syscall.SetNonblock(fd, true))
}

// readHead reads the head of an answer from a socket that blocks, and nothing
// behind it.
func readHead(fd int) ([]byte, error) {
	end := []byte("\r\n\r\n")
	var head [4 << 10]byte
	for n := 0; n < len(head); {
		more, _, err := syscall.Recvfrom(fd, head[n:], syscall.MSG_PEEK)
		switch {
		case err == syscall.EINTR: // a socket with a time limit goes on for none (signal(7))
			continue
		case err != nil:
			return head[:n], os.NewSyscallError("recvfrom", err)
		case more == 0:
			return head[:n], io.ErrUnexpectedEOF
		}
		i := bytes.Index(head[:n+more], end)
		if i >= 0 {
			more = i + len(end) - n
		}
		if more, err = syscall.Read(fd, head[n:n+more]); err != nil { // it is there: no wait
			return head[:n], os.NewSyscallError("read", err)
		}
		if n += more; i >= 0 {
			return head[:n], nil
		}
	}
	return head[:], bufio.ErrBufferFull
}

// expect makes n frames more due at each consumer.
func (c *consumers) expect(n int) {
	c.through += int64(n)
	c.missing += int64(n) * int64(len(c.open))
}

// await reads until all have what is due.
func (c *consumers) await(ctx context.Context) error {
	for end := time.Now().Add(patience); c.missing > 0; {
		n, err := syscall.EpollWait(c.epoll, c.events[:], 100)
		if err != nil && err != syscall.EINTR {
			return os.NewSyscallError("epoll_wait", err)
		}
		for i := range max(n, 0) {
			if err := c.read(&c.open[c.events[i].Fd]); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if n <= 0 && time.Now().After(end) {
			return fmt.Errorf("%w: %d are missing through number %d", errTimeout, c.missing, c.through)
		}
	}
	return nil
}

// read reads a consumer's socket once.
func (c *consumers) read(r *consumer) error {
	from := copy(c.buf, r.part)
	n, errno := rawRead(r.fd, c.buf[from:])
	switch {
	case errno == syscall.EAGAIN:
		return nil
	case errno != 0:
		return fmt.Errorf("%w at number %d: %w", errLost, r.next, errno)
	case n == 0:
		return fmt.Errorf("%w at number %d", errLost, r.next)
	}
	b := c.buf[:from+n]
	for size := len(c.sample.message); len(b) >= size; b = b[size:] {
		if err := c.take(r, b[:size]); err != nil {
			return err
		}
	}
	r.part = append(r.part[:0], b...)
	return nil
}

// take checks one message (B1).
func (c *consumers) take(r *consumer, message []byte) error {
	s := &c.sample
	if !bytes.Equal(message[:messageHeader], s.message[:messageHeader]) {
		return fmt.Errorf("%w: a message that begins with %x in place of number %d", errStream, message[:64], r.next)
	}
	if got := int64(binary.BigEndian.Uint64(message[s.at:])); got != r.next || r.next > c.through {
		return fmt.Errorf("%w: number %d, not %d, of %d that were published", errStream, got, r.next, c.through)
	}
	if c.check != nil {
		if err := c.check(message); err != nil {
			return fmt.Errorf("%w: number %d: %w", errStream, r.next, err)
		}
	} else if !bytes.Equal(message[:s.at], s.message[:s.at]) || !bytes.Equal(message[s.at+8:], s.message[s.at+8:]) {
		return fmt.Errorf("%w: number %d has other bytes", errStream, r.next)
	}
	r.next++
	c.missing--
	return nil
}

// rawRead is read(2) without a word to the scheduler: the sockets do not block.
func rawRead(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

// close resets all connections, which leaves no TIME_WAIT behind.
func (c *consumers) close() {
	for i := range c.open {
		closeReset(c.open[i].fd)
	}
	for _, fd := range c.stalled {
		closeReset(fd)
	}
	c.open, c.stalled = nil, nil
	_ = syscall.Close(c.epoll)
}

func closeReset(fd int) {
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	_ = syscall.Close(fd)
}
