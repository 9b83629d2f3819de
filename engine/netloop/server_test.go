package netloop

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
)

func TestConfigErrors(t *testing.T) {
	ok := []string{"127.0.0.1:0"}
	for name, tc := range map[string]struct {
		cfg  Config
		want error
	}{
		"no address":             {Config{}, ErrConfig},
		"negative loops":         {Config{Addrs: ok, Loops: -1}, ErrConfig},
		"too many loops":         {Config{Addrs: ok, Loops: 256}, ErrConfig},
		"negative cap":           {Config{Addrs: ok, MaxConns: -1}, ErrConfig},
		"negative reserve":       {Config{Addrs: ok, Reserve: -1}, ErrConfig},
		"small send buffer":      {Config{Addrs: ok, SendBufferBytes: 16<<10 - 1}, ErrConfig},
		"large send buffer":      {Config{Addrs: ok, SendBufferBytes: 4<<20 + 1}, ErrConfig},
		"negative send buffer":   {Config{Addrs: ok, SendBufferBytes: -1}, ErrConfig},
		"no port":                {Config{Addrs: []string{"127.0.0.1"}}, ErrAddress},
		"empty port":             {Config{Addrs: []string{"127.0.0.1:"}}, ErrAddress},
		"port too large":         {Config{Addrs: []string{"127.0.0.1:65536"}}, ErrAddress},
		"named port":             {Config{Addrs: []string{"127.0.0.1:http"}}, ErrAddress},
		"no path":                {Config{Addrs: []string{"unix:"}}, ErrAddress},
		"C54 cap without effect": {Config{Addrs: ok, MaxConns: 1 << 30}, ErrMaxConns},
		"C54 reserve too large":  {Config{Addrs: ok, Reserve: 1 << 31}, ErrFewDescriptors},
	} {
		if _, err := New(tc.cfg, loop.SystemClock{}, echo); !errors.Is(err, tc.want) {
			t.Errorf("%s: New = %v, want %v", name, err, tc.want)
		}
	}
	if _, err := New(Config{Addrs: ok}, loop.SystemClock{}, nil); !errors.Is(err, ErrConfig) {
		t.Errorf("no accept function: %v", err)
	}
}

func TestPhases(t *testing.T) {
	checkLeaks(t)
	s, err := New(Config{Addrs: []string{"127.0.0.1:0"}, Log: quiet}, loop.SystemClock{}, echo)
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Serve before Listen", s.Serve(), ErrNotListening)
	wantErr(t, "Listen", s.Listen(), nil)
	wantErr(t, "second Listen", s.Listen(), ErrAlreadyListening)
	wantErr(t, "Stop", s.Stop(context.Background()), nil)
	wantErr(t, "second Stop", s.Stop(context.Background()), nil)
	wantErr(t, "Listen after Stop", s.Listen(), ErrStopped)
	wantErr(t, "Serve after Stop", s.Serve(), nil)
	if _, err := net.Dial("tcp", s.Addrs()[0].String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after Stop: %v", err)
	}
}

// C57: serve, stop and start again on the same port, twenty times.
func TestPortReuse(t *testing.T) {
	checkLeaks(t)
	addr := "127.0.0.1:0"
	for i := range 20 {
		begin := time.Now()
		s := serveRaw(t, Config{Addrs: []string{addr}}, echo)
		if i > 0 && time.Since(begin) > 100*time.Millisecond {
			t.Logf("round %d: started after %v", i, time.Since(begin))
		}
		addr = s.Addrs()[0].String()
		c := s.dial(t)
		send(t, c, "x")
		expect(t, c, "x")
		s.stop(t)
		wantErr(t, "Serve", recv(t, "Serve returns", s.served), nil)
		_, _ = io.ReadAll(c)
		_ = c.Close()
	}
}

// R460: stop accepting is real, and what is connected stays.
func TestStopAccepting(t *testing.T) {
	s := serve(t, Config{}, echo)
	c := s.dial(t)
	send(t, c, "x")
	expect(t, c, "x")
	s.StopAccepting()
	s.StopAccepting()
	if _, err := net.Dial("tcp", s.Addrs()[0].String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want ECONNREFUSED", err)
	}
	send(t, c, "y")
	expect(t, c, "y")
}

// Stop closes every connection and calls OnClose for each (N3).
func TestStopClosesAll(t *testing.T) {
	peers := make(chan *peer, 100)
	s := serve(t, Config{Loops: 3}, with(peers, nil))
	for range cap(peers) {
		s.dial(t)
	}
	var ps []*peer
	for range cap(peers) {
		ps = append(ps, recv(t, "connection", peers))
	}
	s.stop(t)
	for _, p := range ps {
		wantErr(t, "OnClose", recv(t, "OnClose", p.closed), ErrStopped)
	}
	for _, l := range s.Loops() { // rung after the end: harmless (N4)
		l.Ring()
	}
}

