package relaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// DialTimeout bounds the time that a dial of this package may take.
const DialTimeout = 30 * time.Second

// headTimeout bounds the time for the head of an answer that has to come.
const headTimeout = 30 * time.Second

// ErrUnexpectedBytes tells that the peer sent bytes where it had to be silent.
var ErrUnexpectedBytes = errors.New("relaytest: peer sent bytes where none were due")

// Conn is a raw TCP connection with a receive buffer of its own. A read that
// times out keeps what has arrived, so that it can be repeated. One goroutine
// at a time may read; another may write meanwhile.
type Conn struct {
	nc  net.Conn
	buf []byte // received; buf[off:] is not parsed yet
	off int
}

// Dial connects to addr ("host:port").
func Dial(addr string) (*Conn, error) { return DialRecvBuf(addr, 0) }

// DialRecvBuf connects to addr with a kernel receive buffer of recvBytes
// (SO_RCVBUF, set before the handshake so that the window is small from the
// start). Zero leaves the kernel's default.
func DialRecvBuf(addr string, recvBytes int) (*Conn, error) {
	d := net.Dialer{Timeout: DialTimeout}
	if recvBytes > 0 {
		d.Control = func(_, _ string, rc syscall.RawConn) error {
			var serr error
			err := rc.Control(func(fd uintptr) {
				serr = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, recvBytes)
			})
			return errors.Join(err, serr)
		}
	}
	nc, err := d.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("relaytest: dial %s: %w", addr, err)
	}
	return &Conn{nc: nc}, nil
}

// Send writes b, for at most 30 s. b is borrowed until return.
func (c *Conn) Send(b []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

// SendString writes s, for at most 30 s.
func (c *Conn) SendString(s string) error { return c.Send([]byte(s)) }

// LocalAddr is this end's "host:port".
func (c *Conn) LocalAddr() string { return c.nc.LocalAddr().String() }

// CloseWrite sends FIN and keeps reading possible.
func (c *Conn) CloseWrite() error { return c.nc.(*net.TCPConn).CloseWrite() }

// Close closes the connection as a peer does that is done with it.
func (c *Conn) Close() error { return c.nc.Close() }

// Reset closes the connection with RST.
func (c *Conn) Reset() error {
	if err := c.nc.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	return c.nc.Close()
}

// Buffered is the number of bytes received and not yet parsed.
func (c *Conn) Buffered() int { return len(c.buf) - c.off }

// AwaitEOF waits until the peer has closed. It returns nil at a FIN or a reset,
// ErrUnexpectedBytes if more bytes come first, and a timeout error otherwise.
func (c *Conn) AwaitEOF(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for c.Buffered() == 0 {
		err := c.fill(deadline)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %q", ErrUnexpectedBytes, clip(c.rest()))
}

// Drain reads and drops input until the peer closes or timeout passes. It
// returns the number of bytes dropped and the error that ended it (io.EOF for a
// FIN).
func (c *Conn) Drain(timeout time.Duration) (n int64, err error) {
	deadline := time.Now().Add(timeout)
	for {
		n += int64(c.Buffered())
		c.buf, c.off = c.buf[:0], 0
		if err := c.fill(deadline); err != nil {
			return n, err
		}
	}
}

// IsTimeout tells whether err is a read that ran out of time, as opposed to a
// connection that ended.
func IsTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// rest is the unparsed input: borrowed until the next fill.
func (c *Conn) rest() []byte { return c.buf[c.off:] }

// skip marks n bytes of rest as parsed.
func (c *Conn) skip(n int) {
	c.off += n
	if c.off == len(c.buf) {
		c.buf, c.off = c.buf[:0], 0
	}
}

// fill reads once and appends to buf.
func (c *Conn) fill(deadline time.Time) error {
	if c.off > 0 && c.off >= len(c.buf)/2 {
		n := copy(c.buf, c.buf[c.off:])
		c.buf, c.off = c.buf[:n], 0
	}
	const step = 64 << 10
	if cap(c.buf)-len(c.buf) < step/4 {
		grown := make([]byte, len(c.buf), 2*cap(c.buf)+step)
		copy(grown, c.buf)
		c.buf = grown
	}
	if err := c.nc.SetReadDeadline(deadline); err != nil {
		return err
	}
	n, err := c.nc.Read(c.buf[len(c.buf):cap(c.buf)])
	c.buf = c.buf[:len(c.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}

// need waits until rest holds n bytes.
func (c *Conn) need(n int, deadline time.Time) error {
	for c.Buffered() < n {
		if err := c.fill(deadline); err != nil {
			return err
		}
	}
	return nil
}

// index waits until rest holds sep and returns its offset in rest. Input of
// more than limit bytes without it is an error.
func (c *Conn) index(sep string, limit int, deadline time.Time) (int, error) {
	seen := 0
	for {
		from := max(0, seen-len(sep)+1)
		if i := bytes.Index(c.rest()[from:], []byte(sep)); i >= 0 {
			return from + i, nil
		}
		seen = c.Buffered()
		if seen > limit {
			return 0, fmt.Errorf("relaytest: no %q within %d bytes: %q", sep, limit, clip(c.rest()))
		}
		if err := c.fill(deadline); err != nil {
			return 0, err
		}
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 300)] }
