package netloop

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// events receives the reactor's callbacks.
type events struct {
	gnet.BuiltinEventEngine
	srv *Server
}

// OnOpen implements gnet.EventHandler.
func (e *events) OnOpen(g gnet.Conn) ([]byte, gnet.Action) {
	switch c := g.Context().(type) {
	case *conn:
		return nil, c.open(g)
	case *keeper:
		c.opened = true
	}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (e *events) OnTraffic(g gnet.Conn) gnet.Action {
	switch c := g.Context().(type) {
	case *conn:
		return c.traffic(g)
	case *keeper:
		_, _ = g.Discard(-1)
		c.reactor.run()
	}
	return gnet.None
}

// OnClose implements gnet.EventHandler. A keeper is closed only when its event
// loop ends.
func (e *events) OnClose(g gnet.Conn, err error) gnet.Action {
	switch c := g.Context().(type) {
	case *conn:
		c.end(err)
	case *keeper:
		if !e.srv.stopping.Load() {
			e.srv.fail(fmt.Errorf("%w: loop %d ended", ErrLoopDied, c.reactor.loop.ID))
		}
	}
	return gnet.None
}

// keeper is the socket that each event loop holds from start to end. Enrolling
// it is how the event loop is learned before there is any connection, what is
// written to its other end is the loop's doorbell, and its OnClose is how the
// loop's death is noticed. It is no connection.
//
// The reactor's own EventLoop.Execute would do as a doorbell, but it allocates
// twice a ring, and a task that calls it again is run before any socket is
// looked at; a readable socket waits for its turn among the others.
type keeper struct {
	reactor *reactor
	peer    int  // descriptor of the other end
	opened  bool // written by the loop, read once enrolled
}

// enrolKeepers gives each reactor its event loop. The library places a socket
// in the loop that has the fewest, so that each gets one.
func (s *Server) enrolKeepers() error {
	seen := map[gnet.EventLoop]bool{}
	for _, r := range s.reactors {
		k := &keeper{reactor: r}
		nc, peer, err := socketPair()
		if err != nil {
			return fmt.Errorf("netloop: keeper socket: %w", err)
		}
		k.peer = peer
		s.keepers = append(s.keepers, k)
		g, err := s.client.EnrollContext(nc, k)
		if err != nil {
			return fmt.Errorf("netloop: keeper socket: %w", err)
		}
		el := g.EventLoop()
		if !k.opened || seen[el] {
			return errors.New("netloop: the reactor did not give each loop one keeper socket")
		}
		seen[el] = true
		s.bell.Lock()
		r.el, r.bell = el, peer
		s.bell.Unlock()
	}
	return nil
}

// socketPair returns two ends of a Unix socket, one as a net.Conn. Neither
// blocks.
func socketPair() (nc net.Conn, peer int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, 0, os.NewSyscallError("socketpair", err)
	}
	f := os.NewFile(uintptr(fds[0]), "keeper")
	defer f.Close() //nolint:errcheck // FileConn has its own descriptor
	if nc, err = net.FileConn(f); err != nil {
		closeDescriptor(fds[1])
		return nil, 0, err
	}
	return nc, fds[1], nil
}
