package nodetest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// headBytes bounds a request's first line.
const headBytes = 4096

// Proxy stands between a client and the relay: it notes how clients come, and
// takes their connections away. Any goroutine may use it.
type Proxy struct {
	listener net.Listener
	relay    string
	wait     sync.WaitGroup

	// Guarded by mu.
	mu       sync.Mutex
	changed  *sync.Cond            // held or closed
	answered int                   // connections that the relay has answered on
	held     bool                  // new connections wait
	closed   bool                  // the test is over
	left     int64                 // bytes to a client until it is cut, or uncut
	requests []string              // Targets of the requests, in order
	conns    map[net.Conn]struct{} // open ones of both sides
}

const uncut = -1

// StartProxy starts a proxy to an address. It ends with the test.
func StartProxy(t testing.TB, relay string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, relay: relay, left: uncut, conns: map[net.Conn]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.closed = true
		p.changed.Broadcast()
		p.dropLocked(false)
		p.mu.Unlock()
		p.wait.Wait()
	})
	return p
}

// URL is ws:// and the address that clients connect to.
func (p *Proxy) URL() string { return "ws://" + p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wait.Go(func() { p.serve(conn) })
	}
}

// serve carries one connection until either side ends it.
func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	if !p.enter(client) {
		return
	}
	defer p.forget(client)
	in := bufio.NewReaderSize(client, headBytes)
	first, err := in.ReadSlice('\n')
	if err != nil {
		return
	}
	head := strings.Fields(string(first))
	if len(head) != 3 {
		return
	}
	server, err := net.Dial("tcp", p.relay)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !p.enter(server) {
		return
	}
	defer p.forget(server)
	p.mu.Lock()
	p.requests = append(p.requests, head[1])
	p.mu.Unlock()
	p.wait.Go(func() {
		_, _ = server.Write([]byte(strings.Join(head, " ") + "\r\n"))
		_, _ = io.Copy(server, in)
		_ = server.Close()
	})
	_, _ = io.Copy(&toClient{p: p, conn: client}, server)
}

// enter notes a connection, once none are held.
func (p *Proxy) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held && !p.closed {
		p.changed.Wait()
	}
	if p.closed {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// toClient writes to a client, up to where it is cut.
type toClient struct {
	p     *Proxy
	conn  net.Conn
	begun bool
}

var errCut = errors.New("cut")

func (w *toClient) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	left := w.p.left
	cut := left != uncut && int64(len(b)) >= left
	switch {
	case cut:
		b = b[:left]
	case left != uncut:
		w.p.left -= int64(len(b))
	}
	w.p.mu.Unlock()
	n, err := w.conn.Write(b)
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if !w.begun {
		w.begun = true
		w.p.answered++
	}
	if err != nil || !cut {
		return n, err
	}
	w.p.left, w.p.held = uncut, true
	w.p.dropLocked(false)
	return n, errCut
}

// Drop ends all connections, with a reset or not, and holds new ones.
func (p *Proxy) Drop(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	p.dropLocked(reset)
}

func (p *Proxy) dropLocked(reset bool) {
	for conn := range p.conns {
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// CutAfter lets so many bytes more through to clients, and then does as Drop.
func (p *Proxy) CutAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = bytes
}

// Release lets held connections in.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.changed.Broadcast()
}

// Targets returns how clients have come so far: their requests' targets.
func (p *Proxy) Targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Await waits until the relay has answered on so many connections.
func (p *Proxy) Await(t testing.TB, count int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		answered := p.answered
		p.mu.Unlock()
		if answered >= count {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d clients were answered", answered, count)
		}
	}
}
