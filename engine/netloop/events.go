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
	if c, ok := g.Context().(*conn); ok {
		return c.traffic(g)
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
// it is how the event loop is learned before there is any connection, and its
// OnClose is how the loop's death is noticed. It is no connection.
type keeper struct {
	reactor *reactor
	peer    *os.File // kept open, or the keeper would see its end
	opened  bool     // written by the loop, read once enrolled
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
		r.el = el
		s.bell.Unlock()
	}
	return nil
}

// socketPair returns two ends of a Unix socket, one as a net.Conn.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	peer := os.NewFile(uintptr(fds[1]), "keeper")
	f := os.NewFile(uintptr(fds[0]), "keeper")
	defer f.Close() //nolint:errcheck // FileConn has its own descriptor
	nc, err := net.FileConn(f)
	if err != nil {
		_ = peer.Close()
		return nil, nil, err
	}
	return nc, peer, nil
}
