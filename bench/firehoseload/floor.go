package firehoseload

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	// floorPublish is the first line of the connection that says what to write;
	// all others are consumers.
	floorPublish = "PUBLISH\r\n"
	maxBlobBytes = 1 << 20
	inboxBlobs   = 64
	listening    = "listening on "
)

// Floor is the floor: a few threads that write the same bytes to many sockets
// and do nothing else (B2). It names its address in a line on out and serves
// until the context ends. A blob that a socket does not take at once is waited
// for, so consumers must read.
func Floor(ctx context.Context, threads int, out io.Writer) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	all := make([]*floorThread, max(threads, 1))
	var ended sync.WaitGroup
	for i := range all {
		t := &floorThread{inbox: make(chan []byte, inboxBlobs)}
		all[i] = t
		ended.Go(t.run)
	}
	// The publisher's goroutine posts to the threads, so it ends before them.
	defer ended.Wait()
	defer func() {
		for _, t := range all {
			close(t.inbox)
		}
	}()
	var publishers sync.WaitGroup
	defer publishers.Wait()
	if _, err := fmt.Fprintf(out, "%s%s\n", listening, listener.Addr()); err != nil {
		return err
	}
	for next := 0; ; next++ {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		in := bufio.NewReader(conn)
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			_ = conn.Close()
		case line == floorPublish:
			publishers.Go(func() { servePublisher(ctx, conn, in, all) })
		default:
			if err := all[next%len(all)].join(conn, in); err != nil {
				return err
			}
		}
	}
}

// servePublisher hands over the blobs of a connection to its end: a length of
// four bytes, and so many bytes.
func servePublisher(ctx context.Context, conn net.Conn, in *bufio.Reader, all []*floorThread) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(head[:])
		if size > maxBlobBytes {
			return
		}
		blob := make([]byte, size)
		if _, err := io.ReadFull(in, blob); err != nil {
			return
		}
		for _, t := range all {
			t.inbox <- blob
		}
	}
}

// floorThread is one thread of the system with its share of the consumers.
type floorThread struct {
	inbox chan []byte
	mu    sync.Mutex
	fds   []int // guarded by mu
}

// join takes a consumer: its request is read and answered, and its descriptor
// taken out of the runtime's poller.
func (t *floorThread) join(conn net.Conn, in *bufio.Reader) error {
	defer func() { _ = conn.Close() }() // a duplicate stays
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil // it is gone again
		}
		if line == "\r\n" {
			break
		}
	}
	fd, err := duplicate(conn)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.fds = append(t.fds, fd)
	t.mu.Unlock()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n") // a write to it would fail as well
	return nil
}

// duplicate returns a descriptor of a connection's socket, which does not block.
func duplicate(conn net.Conn) (fd int, err error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return -1, errors.New("firehoseload: not a TCP connection")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return -1, err
	}
	err = errors.Join(raw.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) }), err)
	return fd, os.NewSyscallError("dup", err)
}

// run writes until the inbox is closed, and then closes the consumers.
func (t *floorThread) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for blob := range t.inbox {
		t.mu.Lock()
		kept := t.fds[:0]
		for _, fd := range t.fds {
			if writeAll(fd, blob) {
				kept = append(kept, fd)
			} else {
				_ = syscall.Close(fd)
			}
		}
		t.fds = kept
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, fd := range t.fds {
		_ = syscall.Close(fd)
	}
}

// writeAll writes all of b, in one write(2) if the socket has room.
func writeAll(fd int, b []byte) bool {
	for len(b) > 0 {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			b = b[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			if !awaitRoom(fd) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// awaitRoom waits until a socket takes bytes, at most for patience (ppoll(2)).
func awaitRoom(fd int) bool {
	const pollOut = 4
	p := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: pollOut}
	limit := syscall.NsecToTimespec(int64(patience))
	for {
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0 && n == 1
		}
	}
}
