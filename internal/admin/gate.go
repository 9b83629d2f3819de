package admin

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// gate is a listener that lets in a fixed number of connections (AD1). The
// next one is not accepted before one of them is over: it waits in the
// kernel's queue, which has a bound of its own (listen(2)).
//
// A connection counts until its goroutine is done with it, which the server
// tells by way of connState. So a closed socket whose handler still runs
// counts, and drain finds out that no goroutine is left.
type gate struct {
	net.Listener

	slots  chan struct{} // one element a connection, or an accept under way
	closed chan struct{}
	once   sync.Once

	open atomic.Int64 // connections
}

func newGate(ln net.Listener, conns int) *gate {
	return &gate{Listener: ln, slots: make(chan struct{}, conns), closed: make(chan struct{})}
}

// Accept waits for room and then for a connection.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case g.slots <- struct{}{}:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	c, err := g.Listener.Accept()
	if err != nil {
		<-g.slots
		return nil, err
	}
	return c, nil
}

// Close ends Accept also while that waits for room: http.Server.Shutdown waits
// for Serve to return, whatever its context says.
func (g *gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

// connState is the server's hook: it sees each accepted connection once as new
// and once, when nothing runs for it any more, as closed.
func (g *gate) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		g.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		g.open.Add(-1)
		<-g.slots
	}
}

// drain waits until no connection is left. Accept must have ended, and lets
// nothing in after this.
func (g *gate) drain() {
	for range cap(g.slots) {
		g.slots <- struct{}{}
	}
}
