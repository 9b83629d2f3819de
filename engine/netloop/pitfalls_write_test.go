package netloop

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// Close loses what is in the outbound buffer. Hence own writes and own flush.
func TestPitfallCloseTruncates(t *testing.T) {
	const size = 8 << 20
	r := startReactor(t, &hooks{})
	c, other := r.pair()
	buffered := 0
	r.run(c.EventLoop(), func() {
		_, _ = c.Write(make([]byte, size))
		buffered = c.OutboundBuffered()
		_ = c.EventLoop().Close(c)
	})
	n, err := io.Copy(io.Discard, other)
	if err != nil || n >= size || buffered == 0 {
		t.Errorf("peer got %d of %d, %v; %d were buffered", n, size, err, buffered)
	}
}

// Write on a closed connection goes to the new owner of the descriptor number.
// Hence the closed flag.
func TestPitfallWriteAfterClose(t *testing.T) {
	closed := make(chan struct{})
	r := startReactor(t, &hooks{closed: func(gnet.Conn, error) { close(closed) }})
	c, other := r.pair()
	fd := c.Fd()
	el := c.EventLoop()
	_ = other.Close()
	recv(t, "OnClose", closed)
	r.run(el, func() {}) // the descriptor is closed now
	victim, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := victim[1], victim[0]
	if reader == fd {
		reader, writer = writer, reader
	}
	defer closeDescriptor(reader)
	defer closeDescriptor(writer)
	if writer != fd {
		if err := unix.Dup3(writer, fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer closeDescriptor(fd)
	}
	r.run(el, func() { _, err = c.Write([]byte("stray")) })
	got := make([]byte, 16)
	n, _ := unix.Read(reader, got)
	if err != nil || string(got[:max(n, 0)]) != "stray" {
		t.Errorf("Write = %v, the new owner's peer got %q", err, got[:max(n, 0)])
	}
}

// The outbound buffer has no limit and holds a copy for each connection. Hence
// writes around it.
func TestPitfallOutboundBufferCopies(t *testing.T) {
	const frames, size, conns = 128, 64 << 10, 4
	r := startReactor(t, &hooks{})
	var cs []gnet.Conn
	var last net.Conn
	for range conns {
		c, other := r.pair()
		cs, last = append(cs, c), other
	}
	shared := bytes.Repeat([]byte("a"), size)
	total := 0
	r.run(cs[0].EventLoop(), func() {
		for _, c := range cs {
			for range frames {
				if n, err := c.Write(shared); n != size || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
			}
			total += c.OutboundBuffered()
		}
		for i := range shared {
			shared[i] = 'b'
		}
	})
	if least := conns * (frames*size - 1<<20); total < least {
		t.Errorf("%d bytes buffered for stalled peers, expected over %d", total, least)
	}
	got := make([]byte, frames*size)
	if _, err := io.ReadFull(last, got); err != nil || bytes.IndexByte(got, 'b') >= 0 {
		t.Errorf("buffered bytes are shared with the caller, not copied (%v)", err)
	}
}

// Writev edits the caller's vector when the write is partial.
func TestPitfallWritevEditsVector(t *testing.T) {
	r := startReactor(t, &hooks{})
	c, _ := r.pair()
	part := make([]byte, 1<<20)
	vec := [][]byte{part, part, part, part}
	r.run(c.EventLoop(), func() { _, _ = c.Writev(vec) })
	edited := false
	for _, p := range vec {
		edited = edited || len(p) != len(part)
	}
	if !edited {
		t.Error("the vector is untouched after a partial write")
	}
}

// Writev of more parts than the kernel takes closes the connection.
func TestPitfallWritevManyParts(t *testing.T) {
	for parts, fails := range map[int]bool{1024: false, 1025: true} {
		closed := make(chan error, 1)
		r := startReactor(t, &hooks{closed: func(_ gnet.Conn, err error) { closed <- err }})
		c, _ := r.pair()
		vec := make([][]byte, parts)
		for i := range vec {
			vec[i] = []byte("x")
		}
		var err error
		r.run(c.EventLoop(), func() { _, err = c.Writev(vec) })
		if (err != nil) != fails || (len(closed) == 1) != fails {
			t.Errorf("%d parts: %v, OnClose called %d times", parts, err, len(closed))
		}
	}
}

// A failing Write calls OnClose before it returns. Hence deferred closes.
func TestPitfallWriteErrorClosesAtOnce(t *testing.T) {
	closes := 0
	r := startReactor(t, &hooks{closed: func(gnet.Conn, error) { closes++ }})
	c, other := r.pair()
	before, inside := -1, -1
	var err error
	r.run(c.EventLoop(), func() {
		_ = other.Close()
		before = closes
		_, err = c.Write([]byte("x"))
		inside = closes
	})
	if err == nil || before != 0 || inside != 1 {
		t.Errorf("Write = %v; OnClose called %d times before and %d inside", err, before, inside)
	}
}
