package netloop

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-relay/sluice/engine/loop"
)

// wiredConn returns a connection on one end of a socket pair, without a server,
// and the other end.
func wiredConn(tb testing.TB, r *reactor) (*conn, int) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		closeDescriptor(fds[0])
		closeDescriptor(fds[1])
	})
	return &conn{r: r, fd: fds[0], opened: true}, fds[1]
}

func idleReactor(tb testing.TB) *reactor {
	r := &reactor{srv: &Server{}}
	r.loop = loop.New(0, loop.SystemClock{}, func(err error) { tb.Error(err) })
	r.loop.Bind(func() error { return nil })
	return r
}

// The hot functions allocate nothing.
func TestNoAllocations(t *testing.T) {
	r := idleReactor(t)
	c, other := wiredConn(t, r)
	calls := 0
	p := newPeer(r.loop, c)
	p.writable = func(*peer) { calls++ }
	c.h = p
	frame, sink := make([]byte, 600), make([]byte, 4<<10)
	if n := testing.AllocsPerRun(1000, func() {
		if n, err := c.Write(frame); n != len(frame) || err != nil {
			t.Fatal(n, err)
		}
		_, _ = unix.Read(other, sink)
		c.UnackedBytes()
	}); n != 0 {
		t.Errorf("Write allocates %v times", n)
	}
	for { // a full buffer is no error and no allocation
		if n, err := c.Write(frame); err != nil || n < len(frame) {
			break
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if n, err := c.Write(frame); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("Write to a full buffer allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		c.armed = true
		r.wake(c)
		r.Drain(time.Time{})
		r.Drain(time.Time{})
	}); n != 0 || calls == 0 {
		t.Errorf("passing on writability allocates %v times, %d calls", n, calls)
	}
}

// BenchmarkWrite writes one frame to each of 1,000 connections an op.
func BenchmarkWrite(b *testing.B) {
	const conns, drainEvery = 1000, 32
	for _, size := range []int{100, 600, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := idleReactor(b)
			cs, others := make([]*conn, conns), make([]int, conns)
			for i := range cs {
				cs[i], others[i] = wiredConn(b, r)
				cs[i].StreamBuffers()
			}
			frame, sink := make([]byte, size), make([]byte, 256<<10)
			b.ReportAllocs()
			b.SetBytes(conns * int64(size))
			for ops := 1; b.Loop(); ops++ {
				for _, c := range cs {
					if n, err := c.Write(frame); n != size || err != nil {
						b.Fatal(n, err)
					}
				}
				if ops%drainEvery == 0 {
					b.StopTimer()
					for _, fd := range others {
						discardInput(fd, sink, 1<<30)
					}
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/conns, "ns/write")
		})
	}
}

// benchServer starts a server for a benchmark.
func benchServer(b *testing.B, loops int) *Server {
	b.Helper()
	s, err := New(Config{Addrs: []string{"127.0.0.1:0"}, Loops: loops, Log: quiet}, loop.SystemClock{}, echo)
	if err == nil {
		err = s.Listen()
	}
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	b.Cleanup(func() {
		if err := s.Stop(b.Context()); err != nil && b.Context().Err() == nil {
			b.Error(err)
		}
		<-served
	})
	return s
}

// BenchmarkPost measures a function posted to a loop and run by it.
func BenchmarkPost(b *testing.B) {
	s := benchServer(b, 1)
	done := make(chan struct{})
	f := func() { done <- struct{}{} }
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Loops()[0].Post(f); err != nil {
			b.Fatal(err)
		}
		<-done
	}
}

// BenchmarkEcho measures a round trip over TCP.
func BenchmarkEcho(b *testing.B) {
	s := benchServer(b, 1)
	c, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close() //nolint:errcheck
	msg := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(msg); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, msg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConnect measures a connection from dial to close, both ends.
func BenchmarkConnect(b *testing.B) {
	s := benchServer(b, 2)
	addr := s.Addrs()[0].String()
	b.ReportAllocs()
	for b.Loop() {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetLinger(0) // no TIME_WAIT to run out of ports
		_ = c.Close()
	}
}
