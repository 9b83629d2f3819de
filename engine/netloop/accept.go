package netloop

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// Back-off after an accept that failed: waiting doubles between these.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
)

// enrolment is a connection on its way into its event loop.
type enrolment struct {
	conn   *conn
	result <-chan gnet.RegisteredResult
}

// refusals are the atomic counters behind Refusals.
type refusals struct{ overCap, descriptors, failed, acceptErrors atomic.Int64 }

// Refusals counts connections that were not served, by reason, since the
// server was made.
type Refusals struct {
	// Cap counts those over the connection cap, answered with 503.
	Cap int64
	// Descriptors counts those refused for want of descriptors, answered with
	// 503 over the spare one or closed.
	Descriptors int64
	// Failed counts those that the reactor could not take.
	Failed int64
	// AcceptErrors counts accept calls that failed, each followed by a wait.
	AcceptErrors int64
}

// Refused returns the counters.
func (s *Server) Refused() Refusals {
	return Refusals{
		Cap:          s.refused.overCap.Load(),
		Descriptors:  s.refused.descriptors.Load(),
		Failed:       s.refused.failed.Load(),
		AcceptErrors: s.refused.acceptErrors.Load(),
	}
}

// Conns returns the number of connections, those being enrolled included.
func (s *Server) Conns() int64 { return s.conns.Load() }

// LoopConns returns the number of connections of each loop, in the order of
// Loops.
func (s *Server) LoopConns() []int64 {
	n := make([]int64, len(s.reactors))
	for i, r := range s.reactors {
		n[i] = r.conns.Load()
	}
	return n
}

// Limits returns the descriptor numbers that the connection cap comes from.
func (s *Server) Limits() Limits { return s.limits }

// acceptFrom accepts until ln is closed. Any other error is waited out: it
// neither ends the server nor spins.
func (s *Server) acceptFrom(ln net.Listener) {
	wait := minBackoff
	for {
		nc, err := ln.Accept()
		if err == nil {
			wait = minBackoff
			s.admit(nc)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		s.refused.acceptErrors.Add(1)
		if wait == minBackoff {
			s.log.Warn("accept failed", "error", err, "conns", s.Conns())
		}
		if exhausted(err) {
			s.refused.descriptors.Add(s.spare.refuseWaiting(ln))
		}
		if !s.pause(wait) {
			return
		}
		wait = min(2*wait, maxBackoff)
	}
}

// pause waits and returns false when the server is stopping.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.quit:
		return false
	}
}

// admit enrols nc, or refuses it when the cap is reached (N1).
func (s *Server) admit(nc net.Conn) {
	for {
		n := s.conns.Load()
		if n >= int64(s.limits.Conns) {
			s.refused.overCap.Add(1)
			s.lingers.refuse(nc)
			return
		}
		if s.conns.CompareAndSwap(n, n+1) {
			break
		}
	}
	c := &conn{r: s.chooseLoop(), gen: s.gens.Add(1)}
	c.remote = takeAddr(nc.RemoteAddr())
	takeAddr(nc.LocalAddr()) // for its zone
	result, err := c.r.el.Enroll(gnet.NewContext(context.Background(), c), nc)
	if err != nil {
		_ = nc.Close()
		s.enrolFailed(c, err)
		return
	}
	s.enrolling <- enrolment{c, result} // bounds those on their way
}

// chooseLoop returns the loop with the fewest connections, which gets one more.
func (s *Server) chooseLoop() *reactor {
	s.place.Lock()
	defer s.place.Unlock()
	best := s.reactors[0]
	least := best.conns.Load()
	for _, r := range s.reactors[1:] {
		if n := r.conns.Load(); n < least {
			best, least = r, n
		}
	}
	best.conns.Add(1)
	return best
}

// unplace gives back what admit took.
func (s *Server) unplace(r *reactor) {
	r.conns.Add(-1)
	s.conns.Add(-1)
}

// collect learns how enrolments ended. The reactor reports a socket that its
// event loop could not register as enrolled; that it never was opened tells.
func (s *Server) collect() {
	for e := range s.enrolling {
		select {
		case r := <-e.result:
			if r.Err != nil || !e.conn.opened {
				s.enrolFailed(e.conn, r.Err)
			}
			<-e.result // closed once the accepted descriptor is
		case <-s.dead: // a dead loop never answers
		}
	}
}

func (s *Server) enrolFailed(c *conn, err error) {
	s.unplace(c.r)
	if exhausted(err) {
		s.refused.descriptors.Add(1)
	} else {
		s.refused.failed.Add(1)
	}
	s.log.Debug("connection not enrolled", "error", err)
}

// takeAddr returns a as a value and clears its zone: the reactor puts the
// zone's string, which net shares, into a pool of writable buffers when the
// connection ends.
func takeAddr(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	t.Zone = ""
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// forgetAddrs gives up the IP addresses that the reactor keeps for g, 64 bytes,
// and nobody asks it for. The enrolment, which needs them, is past that.
func forgetAddrs(g gnet.Conn) {
	for _, a := range [...]net.Addr{g.RemoteAddr(), g.LocalAddr()} {
		if t, ok := a.(*net.TCPAddr); ok {
			t.IP = nil
		}
	}
}
