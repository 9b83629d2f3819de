package netloop

import (
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
)

// Many connections that fail in one turn are all closed (the list of the
// doomed is cut by time and continued).
func TestManyDoomedAtOnce(t *testing.T) {
	const n = 1500
	peers := make(chan *peer, n)
	s := serve(t, Config{Loops: 1}, with(peers, nil))
	ps := make([]*peer, n)
	for i := range ps {
		s.dial(t)
		ps[i] = recv(t, "connection", peers)
	}
	onLoop(t, ps[0].l, func() {
		for i, p := range ps {
			if i%2 == 0 {
				p.Close()
			} else {
				p.Abort()
			}
		}
	})
	for i, p := range ps {
		want := error(nil)
		if i%2 == 1 {
			want = ErrAborted
		}
		wantErr(t, "OnClose", recv(t, "OnClose", p.closed), want)
	}
	eventually(t, "connections uncounted", func() bool { return s.Conns() == 0 })
}

// What a later drainer of the same turn dooms is closed without another event.
func TestDoomedByDrainer(t *testing.T) {
	peers := make(chan *peer, 1)
	d := &closer{}
	s := serve(t, Config{}, with(peers, nil), func(s *Server) {
		s.Loops()[0].AddDrainer(d)
		s.checkEvery = time.Hour // no other ring
	})
	s.dial(t)
	p := recv(t, "connection", peers)
	onLoop(t, p.l, func() { d.victim = p })
	wantErr(t, "OnClose", recv(t, "OnClose", p.closed), nil)
}

// closer is a drainer that closes one connection.
type closer struct{ victim *peer }

func (d *closer) Drain(time.Time) bool {
	if d.victim != nil {
		d.victim.Close()
		d.victim = nil
	}
	return false
}

var _ loop.Transport = (*conn)(nil)
