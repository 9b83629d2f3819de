package firehoseclients

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

// proxy stands between a client and the relay: it notes how clients come, and
// takes their connections away. Any goroutine may use it.
type proxy struct {
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
	requests []string              // targets of the requests, in order
	conns    map[net.Conn]struct{} // open ones of both sides
}

const uncut = -1

// startProxy starts a proxy to an address. It ends with the test.
func startProxy(t *testing.T, relay string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, relay: relay, left: uncut, conns: map[net.Conn]struct{}{}}
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

func (p *proxy) url() string { return "ws://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wait.Go(func() { p.serve(conn) })
	}
}

// serve carries one connection until either side ends it.
func (p *proxy) serve(client net.Conn) {
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
func (p *proxy) enter(conn net.Conn) bool {
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

func (p *proxy) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// toClient writes to a client, up to where it is cut.
type toClient struct {
	p     *proxy
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

// drop ends all connections, with a reset or not, and holds new ones.
func (p *proxy) drop(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	p.dropLocked(reset)
}

func (p *proxy) dropLocked(reset bool) {
	for conn := range p.conns {
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// cutAfter lets so many bytes more through to clients, and then does as drop.
func (p *proxy) cutAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = bytes
}

// release lets held connections in.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.changed.Broadcast()
}

// targets returns how clients have come so far: their requests' targets.
func (p *proxy) targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// await waits until the relay has answered on so many connections. Then a
// consumer without a cursor is live (F19).
func (p *proxy) await(t *testing.T, count int) {
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
