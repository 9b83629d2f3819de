package netloop

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pattern returns n bytes that tell their position.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>11)
	}
	return b
}

func TestEcho(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	s := serve(t, Config{Addrs: []string{"localhost:0", "unix:" + sock}, Loops: 2}, echo)
	for _, addr := range s.Addrs() {
		for _, size := range []int{1, 100, 64 << 10, 1 << 20} {
			c := dialTo(t, addr)
			want := pattern(size)
			go func() { _, _ = c.Write(want) }()
			got := make([]byte, size)
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v: echo of %d bytes differs (%v)", addr, size, err)
			}
			_ = c.Close()
		}
	}
}

// Addresses are those of the sockets, without zones or mapped IPv4.
func TestAddresses(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	peers := make(chan *peer, 1)
	s := serve(t, Config{Addrs: []string{":0", "unix:" + sock}}, with(peers, nil))
	port := s.Addrs()[0].(*net.TCPAddr).Port
	for _, host := range []string{"127.0.0.1", "::1"} {
		to := &net.TCPAddr{IP: net.ParseIP(host), Port: port}
		c, err := net.DialTCP("tcp", nil, to)
		if noSuchAddress(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p := recv(t, "connection", peers)
		local, _ := netip.ParseAddrPort(c.LocalAddr().String())
		onLoop(t, p.l, func() {
			if p.RemoteAddr() != local || p.LocalAddr() != netip.AddrPortFrom(netip.MustParseAddr(host), uint16(port)) {
				t.Errorf("remote %v, local %v; the peer has %v", p.RemoteAddr(), p.LocalAddr(), local)
			}
		})
		_ = c.Close()
	}
	dialTo(t, s.Addrs()[1])
	p := recv(t, "connection", peers)
	onLoop(t, p.l, func() {
		if p.RemoteAddr().IsValid() || p.LocalAddr().IsValid() {
			t.Errorf("Unix socket: remote %v, local %v, want none", p.RemoteAddr(), p.LocalAddr())
		}
	})
}

func TestTakeAddrClearsZone(t *testing.T) {
	a := &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 7, Zone: "eth0"}
	if got := takeAddr(a).String(); got != "[fe80::1%eth0]:7" || a.Zone != "" {
		t.Errorf("takeAddr = %s, zone left %q", got, a.Zone)
	}
}

// A peer that stalls gets everything later, by writability alone, with nothing
// in the reactor's outbound buffer.
func TestStalledPeerGetsAll(t *testing.T) {
	const size = 32 << 20
	peers := make(chan *peer, 1)
	stalled := make(chan struct{}, 1)
	want := pattern(size)
	s := serve(t, Config{}, with(peers, func(p *peer) {
		out := &sender{rest: want}
		p.StreamBuffers()
		p.data = func(p *peer, _ []byte) {
			out.run(p)
			p.WantWritable() // twice is once
			stalled <- struct{}{}
		}
		p.writable = out.run
	}))
	c := s.dial(t)
	send(t, c, "x")
	p := recv(t, "connection", peers)
	recv(t, "stall", stalled)
	onLoop(t, p.l, func() {
		if n := p.Transport.(*conn).g.OutboundBuffered(); n != 0 {
			t.Errorf("reactor buffers %d bytes", n)
		}
	})
	// Once the peer's window is full they stay; before that the kernel may be
	// ahead of the sender for a moment.
	eventually(t, "unacknowledged bytes of a peer that reads nothing", func() (some bool) {
		onLoop(t, p.l, func() { some = p.UnackedBytes() > 0 })
		return some
	})
	got := make([]byte, size)
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("stalled transfer differs (%v)", err)
	}
	// The last acknowledgement may be on its way.
	eventually(t, "everything acknowledged", func() (done bool) {
		onLoop(t, p.l, func() { done = p.UnackedBytes() == 0 })
		return done
	})
}

// One WantWritable gives one OnWritable, also when asked twice, and asking
// again gives another.
func TestWantWritableOnce(t *testing.T) {
	peers := make(chan *peer, 1)
	calls := make(chan struct{}, 16)
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.writable = func(*peer) { calls <- struct{}{} }
	}))
	s.dial(t)
	p := recv(t, "connection", peers)
	for range 3 {
		onLoop(t, p.l, func() { p.WantWritable(); p.WantWritable() })
		recv(t, "OnWritable", calls)
	}
	// A fourth call would have been queued before this turn.
	onLoop(t, p.l, func() {})
	if n := len(calls); n != 0 {
		t.Errorf("%d calls too many", n)
	}
}

func TestWatcherDropsStale(t *testing.T) {
	w := &watcher{conns: map[int32]*conn{}}
	c := &conn{gen: 8}
	w.conns[5] = c
	for _, tc := range []struct {
		fd, gen int32
		want    *conn
	}{{5, 8, c}, {5, 7, nil}, {6, 8, nil}} {
		if got := w.find(tc.fd, tc.gen); got != tc.want {
			t.Errorf("find(%d, %d) = %v", tc.fd, tc.gen, got)
		}
	}
}

