//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxHello bounds what is kept of a connection before it is open.
	maxHello = 64 << 10

	// readsPerPace is how many sockets are read between two looks at the
	// schedule.
	readsPerPace = 64

	// maxWait is how long a context that is cancelled may go unseen.
	maxWait = 100 * time.Millisecond
)

// ConnectStats tell how connecting went.
type ConnectStats struct {
	Consumers int           // consumers that are subscribed
	Wall      time.Duration // from the first connect to the last subscription
	Latency   *Histogram    // of each consumer, from connect to subscription
}

// hello is what a connection needs before it is open, and the bytes that came
// behind the handshake and are not accounted for yet.
type hello struct {
	begun int64 // when connect was called
	buf   []byte
	head  int // length of the answer's head, 0 until it is complete
}

// Connect opens the consumers of classes, in addition to those there are, and
// waits until all are subscribed. Their indexes, for Load.Owners, count on over
// the calls. What the server sends before a run begins is accounted for by that
// run. Errors: ErrDescriptors, ErrRefused, ErrTimeout, those of connect(2) and
// of ctx; the client is then good for nothing but Close.
func (c *Client) Connect(ctx context.Context, classes []Class) (ConnectStats, error) {
	lock()
	defer unlock()
	if err := c.admit(classes); err != nil {
		return ConnectStats{}, err
	}
	deadline := now() + int64(c.options.Timeout)
	for c.opened < len(c.consumers) {
		if err := c.dialMore(); err != nil {
			return c.stats, err
		}
		if err := c.turn(ctx, maxWait); err != nil {
			return c.stats, err
		}
		if now() > deadline {
			return c.stats, fmt.Errorf("%w: %d of %d consumers subscribed in %v", ErrTimeout, c.opened, len(c.consumers), c.options.Timeout)
		}
	}
	return c.stats, nil
}

// admit adds classes and their consumers, not dialled yet.
func (c *Client) admit(classes []Class) error {
	if c.err != nil || c.opened < len(c.consumers) {
		return errors.New("load: an earlier call failed")
	}
	count := 0
	for _, cl := range classes {
		if cl.Count < 0 || cl.Kind != WebSocket && cl.Kind != SSE || len(cl.Request) == 0 {
			return fmt.Errorf("load: class %q: bad count, kind or request", cl.Name)
		}
		count += cl.Count
	}
	if err := checkDescriptors(count + 1); err != nil {
		return err
	}
	for _, cl := range classes {
		c.classes = append(c.classes, class{Class: cl})
		for range cl.Count {
			c.consumers = append(c.consumers, consumer{fd: -1, class: int32(len(c.classes) - 1)})
		}
	}
	c.stats = ConnectStats{Latency: new(Histogram)}
	c.firstDial = now()
	return nil
}

// dialMore begins as many connections as may be under way.
func (c *Client) dialMore() error {
	limit := c.options.BatchDial
	if c.options.AllAtOnce {
		limit = len(c.consumers)
	}
	for ; c.dialled < len(c.consumers) && c.greeting < limit; c.dialled++ {
		cn := &c.consumers[c.dialled]
		cl := &c.classes[cn.class]
		cn.hello = &hello{begun: now()}
		fd, err := dial(c.epoll, &c.addr, c.dialled, cl.RecvBytes, int32(c.dialled))
		if err != nil {
			return fmt.Errorf("load: consumer %d (%s): %w", c.dialled, cl.Name, err)
		}
		cn.fd, cn.state = int32(fd), stateDialing
		c.greeting++
	}
	return nil
}

// turn waits for events, for at most d, and acts on them.
func (c *Client) turn(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if len(c.again) > 0 {
		d = 0
	}
	events, err := wait(c.epoll, c.events, d)
	if err != nil {
		return err
	}
	for i := range events {
		if i%readsPerPace == readsPerPace-1 || c.run != nil && c.run.room {
			c.pace()
		}
		c.ready(events[i].Fd, events[i].Events)
	}
	return c.readAgain()
}

// readAgain reads the sockets that were left with bytes in them (L4), once.
func (c *Client) readAgain() error {
	pending := c.again
	c.again = c.spare[:0]
	for i := range pending {
		if i%readsPerPace == readsPerPace-1 {
			c.pace()
		}
		c.ready(pending[i].Fd, pending[i].Events)
	}
	c.spare = pending
	return c.err
}

// ready acts on the events of one socket.
func (c *Client) ready(key int32, events uint32) {
	if key == publisherKey {
		c.publisherReady(events)
		return
	}
	cn := &c.consumers[key]
	switch cn.state {
	case stateOpen:
		if c.run != nil {
			c.read(cn, key, events)
		}
	case stateDialing, stateHead, stateReady:
		c.consumerGreets(cn, key)
	}
}

// consumerGreets takes a consumer's handshake as far as it goes.
func (c *Client) consumerGreets(cn *consumer, key int32) {
	cl := &c.classes[cn.class]
	if err := c.greet(cn, &cl.Class); err != nil {
		c.fail(fmt.Errorf("load: consumer %d (%s): %w", key, cl.Name, err))
		return
	}
	if cn.state != stateOpen {
		return
	}
	t := now()
	c.greeting--
	c.opened++
	c.stats.Consumers++
	c.stats.Wall = time.Duration(t - c.firstDial)
	c.stats.Latency.record(t - cn.hello.begun)
	switch {
	case cl.Stalled:
		cn.state, cn.hello = stateStalled, nil
		_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, int(cn.fd), nil)
	case c.run != nil:
		c.takeHello(cn, key, t)
	}
}

// fail remembers the first error, which ends Connect or the run.
func (c *Client) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// greet takes a handshake as far as it goes without waiting.
func (c *Client) greet(cn *consumer, cl *Class) error {
	h := cn.hello
	if cn.state == stateDialing {
		if err := connected(int(cn.fd)); err != nil {
			return err
		}
		if n, e := rawWrite(int(cn.fd), cl.Request); e == syscall.EAGAIN && len(cl.Request) > 0 {
			return nil // not connected yet
		} else if e != 0 || n < len(cl.Request) {
			return fmt.Errorf("%w: the request was sent as far as byte %d of %d: %w", ErrRefused, n, len(cl.Request), e)
		}
		cn.state = stateHead
		if len(cl.Request) == 0 {
			cn.state = stateOpen // a publisher without a handshake
			return nil
		}
	}
	for {
		n, e := rawRead(int(cn.fd), c.buf)
		switch {
		case e == syscall.EAGAIN:
			return nil
		case e != 0:
			return fmt.Errorf("%w: %w after %q", ErrRefused, e, excerpt(h.buf))
		case n == 0:
			return fmt.Errorf("%w: closed after %q", ErrRefused, excerpt(h.buf))
		}
		h.buf = append(h.buf, c.buf[:n]...)
		if err := h.advance(cn, cl); err != nil || cn.state == stateOpen {
			return err
		}
		if len(h.buf) > maxHello {
			return fmt.Errorf("%w: not subscribed after %d bytes: %q", ErrRefused, len(h.buf), excerpt(h.buf))
		}
	}
}

// excerpt returns the beginning of a text for an error.
func excerpt(b []byte) []byte { return b[:min(len(b), 200)] }
