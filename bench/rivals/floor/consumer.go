package floor

import (
	"log"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxBacklogBytes is how far a consumer may fall behind.
const maxBacklogBytes = 64 << 20

// consumer is one consumer's connection. Owned by its thread.
type consumer struct {
	fd     int
	topic  string
	at     int      // its place in its group
	owed   [][]byte // backlog: not yet written, shared, immutable
	size   int      // bytes of owed
	broken bool
}

// writer writes the same frames to a group of consumers. frames is shared and
// immutable, and may be kept in backlogs.
type writer interface {
	all(group []*consumer, frames []byte)
}

// plainWriter writes by write(2).
type plainWriter struct{ thread *thread }

func (w plainWriter) all(group []*consumer, frames []byte) {
	for _, c := range group {
		if c.size > 0 {
			w.thread.owe(c, frames)
			continue
		}
		if n, errno := write(c.fd, frames); n != len(frames) {
			w.thread.short(c, frames, n, errno)
		}
	}
}

// write is write(2) without a word to the scheduler: the descriptor does not
// block.
func write(fd int, b []byte) (n int, errno syscall.Errno) {
	r, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// short takes the outcome of a write that took n bytes of frames, not all.
func (t *thread) short(c *consumer, frames []byte, n int, errno syscall.Errno) {
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR:
		t.owe(c, frames[n:])
		if errno == unix.EINTR {
			t.finish(c)
		}
	default:
		t.breakOff(c)
	}
}

// owe puts frames at the end of a backlog.
func (t *thread) owe(c *consumer, frames []byte) {
	if c.broken {
		return
	}
	if c.size == 0 {
		t.behind++
	}
	c.owed = append(c.owed, frames)
	if c.size += len(frames); c.size > maxBacklogBytes {
		log.Printf("floor: disconnect a consumer that is %d bytes behind", c.size)
		t.breakOff(c)
	}
}

// finish writes a backlog until it is empty or the socket is full. The socket
// must be found full before the next edge is waited for.
func (t *thread) finish(c *consumer) {
	for len(c.owed) > 0 && !c.broken {
		n, errno := write(c.fd, c.owed[0])
		c.size -= n
		if n == len(c.owed[0]) {
			c.owed[0] = nil
			c.owed = c.owed[1:]
			continue
		}
		c.owed[0] = c.owed[0][n:]
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN:
			return
		default:
			t.breakOff(c)
		}
	}
	if len(c.owed) == 0 && !c.broken {
		c.owed = nil
		t.behind--
	}
}

// breakOff marks a consumer to be dropped after the pass.
func (t *thread) breakOff(c *consumer) {
	if c.broken {
		return
	}
	c.broken = true
	if c.size > 0 {
		t.behind--
	}
	c.owed, c.size = nil, 0
	t.broken = append(t.broken, c)
}

// sweep drops the broken consumers. Closing takes them out of the epoll set.
func (t *thread) sweep() {
	for i, c := range t.broken {
		t.broken[i] = nil
		g := t.groups[c.topic]
		last := g[len(g)-1]
		g[c.at], last.at = last, c.at
		g[len(g)-1] = nil
		if t.groups[c.topic] = g[:len(g)-1]; len(g) == 1 {
			delete(t.groups, c.topic)
		}
		delete(t.byFD, c.fd)
		_ = unix.Close(c.fd)
	}
	t.broken = t.broken[:0]
}

// look waits up to the given milliseconds for sockets that are writable again
// or broken, and goes on with their backlogs.
func (t *thread) look(milliseconds int) {
	n, err := unix.EpollWait(t.poll, t.ready[:], milliseconds)
	if err != nil {
		return
	}
	for i := range t.ready[:n] {
		e := &t.ready[i]
		c := t.byFD[int(e.Fd)]
		switch {
		case c == nil: // the bell: its count only grows, each ring is an edge
		case e.Events&(unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLRDHUP) != 0:
			t.breakOff(c)
		case c.size > 0:
			t.finish(c)
		}
	}
	t.sweep()
}