// Close sends what the kernel took; OnClose follows once, with nil, and not
// from inside Close.
func TestCloseIsOrderly(t *testing.T) {
	peers := make(chan *peer, 1)
	took := make(chan int, 1)
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.data = func(p *peer, _ []byte) {
			n, err := p.Write(pattern(4 << 20))
			if err != nil {
				t.Errorf("Write = %v", err)
			}
			p.Close()
			p.Close()
			if p.closes.Load() != 0 {
				t.Error("OnClose from inside Close")
			}
			if n, err := p.Write([]byte("late")); n != 0 || !errors.Is(err, ErrClosed) {
				t.Errorf("Write after Close = %d, %v", n, err)
			}
			took <- n
		}
	}))
	c := s.dial(t)
	send(t, c, "x")
	p := recv(t, "connection", peers)
	n := recv(t, "write", took)
	wantErr(t, "OnClose", recv(t, "OnClose", p.closed), nil)
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, pattern(4 << 20)[:n]) {
		t.Errorf("read %d bytes, %v, want the %d that the kernel took", len(got), err, n)
	}
	onLoop(t, p.l, func() {})
	if k := p.closes.Load(); k != 1 {
		t.Errorf("OnClose called %d times", k)
	}
}

// Close while the peer is still sending does not cost it the answer.
func TestCloseWithUnreadInput(t *testing.T) {
	const answer = "HTTP/1.1 413 Content Too Large\r\n\r\n"
	began, filled := make(chan int, 1), make(chan struct{})
	s := serve(t, Config{}, with(nil, func(p *peer) {
		p.data = func(p *peer, _ []byte) {
			began <- p.Transport.(*conn).fd
			<-filled // the kernel holds input that is never read
			_, _ = p.Write([]byte(answer))
			p.Close()
		}
	}))
	c := s.dial(t)
	send(t, c, "x")
	fd := recv(t, "first bytes read", began)
	send(t, c, string(pattern(32<<10)))
	eventually(t, "input that nobody reads", func() bool {
		n, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
		return err == nil && n > 0
	})
	close(filled)
	expect(t, c, answer)
	send(t, c, string(pattern(32<<10))) // still no reset
	expectEnd(t, c)
}

// Abort resets the connection.
func TestAbortResets(t *testing.T) {
	peers := make(chan *peer, 1)
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.data = func(p *peer, _ []byte) {
			p.Abort()
			p.Abort()
			if p.closes.Load() != 0 {
				t.Error("OnClose from inside Abort")
			}
		}
	}))
	c := s.dial(t)
	send(t, c, "x")
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after Abort: %v, want ECONNRESET", err)
	}
	p := recv(t, "connection", peers)
	wantErr(t, "OnClose", recv(t, "OnClose", p.closed), ErrAborted)
}

// CloseWrite sends a FIN and reading goes on.
func TestCloseWrite(t *testing.T) {
	peers := make(chan *peer, 1)
	got := make(chan string, 4)
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.data = func(p *peer, b []byte) {
			got <- string(b)
			if string(b) == "first" {
				_, _ = p.Write([]byte("answer"))
				p.CloseWrite()
				p.CloseWrite()
				if _, err := p.Write([]byte("late")); !errors.Is(err, ErrClosed) {
					t.Errorf("Write after CloseWrite: %v", err)
				}
			}
		}
	}))
	c := s.dial(t)
	send(t, c, "first")
	expect(t, c, "answer")
	expectEnd(t, c)
	send(t, c, "second")
	for _, want := range []string{"first", "second"} {
		if b := recv(t, "data", got); b != want {
			t.Errorf("OnData %q, want %q", b, want)
		}
	}
	_ = c.Close()
	wantErr(t, "OnClose", recv(t, "OnClose", recv(t, "connection", peers).closed), nil)
}

// A half-close of the peer counts as the end, after its data was delivered.
func TestPeerHalfClose(t *testing.T) {
	peers := make(chan *peer, 1)
	var got []byte
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.data = func(_ *peer, b []byte) { got = append(got, b...) }
	}))
	c := s.dial(t)
	want := pattern(200 << 10)
	send(t, c, string(want))
	_ = c.(*net.TCPConn).CloseWrite()
	p := recv(t, "connection", peers)
	wantErr(t, "OnClose", recv(t, "OnClose", p.closed), nil)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes delivered before OnClose, want %d", len(got), len(want))
	}
}

