package netloop

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// refusal is the answer to a connection over the cap: a whole response, since
// nothing was read (RFC 9110, 15.6.4 and 10.2.3).
const refusal = "HTTP/1.1 503 Service Unavailable\r\n" +
	"Retry-After: 1\r\n" +
	"Connection: close\r\n" +
	"Content-Length: 0\r\n\r\n"

const (
	// lingerTime is how long a socket that the peer still sends to is kept
	// after our FIN. Closing it at once would send a RST, which may overtake
	// what the peer has not read yet (RFC 9112, 9.6).
	lingerTime = time.Second
	// lingerBytes bounds the input discarded meanwhile.
	lingerBytes = 1 << 20
	// arrivedBytes bounds the input discarded without waiting.
	arrivedBytes = 256 << 10
	// refuseBurst bounds the connections refused over the spare descriptor
	// before the next wait.
	refuseBurst = 64
)

// answerRefusal writes the refusal and a FIN. It does not block: the send
// buffer of a new socket is empty.
func answerRefusal(fd int) {
	_, _ = writeSocket(fd, []byte(refusal))
	shutdownWrite(fd)
}

// lingerers are sockets whose connection is over but whose peer still sends.
// At most cap(slots) linger, each for lingerTime and lingerBytes at most; more
// are closed at once.
type lingerers struct {
	slots chan struct{}
	wait  sync.WaitGroup

	// Guarded by mu.
	mu      sync.Mutex
	stopped bool
	conns   map[net.Conn]struct{}
}

func newLingerers(slots int) *lingerers {
	return &lingerers{slots: make(chan struct{}, slots), conns: map[net.Conn]struct{}{}}
}

// refuse answers nc with 503 and closes it such that the peer can read that.
// It takes nc over and does not block.
func (l *lingerers) refuse(nc net.Conn) {
	finished := true
	if sc, ok := nc.(syscall.Conn); ok {
		if rc, err := sc.SyscallConn(); err == nil {
			_ = rc.Control(func(fd uintptr) {
				answerRefusal(int(fd))
				_, finished = discardInput(int(fd), make([]byte, 4<<10), arrivedBytes)
			})
		}
	}
	if finished || !l.take() {
		_ = nc.Close()
		return
	}
	l.linger(nc)
}

// adopt lets the socket fd linger, which it takes over. It does not block.
func (l *lingerers) adopt(fd int) {
	f := os.NewFile(uintptr(fd), "lingering")
	if !l.take() {
		_ = f.Close()
		return
	}
	nc, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		<-l.slots
		return
	}
	l.linger(nc)
}

func (l *lingerers) take() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// linger discards what nc receives until its end, then gives the slot back.
func (l *lingerers) linger(nc net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		_ = nc.Close()
		<-l.slots
		return
	}
	l.conns[nc] = struct{}{}
	_ = nc.SetReadDeadline(time.Now().Add(lingerTime))
	l.wait.Go(func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(nc, lingerBytes))
		_ = nc.Close()
		l.mu.Lock()
		delete(l.conns, nc)
		l.mu.Unlock()
		<-l.slots
	})
}

// stop closes what lingers and lets nothing linger any more.
func (l *lingerers) stop() {
	l.mu.Lock()
	l.stopped = true
	for nc := range l.conns {
		_ = nc.Close()
	}
	l.mu.Unlock()
	l.wait.Wait()
}

// settle prepares an orderly close: input that nobody will read is discarded,
// since closing with unread input sends a RST and drops what the kernel has yet
// to send (RFC 1122, 4.2.2.13). When the peer is still sending, the socket
// lingers. Loop only, before the reactor closes the descriptor.
func (s *Server) settle(c *conn) {
	n, finished := discardInput(c.fd, c.r.discardBuffer(), arrivedBytes)
	if finished || n == 0 {
		return
	}
	fd, err := duplicate(c.fd)
	if err != nil {
		return
	}
	shutdownWrite(fd)
	s.lingers.adopt(fd)
}

// spare is a descriptor kept to be given up: when there are no others, one
// connection at a time can be accepted and refused with it.
type spare struct {
	// Guarded by mu.
	mu sync.Mutex
	fd int // -1 when there is none
}

func (p *spare) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fillLocked()
}

func (p *spare) fillLocked() {
	if p.fd < 0 {
		if fd, err := openSpare(); err == nil {
			p.fd = fd
		}
	}
}

func (p *spare) empty() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.emptyLocked()
}

func (p *spare) emptyLocked() {
	if p.fd >= 0 {
		closeDescriptor(p.fd)
		p.fd = -1
	}
}

// refuseWaiting accepts and refuses connections that wait in ln and returns how
// many.
func (p *spare) refuseWaiting(ln net.Listener) (n int64) {
	sc, ok := ln.(syscall.Conn)
	if !ok {
		return 0
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.emptyLocked()
	scratch := make([]byte, 4<<10)
	_ = rc.Control(func(lfd uintptr) {
		for n < refuseBurst {
			fd, err := acceptNow(int(lfd))
			if err != nil {
				return
			}
			answerRefusal(fd)
			discardInput(fd, scratch, arrivedBytes)
			closeDescriptor(fd)
			n++
		}
	})
	p.fillLocked()
	return n
}
