package serve

import (
	"strings"
	"testing"
)

// stalledPeers makes a stream and a socket whose kernels take nothing; each is
// owed something by owe.
func forBothPeers(t *testing.T, f func(t *testing.T, r *rig, s *sock, p *recorder)) {
	t.Run("stream", func(t *testing.T) {
		a := &app{}
		r := newRig(t, a)
		s := r.dial()
		s.send(get("/stream"))
		f(t, r, s, a.last())
	})
	t.Run("socket", func(t *testing.T) {
		a := &app{}
		r := newRig(t, a)
		s, p := openSocket(r, a)
		f(t, r, s, p)
	})
}

// owings are the ways in which a peer comes to be owed bytes.
var owings = map[string]func(r *rig, p *recorder){
	"send": func(_ *rig, p *recorder) { p.peer.Send(serverText("sent")) },
	"live": func(r *rig, p *recorder) {
		p.subscribe()
		r.run()
		r.publish(serverText("published"))
	},
}

// TestR424Stalled: a peer that takes nothing for 90 s while it is owed bytes is
// given up, once; a plain write is tried every 10 s.
func TestR424Stalled(t *testing.T) {
	for name, owe := range owings {
		t.Run(name, func(t *testing.T) {
			forBothPeers(t, func(t *testing.T, r *rig, s *sock, p *recorder) {
				p.hook = func(event string) {
					if event == "stalled" {
						p.peer.Abort()
					}
				}
				r.pass(seconds(1000)) // owed nothing: no reason to end
				s.room = 0
				s.unacked = 5000
				before := s.writes
				owe(r, p)
				r.pass(StallTimeout - seconds(1))
				if p.count("stalled") != 0 {
					t.Fatal("given up too early")
				}
				if n := s.writes - before; n < 9 || n > 10 {
					t.Errorf("%d writes were tried, want one at first and one each 10 s", n)
				}
				r.pass(RetryInterval + seconds(1))
				if n := p.count("stalled"); n != 1 {
					t.Errorf("Stalled was called %d times", n)
				}
				s.wantState("reset")
				if got := r.worker.Stats().Stalled; got != 1 {
					t.Errorf("Stalled counts %d", got)
				}
				r.pass(seconds(200))
				if n := p.count("stalled"); n != 1 {
					t.Errorf("Stalled was called %d times", n)
				}
			})
		})
	}
}

// TestR424Progress: bytes that the kernel takes, or that the peer acknowledges,
// are progress.
func TestR424Progress(t *testing.T) {
	for name, step := range map[string]func(*sock){
		"taken":        func(s *sock) { s.take(1) },
		"acknowledged": func(s *sock) { s.unacked-- },
		"taken unseen": func(s *sock) { s.room = 1 }, // no OnWritable
	} {
		for how, owe := range owings {
			t.Run(name+"/"+how, func(t *testing.T) {
				forBothPeers(t, func(t *testing.T, r *rig, s *sock, p *recorder) {
					s.room, s.unacked = 0, 5000
					owe(r, p)
					for range 10 {
						p.peer.Send(serverText(strings.Repeat("x", 20)))
					}
					for range 12 {
						r.pass(StallTimeout - seconds(15))
						step(s)
					}
					if p.count("stalled") != 0 {
						t.Error("given up in spite of progress")
					}
					r.pass(StallTimeout + RetryInterval + seconds(1))
					if p.count("stalled") == 0 {
						t.Error("not given up after the progress ended")
					}
				})
			})
		}
	}
}

// TestStalledSocketCloses: a socket that is given up may say so first; then it
// has its patience and no more.
func TestStalledSocketCloses(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	p.hook = func(event string) {
		if event == "stalled" {
			p.peer.DropUnsent()
			p.peer.CloseSocket(1013, "backpressure", BackpressureTimeout)
		}
	}
	s.room = 0
	p.peer.Send(serverText("x"))
	r.pass(StallTimeout + tick)
	if got := strings.Join(p.log, "|"); got != "stalled|close" {
		t.Fatalf("the handler was told %q", got)
	}
	r.pass(BackpressureTimeout - 2*tick)
	s.wantState("open")
	r.pass(3 * tick)
	s.wantState("reset")
	if n := p.count("stalled"); n != 1 {
		t.Errorf("Stalled was called %d times", n)
	}
}

// TestR424Answer: an HTTP answer that nobody takes ends the connection too.
func TestR424Answer(t *testing.T) {
	r := newRig(t, &app{})
	s := r.dial()
	s.room = 0
	s.send(get("/big"))
	r.pass(StallTimeout - seconds(1))
	s.wantState("open")
	r.pass(RetryInterval + seconds(1))
	s.wantState("reset")
}