// A write that fails reports the error; OnClose follows from the loop.
func TestWriteErrorIsDeferred(t *testing.T) {
	peers := make(chan *peer, 1)
	held, reset := make(chan struct{}), make(chan struct{})
	failed := make(chan error, 1)
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.data = func(p *peer, _ []byte) {
			close(held)
			<-reset
			_, err := p.Write([]byte("x"))
			if p.closes.Load() != 0 {
				t.Error("OnClose from inside Write")
			}
			_, again := p.Write([]byte("x"))
			wantErr(t, "second Write", again, ErrClosed)
			failed <- err
		}
	}))
	c := s.dial(t)
	send(t, c, "x")
	p := recv(t, "connection", peers)
	recv(t, "loop held", held)
	fd := p.Transport.(*conn).fd // while the loop is held
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	eventually(t, "the reset has come", func() bool {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n == 1 && fds[0].Revents&unix.POLLERR != 0
	})
	close(reset)
	if err := recv(t, "write", failed); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write to a reset connection: %v", err)
	}
	if err := recv(t, "OnClose", p.closed); err == nil {
		t.Error("OnClose(nil) after a failed write")
	}
}

// Every method is harmless after the close, and touches no reused descriptor
// (N2).
func TestMethodsAfterClose(t *testing.T) {
	peers := make(chan *peer, 1)
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.onClose = func(p *peer, _ error) { p.Close() }
	}))
	c := s.dial(t)
	p := recv(t, "connection", peers)
	var fd int
	onLoop(t, p.l, func() { fd = p.Transport.(*conn).fd })
	_ = c.Close()
	recv(t, "OnClose", p.closed)
	eventually(t, "descriptor closed", func() bool {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		return err == unix.EBADF
	})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDescriptor(pair[0])
	defer closeDescriptor(pair[1])
	if pair[1] != fd && pair[0] != fd {
		if err := unix.Dup3(pair[0], fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer closeDescriptor(fd)
	}
	onLoop(t, p.l, func() {
		_, err := p.Write([]byte("for the dead"))
		wantErr(t, "Write", err, ErrClosed)
		p.WantWritable()
		p.StreamBuffers()
		p.CloseWrite()
		p.Close()
		p.Abort()
		if p.UnackedBytes() != 0 {
			t.Error("UnackedBytes after close")
		}
	})
	onLoop(t, p.l, func() {})
	for _, end := range pair {
		if n, err := unix.Read(end, make([]byte, 8)); err != unix.EAGAIN {
			t.Errorf("new owner of descriptor %d: read %d, %v", fd, n, err)
		}
	}
	if p.closes.Load() != 1 {
		t.Errorf("OnClose called %d times", p.closes.Load())
	}
}

// StreamBuffers sets the kernel's send buffer, which doubles what is asked for
// and caps it first (socket(7), SO_SNDBUF).
func TestStreamBuffers(t *testing.T) {
	most := sendBufferCap(t)
	for asked, want := range map[int]int{0: 256 << 10, 16 << 10: 16 << 10, 64 << 10: 64 << 10, 4 << 20: 4 << 20} {
		checkStreamBuffers(t, asked, 2*min(want, most))
	}
}

// checkStreamBuffers wants the kernel to report want after asked was configured.
func checkStreamBuffers(t *testing.T, asked, want int) {
	t.Helper()
	peers := make(chan *peer, 1)
	s := serve(t, Config{SendBufferBytes: asked}, with(peers, nil))
	s.dial(t)
	p := recv(t, "connection", peers)
	onLoop(t, p.l, func() {
		p.StreamBuffers()
		fd := p.Transport.(*conn).fd
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err != nil || n != want {
			t.Errorf("SendBufferBytes %d: send buffer %d, %v, want %d", asked, n, err, want)
		}
		for _, o := range []struct{ level, opt int }{
			{unix.IPPROTO_TCP, unix.TCP_NODELAY},
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		} {
			if v, err := unix.GetsockoptInt(fd, o.level, o.opt); err != nil || v == 0 {
				t.Errorf("option %d of level %d is %d, %v", o.opt, o.level, v, err)
			}
		}
	})
}

// sendBufferCap is the most that SO_SNDBUF takes here.
func sendBufferCap(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/core/wmem_max")
	if err != nil {
		t.Skipf("cannot tell what the kernel allows: %v", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Urgent bytes do not make the loop spin, which polls for them, and what
// follows them arrives.
func TestUrgentData(t *testing.T) {
	got := make(chan byte, 16)
	s := serve(t, Config{}, with(nil, func(p *peer) {
		p.data = func(_ *peer, b []byte) {
			for _, x := range b {
				got <- x
			}
		}
	}))
	c := s.dial(t)
	rc, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = rc.Control(func(fd uintptr) { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) })
	if err != nil {
		t.Fatal(err)
	}
	used, ok := idles(100*time.Millisecond, 0.5, func(span time.Duration) time.Duration {
		before := cpuTime(t)
		<-time.After(span) // the time measured over
		return cpuTime(t) - before
	})
	if !ok {
		t.Errorf("%v of CPU in 100 ms of idling", used)
	}
	send(t, c, "a")
	if x := recv(t, "byte", got); x != 'a' {
		t.Errorf("got %q", x)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