// A handler that blocks its loop makes Stop miss its deadline, not hang.
func TestStopDeadline(t *testing.T) {
	checkLeaks(t)
	release := make(chan struct{})
	blocked := make(chan struct{})
	s := serveRaw(t, Config{}, with(nil, func(p *peer) {
		p.data = func(*peer, []byte) { close(blocked); <-release }
	}))
	c := s.dial(t)
	send(t, c, "x")
	recv(t, "handler blocks", blocked)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	wantErr(t, "Stop", s.Stop(ctx), context.DeadlineExceeded)
	wantErr(t, "Serve", recv(t, "Serve returns", s.served), context.DeadlineExceeded)
	close(release)
	s.stop(t)
}

// N1: the cap is exact; the connection over it reads a whole 503, also when its
// request was never read; a place that becomes free is given away.
func TestConnectionCap(t *testing.T) {
	peers := make(chan *peer, 8)
	s := serve(t, Config{MaxConns: 2}, with(peers, nil))
	first, _ := s.dial(t), s.dial(t)
	for i := range 3 {
		c := s.dial(t)
		send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		b, err := io.ReadAll(c)
		if err != nil || string(b) != refusal {
			t.Errorf("over the cap: %q, %v", b, err)
		}
		_ = c.Close()
		if got := s.Refused().Cap; got != int64(i+1) {
			t.Errorf("%d refusals counted, want %d", got, i+1)
		}
	}
	if n := s.Conns(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	for _, line := range []string{"HTTP/1.1 503 ", "\r\nRetry-After: 1\r\n", "\r\nConnection: close\r\n", "\r\nContent-Length: 0\r\n"} {
		if !strings.Contains(refusal, line) {
			t.Errorf("refusal lacks %q", line)
		}
	}
	_ = first.Close()
	eventually(t, "place given back", func() bool { return s.Conns() == 1 })
	s.dial(t)
	for range 3 {
		recv(t, "connection", peers)
	}
}

// N1: a connection counts until its handler has been told of its end, so that
// nothing of it is left when none is counted.
func TestEndIsCountedLast(t *testing.T) {
	counted := make(chan int64, 1)
	var srv *Server
	s := serve(t, Config{}, with(nil, func(p *peer) {
		p.onClose = func(*peer, error) { counted <- int64(srv.Conns()) }
	}), func(s *Server) { srv = s })
	_ = s.dial(t).Close()
	if n := recv(t, "OnClose", counted); n != 1 {
		t.Errorf("%d connections at OnClose, want 1", n)
	}
}

// Refused peers that never close hold at most the slots, and only for a time.
func TestLingerersAreBounded(t *testing.T) {
	s := serve(t, Config{MaxConns: 1}, echo)
	keep := s.dial(t)
	send(t, keep, "x")
	expect(t, keep, "x")
	n := s.Limits().slots + 40
	for range n {
		s.dial(t)
	}
	eventually(t, "all refused", func() bool { return s.Refused().Cap == int64(n) })
	if k := len(s.lingers.slots); k > s.Limits().slots {
		t.Errorf("%d linger, the bound is %d", k, s.Limits().slots)
	}
	send(t, keep, "y")
	expect(t, keep, "y")
}

// Placement is even to the connection.
func TestEvenPlacement(t *testing.T) {
	const loops, n = 4, 2000
	peers := make(chan *peer, n)
	s := serve(t, Config{Loops: loops}, with(peers, nil))
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = s.dial(t)
	}
	seen := map[*loop.Loop]int{}
	for range n {
		seen[recv(t, "connection", peers).l]++
	}
	for i, l := range s.Loops() {
		if seen[l] != n/loops || s.LoopConns()[i] != n/loops {
			t.Errorf("loop %d has %d connections, counted %d, want %d", i, seen[l], s.LoopConns()[i], n/loops)
		}
	}
	if s.Conns() != n {
		t.Errorf("Conns = %d, want %d", s.Conns(), n)
	}
}

// Posts from many goroutines all run, each goroutine's in order, those made
// before Serve too.
func TestDoorbell(t *testing.T) {
	const posters, posts = 16, 2000
	var early atomic.Int64
	s := serve(t, Config{Loops: 2}, echo, func(s *Server) {
		for _, l := range s.Loops() {
			for range 100 {
				if err := l.Post(func() { early.Add(1) }); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var ran [2]int64 // by loop, owned by it
	var wg sync.WaitGroup
	for i := range posters {
		wg.Go(func() {
			which := i % 2
			l := s.Loops()[which]
			last := -1
			for k := range posts {
				f := func() {
					ran[which]++
					if k != last+1 {
						t.Errorf("poster %d: %d ran after %d", i, k, last)
					}
					last = k
				}
				for l.Post(f) != nil {
				}
			}
		})
	}
	wg.Wait()
	for i, l := range s.Loops() {
		onLoop(t, l, func() {
			if ran[i] != posters/2*posts {
				t.Errorf("loop %d ran %d functions, want %d", i, ran[i], posters/2*posts)
			}
		})
	}
	if early.Load() != 200 {
		t.Errorf("%d functions posted before Serve ran, want 200", early.Load())
	}
}
