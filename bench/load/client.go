//go:build linux

package load

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Errors that callers may branch on.
var (
	// ErrAddress is returned for an address that is not HOST:PORT over IPv4.
	ErrAddress = errors.New("load: not an IPv4 address")
	// ErrDescriptors is returned if the process may not open that many sockets.
	ErrDescriptors = errors.New("load: too few descriptors (ulimit -n)")
	// ErrRefused is returned if the server did not subscribe a consumer.
	ErrRefused = errors.New("load: handshake refused")
	// ErrTimeout is returned if the time given was over first.
	ErrTimeout = errors.New("load: timeout")
	// ErrLoad is returned for a load that contradicts itself.
	ErrLoad = errors.New("load: bad load")
	// ErrPublisher is returned if the publisher's connection broke.
	ErrPublisher = errors.New("load: publisher lost")
)

// Class is a set of consumers that ask for the same. Its bytes are shared,
// immutable, until the client is closed.
type Class struct {
	Name    string // for error texts
	Count   int    // consumers
	Kind    Kind
	Request []byte // the complete HTTP request: an upgrade or a GET

	// After is sent in one write behind the answer's head, for example masked
	// frames that subscribe. May be empty.
	After []byte

	// Ready is a text that must appear behind the answer's head before a
	// consumer counts as subscribed. "" means that the head is enough.
	Ready string

	// RecvBytes is SO_RCVBUF, set before connect; 0 is the kernel's default.
	// The kernel doubles it (socket(7)).
	RecvBytes int

	// Stalled consumers subscribe, are never read again and are owed nothing.
	Stalled bool

	// Select tells which events the consumers get; nil means all. It is called
	// once per event when a run begins. With many classes use Load.Owners.
	Select func(event int) bool

	// First is the consumers' resume position: what is before it is not owed.
	First int
}

// Options say where and how a client connects.
type Options struct {
	Addr string // HOST:PORT of the server, IPv4

	// Timeout bounds Connect and the publisher's handshake; 0 is 30 s.
	Timeout time.Duration

	// BatchDial is how many consumers may be connecting at a time; 0 is 256.
	BatchDial int

	// AllAtOnce starts all connections at once: a herd.
	AllAtOnce bool
}

const (
	defaultTimeout   = 30 * time.Second
	defaultBatchDial = 256

	// readBytes is how much one read(2) takes: more than a socket holds as a
	// rule, and little enough for a second-level cache.
	readBytes = 256 << 10

	// maxPerRead is how many of the smallest events are in a full read.
	maxPerRead = readBytes/(markerBytes+2) + 1
)

// class is a Class with what was learned and is owed.
type class struct {
	Class
	shape shape
	owed  owed
}

// consumer is one connection. About 110 bytes.
type consumer struct {
	fd     int32
	class  int32
	next   int32 // index in the class's owed list (L1)
	state  state
	parser parser
	hello  *hello // until it is open and its first bytes are accounted for
}

// state is how far a connection has come.
type state uint8

const (
	stateNew     state = iota // not dialled yet
	stateDialing              // connect(2) is under way
	stateHead                 // waits for the answer's head
	stateReady                // waits for the text that says it is subscribed
	stateOpen                 // gets events
	stateStalled              // subscribed and never read again
	stateLost                 // closed
)

// Client holds consumers and a publisher on one epoll. See the package comment
// for the thread rule.
type Client struct {
	// Immutable after construction.
	options Options
	addr    unix.SockaddrInet4
	epoll   int

	// Owned by the goroutine that calls.
	classes   []class
	consumers []consumer
	dialled   int // consumers whose connect was called
	greeting  int // consumers between connect and open
	opened    int // consumers that became open or stalled
	publisher *publisher
	run       *run // while Run or Herd are under way

	buf       []byte
	found     found
	events    []unix.EpollEvent
	again     []unix.EpollEvent // consumers to be read again (L4)
	spare     []unix.EpollEvent // memory for again
	firstDial int64             // when Connect or Herd began
	stats     ConnectStats
	err       error // ends Connect or the run
}

// New makes a client without connections. It raises the process's soft limit
// of descriptors to the hard one.
func New(o Options) (*Client, error) {
	addr, err := resolve(o.Addr)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.BatchDial <= 0 {
		o.BatchDial = defaultBatchDial
	}
	raiseDescriptors()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("load: epoll_create1: %w", err)
	}
	return &Client{
		options: o,
		addr:    addr,
		epoll:   epoll,
		buf:     make([]byte, readBytes),
		found:   found{numbers: make([]int64, 0, maxPerRead), replies: make([]byte, 0, maxReplies)},
		events:  make([]unix.EpollEvent, maxEvents),
	}, nil
}

// resolve looks up HOST:PORT.
func resolve(text string) (unix.SockaddrInet4, error) {
	addr, err := net.ResolveTCPAddr("tcp4", text)
	if err != nil {
		return unix.SockaddrInet4{}, fmt.Errorf("%w: %q: %w", ErrAddress, text, err)
	}
	ip := addr.IP.To4()
	if ip == nil {
		return unix.SockaddrInet4{}, fmt.Errorf("%w: %q has no host", ErrAddress, text)
	}
	return unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip)}, nil
}

// Close resets all connections (SO_LINGER 0) and frees the client.
func (c *Client) Close() {
	for i := range c.consumers {
		c.reset(&c.consumers[i])
	}
	c.closePublisher()
	if c.epoll >= 0 {
		_ = unix.Close(c.epoll)
		c.epoll = -1
	}
}

// reset closes a consumer's socket, if it has one.
func (c *Client) reset(cn *consumer) {
	switch cn.state {
	case stateNew, stateLost:
	default:
		closeReset(int(cn.fd))
		cn.state = stateLost
	}
}

// lock ties the caller's goroutine to its thread, with a fine timer.
func lock() {
	runtime.LockOSThread()
	// 1 ns instead of 50 us of slack, for a punctual schedule (prctl(2)).
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

// unlock undoes lock.
func unlock() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
	runtime.UnlockOSThread()
}
