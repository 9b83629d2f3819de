package netloop

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher tells when sockets take bytes again: its own epoll set, since the
// reactor has no writable callback, with EPOLLOUT|EPOLLONESHOT entries that
// each connection arms when it owes bytes (epoll(7)). Level-triggered with
// one-shot means one event for each arming, and none is lost between a short
// write and the arming.
//
// An event carries the descriptor and, in its pad field, the connection's
// generation: one that was under way when its descriptor was closed and reused
// is dropped.
type watcher struct {
	// Immutable after construction.
	epoll int
	stopd int // eventfd that ends run
	done  chan struct{}
	fatal func(error)

	// Guarded by mu. Only connections that have owed bytes are here.
	mu    sync.Mutex
	conns map[int32]*conn
}

func newWatcher(fatal func(error)) (*watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("netloop: writability watcher: %w", os.NewSyscallError("epoll_create1", err))
	}
	stopd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, stopd,
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(stopd)})
		if err != nil {
			_ = unix.Close(stopd)
		}
	}
	if err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("netloop: writability watcher: %w", err)
	}
	return &watcher{
		epoll: epoll, stopd: stopd, fatal: fatal,
		done: make(chan struct{}), conns: map[int32]*conn{},
	}, nil
}

// arm asks for one event. Loop only.
func (w *watcher) arm(c *conn) error {
	ev := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(c.fd), Pad: c.gen}
	if c.watched {
		return os.NewSyscallError("epoll_ctl mod", unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, c.fd, &ev))
	}
	c.watched = true
	w.mu.Lock()
	w.conns[int32(c.fd)] = c
	w.mu.Unlock()
	return os.NewSyscallError("epoll_ctl add", unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, c.fd, &ev))
}

// remove forgets c. Loop only, before its descriptor is closed (N2): another
// descriptor of the same socket would keep the entry alive.
func (w *watcher) remove(c *conn) {
	if !c.watched {
		return
	}
	c.watched = false
	w.mu.Lock()
	delete(w.conns, int32(c.fd))
	w.mu.Unlock()
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
}

// find returns the connection that an event is for, nil for a stale one.
func (w *watcher) find(fd, gen int32) *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.conns[fd]; c != nil && c.gen == gen {
		return c
	}
	return nil
}

// run passes events to the loops until stop. It blocks without a timeout.
func (w *watcher) run() {
	defer close(w.done)
	var events [256]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epoll, events[:], -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			w.fatal(fmt.Errorf("netloop: writability watcher: %w", os.NewSyscallError("epoll_wait", err)))
			return
		}
		for _, ev := range events[:n] {
			if int(ev.Fd) == w.stopd {
				return
			}
			if c := w.find(ev.Fd, ev.Pad); c != nil {
				c.r.wake(c)
			}
		}
	}
}

// stop ends run, which must have been started, and closes the set.
func (w *watcher) stop() {
	_, _ = unix.Write(w.stopd, []byte{1, 1, 1, 1, 1, 1, 1, 1})
	<-w.done
	w.close()
}

func (w *watcher) close() {
	_ = unix.Close(w.epoll)
	_ = unix.Close(w.stopd)
}
