package floor

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/gobwas/ws"
	"golang.org/x/sys/unix"

	"github.com/sluice-relay/sluice/bench/rivals/intake"
)

// Config says which floor it is.
type Config struct {
	Loops  int  // threads, at least 1
	Joined bool // all events that wait go in one write
	Uring  bool // io_uring SENDs in place of write(2)
}

// Floor is one floor server. Any goroutine.
type Floor struct {
	// immutable after construction
	mux     *http.ServeMux
	threads []*thread

	// guarded by mu
	mu         sync.RWMutex // read: publishing; write: joining (F1)
	next       int          // thread of the next consumer
	publishers map[net.Conn]struct{}
	closed     bool
}

// New starts the threads. It fails with [ErrUringUnavailable] if a ring is
// asked for and the system does not offer it.
func New(c Config) (*Floor, error) {
	if c.Loops < 1 {
		return nil, fmt.Errorf("floor: %d loops, at least 1 is needed", c.Loops)
	}
	f := &Floor{mux: http.NewServeMux(), publishers: make(map[net.Conn]struct{})}
	for range c.Loops {
		t, err := startThread(c)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.threads = append(f.threads, t)
	}
	f.mux.HandleFunc("GET /ws", f.consume)
	f.mux.HandleFunc("GET /pub", f.publish)
	return f, nil
}

// ServeHTTP answers /ws and /pub, and 404 to all else.
func (f *Floor) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// Close ends the threads, which close their consumers, and all publishers.
func (f *Floor) Close() {
	f.mu.Lock()
	again := f.closed
	f.closed = true
	for c := range f.publishers {
		_ = c.Close()
	}
	f.mu.Unlock()
	if again {
		return
	}
	for _, t := range f.threads {
		t.stop()
	}
}

// consume upgrades a consumer and gives its descriptor to a thread. The lock
// makes an event that is published after the answer wait for the joining (F1).
func (f *Floor) consume(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conn, _, _, err := ws.UpgradeHTTP(r, w)
	if conn != nil {
		defer func() { _ = conn.Close() }()
	}
	if err != nil || f.closed {
		return
	}
	fd, err := duplicate(conn)
	if err != nil {
		log.Printf("floor: %v", err)
		return
	}
	f.threads[f.next].join(&consumer{fd: fd, topic: r.URL.Query().Get("topic")})
	f.next = (f.next + 1) % len(f.threads)
}

// duplicate takes a connection's descriptor out of the runtime's poller. Its
// duplicate stays open and non-blocking when the connection is closed.
func duplicate(conn net.Conn) (fd int, err error) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("%T has no descriptor", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	if ctlErr := raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	}); ctlErr != nil {
		return -1, ctlErr
	}
	return fd, err
}

// publish reads a publisher's connection to its end.
func (f *Floor) publish(w http.ResponseWriter, r *http.Request) {
	conn, rw, _, err := ws.UpgradeHTTP(r, w)
	if conn != nil {
		defer func() { _ = conn.Close() }()
	}
	if err != nil || !f.track(conn, true) {
		return
	}
	defer f.track(conn, false)
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
	if err := intake.ServePublisher(conn, buffered, r.URL.Query().Has("topics"), f); err != nil {
		log.Printf("floor: %v", err)
	}
}

// track notes a publisher, so that Close ends it, or forgets it.
func (f *Floor) track(conn net.Conn, open bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if open {
		f.publishers[conn] = struct{}{}
	} else {
		delete(f.publishers, conn)
	}
	return !f.closed
}

// Publish builds each event's frame once and hands it to all threads. It waits
// while a thread's inbox is full.
func (f *Floor) Publish(batch []intake.Event) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return
	}
	for i := range batch {
		e := event{frame: intake.TextFrame(batch[i].Payload), topic: batch[i].Topic}
		for _, t := range f.threads {
			t.post(e)
		}
	}
	for _, t := range f.threads {
		t.wake()
	}
}
