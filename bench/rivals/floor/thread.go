package floor

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// inboxEvents is how many events may wait for a thread; then publishers
	// wait.
	inboxEvents = 4096
	// maxJoinedBytes is how much a joined write takes at most.
	maxJoinedBytes = 128 << 10
	// readyEvents is how many writable consumers one epoll_wait(2) returns.
	readyEvents = 512
)

// event is one event on its way to the consumers. Shared, immutable.
type event struct {
	frame []byte
	topic string
}

// thread is one loop of writes. Fields without a heading are owned by it.
type thread struct {
	// immutable after construction
	joined bool
	write  writer // how a group is written to
	poll   int    // epoll set of all consumers, edge-triggered, and bell
	bell   int    // eventfd that ends a sleep
	inbox  chan event
	ended  chan struct{}

	// atomic
	asleep atomic.Bool
	ending atomic.Bool

	// guarded by mu
	mu      sync.Mutex
	joining []*consumer

	byFD   map[int]*consumer
	groups map[string][]*consumer // by topic; "" gets all events
	behind int                    // consumers with a backlog
	broken []*consumer            // to be dropped after the pass
	taken  []event
	joint  joint
	ready  [readyEvents]unix.EpollEvent
}

// startThread starts a thread, with its ring if one is asked for.
func startThread(c Config) (*thread, error) {
	t := &thread{
		joined: c.Joined,
		inbox:  make(chan event, inboxEvents),
		ended:  make(chan struct{}),
		byFD:   make(map[int]*consumer),
		groups: make(map[string][]*consumer),
	}
	started := make(chan error)
	go t.main(c.Uring, started)
	return t, <-started
}

// main is the thread. It stays locked, so that the system's thread, which the
// ring belongs to, ends with it.
func (t *thread) main(uring bool, started chan<- error) {
	runtime.LockOSThread()
	defer close(t.ended)
	err := t.open(uring)
	started <- err
	if err == nil {
		t.run()
	}
	t.shut()
}

// open makes the epoll set, the bell and the writer.
func (t *thread) open(uring bool) (err error) {
	t.poll, t.bell = -1, -1
	t.write = plainWriter{t}
	if t.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if t.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if err = t.watch(t.bell); err != nil || !uring {
		return err
	}
	r, err := newRing()
	if err != nil {
		return err
	}
	t.write = &ringWriter{thread: t, ring: r}
	return nil
}

// watch adds a descriptor to the epoll set: an edge when it becomes readable
// (the bell), writable after a short write, or broken.
func (t *thread) watch(fd int) error {
	in := uint32(unix.EPOLLOUT | unix.EPOLLRDHUP)
	if fd == t.bell {
		in = unix.EPOLLIN
	}
	return unix.EpollCtl(t.poll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: in | unix.EPOLLET, Fd: int32(fd)})
}

// post puts an event in the inbox. Any goroutine; waits while it is full.
func (t *thread) post(e event) {
	select {
	case t.inbox <- e:
	default:
		t.wake()
		select {
		case t.inbox <- e:
		case <-t.ended:
		}
	}
}

// wake ends the thread's sleep. Any goroutine.
func (t *thread) wake() {
	if t.asleep.Load() && t.asleep.Swap(false) {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(t.bell, one[:]) // fails only when it rings already
	}
}

// join hands a consumer over. Any goroutine.
func (t *thread) join(c *consumer) {
	t.mu.Lock()
	t.joining = append(t.joining, c)
	t.mu.Unlock()
	t.wake()
}

// stop ends the thread and waits for it. Any goroutine.
func (t *thread) stop() {
	t.ending.Store(true)
	t.asleep.Store(true) // so that wake rings in any case
	t.wake()
	<-t.ended
}

// run takes turns: events first and then consumers, since a consumer is handed
// over before the events that it must get (F1).
func (t *thread) run() {
	for !t.ending.Load() {
		t.take()
		t.admit()
		if t.joined {
			t.passJoined()
		} else {
			t.passSingle()
		}
		t.sweep()
		switch {
		case len(t.taken) == 0:
			t.sleep()
		case t.behind > 0:
			t.look(0)
		}
	}
}

// take takes the waiting events: up to maxJoinedBytes, or one if each is
// written alone.
func (t *thread) take() {
	clear(t.taken)
	t.taken = t.taken[:0]
	for size := 0; size < maxJoinedBytes; {
		select {
		case e := <-t.inbox:
			if t.taken = append(t.taken, e); !t.joined {
				return
			}
			size += len(e.frame)
		default:
			return
		}
	}
}

// sleep waits for events, consumers or a writable socket.
func (t *thread) sleep() {
	t.asleep.Store(true)
	if len(t.inbox) > 0 || t.ending.Load() || t.hasJoining() {
		t.asleep.Store(false)
		return
	}
	t.look(-1)
	t.asleep.Store(false)
}

func (t *thread) hasJoining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.joining) > 0
}

// admit takes the new consumers in.
func (t *thread) admit() {
	t.mu.Lock()
	joining := t.joining
	t.joining = nil
	t.mu.Unlock()
	for _, c := range joining {
		if err := t.watch(c.fd); err != nil {
			_ = unix.Close(c.fd)
			continue
		}
		t.byFD[c.fd] = c
		c.at = len(t.groups[c.topic])
		t.groups[c.topic] = append(t.groups[c.topic], c)
	}
}

// passSingle writes each taken event alone.
func (t *thread) passSingle() {
	for _, e := range t.taken {
		t.write.all(t.groups[""], e.frame)
		if e.topic != "" {
			t.write.all(t.groups[e.topic], e.frame)
		}
	}
}

// passJoined writes the taken events of each group together.
func (t *thread) passJoined() {
	if len(t.taken) == 0 {
		return
	}
	if g := t.groups[""]; len(g) > 0 {
		t.write.all(g, t.joint.all(t.taken))
	}
	for topic, frames := range t.joint.byTopic(t.taken, t.groups) {
		t.write.all(t.groups[topic], frames)
	}
}

// shut closes all that the thread owns.
func (t *thread) shut() {
	t.admit()
	for _, c := range t.byFD {
		_ = unix.Close(c.fd)
	}
	if w, ok := t.write.(*ringWriter); ok {
		w.ring.close()
	}
	for _, fd := range []int{t.poll, t.bell} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
