package netloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/sluice-relay/sluice/engine/loop"
)

// R14: a panic closes its connection and is counted; the loop and the others
// live.
func TestPanicsAreContained(t *testing.T) {
	for name, script := range map[string]func(p *peer){
		"OnData": func(p *peer) { p.data = func(*peer, []byte) { panic("data") } },
		"OnWritable": func(p *peer) {
			p.data = func(p *peer, _ []byte) { p.WantWritable() }
			p.writable = func(*peer) { panic("writable") }
		},
		"OnClose": func(p *peer) {
			p.data = func(p *peer, _ []byte) { p.Abort() }
			p.onClose = func(*peer, error) { panic("close") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			peers := make(chan *peer, 2)
			var second atomic.Bool
			s := serve(t, Config{}, with(peers, func(p *peer) {
				if second.Swap(true) {
					script(p)
				}
			}))
			good := s.dial(t)
			recv(t, "connection", peers)
			c := s.dial(t)
			p := recv(t, "connection", peers)
			send(t, c, "x")
			wantErr(t, "OnClose", recv(t, "OnClose", p.closed), ErrAborted)
			if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("peer reads %v, want ECONNRESET", err)
			}
			onLoop(t, s.Loops()[0], func() {})
			if n := s.Loops()[0].Panics(); n != 1 || p.closes.Load() != 1 {
				t.Errorf("%d panics counted, OnClose called %d times", n, p.closes.Load())
			}
			send(t, good, "x")
		})
	}
}

// A panicking or refusing accept function costs its connection only.
func TestAcceptFunctionFails(t *testing.T) {
	var calls atomic.Int32
	s := serve(t, Config{}, func(l *loop.Loop, tr loop.Transport) loop.Handler {
		switch calls.Add(1) {
		case 1:
			tr.WantWritable()
			panic("accept")
		case 2:
			return nil
		}
		return echo(l, tr)
	})
	for range 2 {
		// The reset may come before the peer's connect has returned.
		c, err := net.Dial("tcp", s.Addrs()[0].String())
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(patience))
			_, err = io.ReadAll(c)
			_ = c.Close()
		}
		wantErr(t, "peer's read", err, syscall.ECONNRESET)
	}
	c := s.dial(t)
	send(t, c, "x")
	expect(t, c, "x")
	if n := s.Loops()[0].Panics(); n != 1 || s.Conns() != 1 {
		t.Errorf("%d panics counted, %d connections", n, s.Conns())
	}
}

// A panic of a drainer is contained and the loop goes on.
func TestDrainerPanics(t *testing.T) {
	d := &drainer{}
	s := serve(t, Config{}, echo, func(s *Server) { s.Loops()[0].AddDrainer(d) })
	c := s.dial(t)
	d.panics.Store(true)
	s.Loops()[0].Ring()
	eventually(t, "panic counted", func() bool { return s.Loops()[0].Panics() > 0 })
	d.panics.Store(false)
	send(t, c, "x")
	expect(t, c, "x")
}

type drainer struct{ panics atomic.Bool }

func (d *drainer) Drain(time.Time) bool {
	if d.panics.Load() {
		panic("drain")
	}
	return false
}

// A loop that dies ends Serve with an error, at once.
func TestDeadLoopIsFatal(t *testing.T) {
	checkLeaks(t)
	peers := make(chan *peer, 1)
	s := serveRaw(t, Config{Loops: 2}, with(peers, nil))
	s.dial(t)
	p := recv(t, "connection", peers)
	err := p.Transport.(*conn).r.el.Execute(context.Background(), gnet.RunnableFunc(
		func(context.Context) error { return gneterrors.ErrEngineShutdown }))
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Serve", recv(t, "Serve returns", s.served), ErrLoopDied)
	wantErr(t, "OnClose", recv(t, "OnClose", p.closed), ErrLoopDied)
	s.stop(t)
}

// A loop that hangs ends Serve with an error.
func TestHangingLoopIsFatal(t *testing.T) {
	checkLeaks(t)
	s := serveRaw(t, Config{Loops: 2}, echo, func(s *Server) {
		// So many that the other loop has a turn meanwhile, whatever else the
		// machine does.
		s.checkEvery, s.deadChecks = time.Millisecond, 1000
	})
	release := make(chan struct{})
	if err := s.Loops()[1].Post(func() { <-release }); err != nil {
		t.Fatal(err)
	}
	err := recv(t, "Serve returns", s.served)
	wantErr(t, "Serve", err, ErrLoopDied)
	if !strings.Contains(fmt.Sprint(err), "loop 1") {
		t.Errorf("%v does not name loop 1", err)
	}
	close(release)
	s.stop(t)
}

// Idle loops are given turns, and are not taken for dead.
func TestIdleLoopsLive(t *testing.T) {
	s := serve(t, Config{Loops: 2}, echo, func(s *Server) {
		s.checkEvery, s.deadChecks = time.Millisecond, 1000
	})
	eventually(t, "1100 turns of each loop", func() bool {
		for _, l := range s.Loops() {
			if l.Turns() < 1100 || l.LastTurn().IsZero() {
				return false
			}
		}
		return true
	})
}
