//go:build linux

package load

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	publisherKey = -1

	// maxUnsent is how many encoded bytes may wait for the connection (L5).
	maxUnsent = 256 << 10

	// never is a due time that does not come by itself.
	never = math.MaxInt64
)

// publisher is the connection that publishes.
type publisher struct {
	// Immutable after construction.
	Publisher
	class   Class // its handshake
	upgrade bool  // the answer was 101

	// Owned by the goroutine that calls.
	conn    consumer
	out     []byte // encoded bytes
	sent    int    // of out
	encoded int64  // bytes encoded, ever
	written int64  // bytes accepted by the kernel, ever
	blocked bool   // the socket was full
}

// openPublisher opens the publisher's connection, unless it is open.
func (c *Client) openPublisher(ctx context.Context, pub Publisher) error {
	if p := c.publisher; p != nil {
		if bytes.Equal(p.Request, pub.Request) && bytes.Equal(p.After, pub.After) && p.Ready == pub.Ready && p.sent == len(p.out) {
			p.Publisher = pub
			return nil
		}
		c.closePublisher()
	}
	p := &publisher{Publisher: pub, class: Class{Kind: anyKind, Request: pub.Request, After: pub.After, Ready: pub.Ready}}
	fd, err := dial(c.epoll, &c.addr, 0, 0, publisherKey)
	if err != nil {
		return fmt.Errorf("load: publisher: %w", err)
	}
	p.conn = consumer{fd: int32(fd), state: stateDialing, hello: &hello{begun: now()}}
	c.publisher = p
	deadline := now() + int64(c.options.Timeout)
	for p.conn.state != stateOpen {
		if err := c.turn(ctx, maxWait); err != nil {
			c.closePublisher()
			return err
		}
		if now() > deadline {
			c.closePublisher()
			return fmt.Errorf("%w: publisher not accepted in %v", ErrTimeout, c.options.Timeout)
		}
	}
	return nil
}

// closePublisher closes the publisher's connection, if there is one.
func (c *Client) closePublisher() {
	if c.publisher != nil {
		closeReset(int(c.publisher.conn.fd))
		c.publisher = nil
	}
}

// publisherReady acts on the events of the publisher's socket.
func (c *Client) publisherReady(events uint32) {
	p := c.publisher
	if p == nil {
		return
	}
	if events&unix.EPOLLOUT != 0 {
		p.blocked = false
	}
	if p.conn.state != stateOpen {
		if err := c.greet(&p.conn, &p.class); err != nil {
			c.fail(fmt.Errorf("load: publisher: %w", err))
			return
		}
		if p.conn.state != stateOpen {
			return
		}
		h := p.conn.hello
		p.upgrade = h.head > 0 && statusOf(h.buf) == 101
		p.conn.hello = nil
		c.publisherGot(h.buf[h.head:])
	}
	for c.err == nil {
		n, e := rawRead(int(p.conn.fd), c.buf)
		switch {
		case e == syscall.EAGAIN:
			return
		case e != 0:
			c.fail(fmt.Errorf("%w: %w", ErrPublisher, e))
		case n == 0:
			c.fail(fmt.Errorf("%w: closed by the server", ErrPublisher))
		default:
			c.publisherGot(c.buf[:n])
		}
	}
}

// publisherGot drops what the server sends to the publisher, and answers pings
// behind what waits to be sent.
func (c *Client) publisherGot(b []byte) {
	p := c.publisher
	if !p.upgrade {
		return
	}
	c.found.reset()
	var s shape
	if err := p.conn.parser.webSocket(b, &s, &c.found); err != nil {
		c.fail(fmt.Errorf("%w: %w", ErrPublisher, err))
	}
	if pongs := c.found.replies; len(pongs) > 0 && len(p.out)-p.sent < 2*maxUnsent {
		p.out = append(p.out, pongs...)
		p.encoded += int64(len(pongs))
		c.fail(p.flush())
	}
}

// flush writes what waits, as far as the socket takes it.
func (p *publisher) flush() error {
	for p.sent < len(p.out) && !p.blocked {
		n, e := rawWrite(int(p.conn.fd), p.out[p.sent:])
		switch {
		case e == syscall.EAGAIN:
			p.blocked = true
		case e != 0:
			return fmt.Errorf("%w: %w", ErrPublisher, e)
		default:
			p.sent += n
			p.written += int64(n)
		}
	}
	if p.sent == len(p.out) {
		p.out, p.sent = p.out[:0], 0
	} else if p.sent >= maxUnsent {
		p.out, p.sent = p.out[:copy(p.out, p.out[p.sent:])], 0
	}
	return nil
}

// pace publishes what is due, as far as the window and the connection allow,
// and sets when to look again.
func (c *Client) pace() {
	r, p := c.run, c.publisher
	if r == nil || p == nil || p.conn.state != stateOpen {
		return
	}
	r.room = false
	t := now()
	r.fill(p, t)
	if p.sent < len(p.out) {
		if err := p.flush(); err != nil {
			c.fail(err)
		}
		r.wrote(p.written, now())
	}
}

// fill encodes what is due at t.
func (r *run) fill(p *publisher, t int64) {
	l := &r.load
	r.due = never
	for r.published < r.phaseEnd {
		batch := min(l.Batch, r.phaseEnd-r.published)
		if l.Window > 0 && r.inFlight+batch > l.Window {
			return
		}
		intended := t
		if l.Rate > 0 {
			intended = r.base + int64(min(float64(r.published-r.phaseBegin)*1e9/l.Rate, math.MaxInt64/2))
			if intended > t {
				r.due = intended
				return
			}
		}
		if len(p.out)-p.sent >= maxUnsent {
			if !p.blocked {
				r.due = t
			}
			return
		}
		for range batch {
			i := r.published
			before := len(p.out)
			p.out = p.Encode(p.out, r.span.low+i)
			p.encoded += int64(len(p.out) - before)
			r.intended[i], r.ends[i] = intended, p.encoded
			r.published++
			if r.missing[i] > 0 {
				r.inFlight++
			}
		}
	}
}

// wrote records the events that are written as a whole.
func (r *run) wrote(written, t int64) {
	for ; r.written < r.published && r.ends[r.written] <= written; r.written++ {
		if r.written >= r.measureFrom {
			r.out.PublishLag.record(t - r.intended[r.written])
		}
	}
}
