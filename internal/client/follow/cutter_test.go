package follow

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a proxy that cuts each connection after a random number of bytes,
// until it is told to be calm.
type cutter struct {
	addr    string
	backend atomic.Pointer[string]
	calm    atomic.Bool
	cuts    atomic.Int64
	most    atomic.Int64 // cuts until it is calm by itself, 0 for no end
	longest int          // bytes until a cut, at most

	ln    net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	rand  *rand.Rand
	conns map[net.Conn]struct{}
}

func startCutter(tb testing.TB, backend string, seed uint64, longest int) *cutter {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &cutter{
		addr: ln.Addr().String(), ln: ln, longest: longest,
		rand: rand.New(rand.NewPCG(seed, 1)), conns: map[net.Conn]struct{}{},
	}
	c.backend.Store(&backend)
	c.wg.Go(c.accept)
	tb.Cleanup(func() {
		_ = ln.Close()
		c.cutAll()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		front, err := c.ln.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.join(front) })
	}
}

// join connects a client with the backend.
func (c *cutter) join(front net.Conn) {
	defer func() { _ = front.Close() }()
	back, err := net.Dial("tcp", *c.backend.Load())
	if err != nil {
		return
	}
	defer func() { _ = back.Close() }()
	c.mu.Lock()
	// A request is much shorter than its answer: cut some of them too.
	down, up, reset := 1+c.rand.IntN(c.longest), 1+c.rand.IntN(20_000), c.rand.IntN(2) == 0
	c.conns[front], c.conns[back] = struct{}{}, struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.conns, front)
		delete(c.conns, back)
		c.mu.Unlock()
	}()
	if reset { // no FIN that would look like an orderly end
		_ = front.(*net.TCPConn).SetLinger(0)
	}
	var both sync.WaitGroup
	pipe := func(dst, src net.Conn, limit int) {
		c.copy(dst, src, limit)
		_, _ = front.Close(), back.Close()
	}
	both.Go(func() { pipe(back, front, up) })
	both.Go(func() { pipe(front, back, down) })
	both.Wait()
}

// copy copies until the limit is reached, if there is one still.
func (c *cutter) copy(dst, src net.Conn, limit int) {
	buf := make([]byte, 4096)
	for {
		n := len(buf)
		if !c.calm.Load() {
			n = min(n, max(limit, 1)) // it was passed if the calm ends just now
		}
		n, err := src.Read(buf[:n])
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			return
		}
		if limit -= n; limit <= 0 && !c.calm.Load() {
			if n := c.cuts.Add(1); n == c.most.Load() {
				c.calm.Store(true)
			}
			return
		}
	}
}

// cutAll cuts all connections.
func (c *cutter) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
	}
}
