package serve

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// TestPeerCloses: a Close is answered with a Close of the same code and the end
// of the connection (RFC 6455 section 5.5.1, R303).
func TestPeerCloses(t *testing.T) {
	for code, want := range map[int]string{0: "close:0", 1000: "close:1000", 1001: "close:1001", 4321: "close:4321"} {
		a := &app{}
		r := newRig(t, a)
		s, p := openSocket(r, a)
		p.hook = func(event string) {
			if event == "text then" {
				t.Error("a message behind a Close was handed over")
			}
		}
		s.send(textFrame("last") + closeFrame(code) + textFrame("then"))
		s.wantFrames(want)
		s.wantState("closed")
		if got := strings.Join(p.log, "|"); got != "text last|close" {
			t.Errorf("the handler was told %q", got)
		}
	}
}

// TestPeerClosesWhileOwed: what is owed is dropped but for the frame that is
// partly written.
func TestPeerClosesWhileOwed(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	s.room = 4
	p.peer.Send(serverText("torn"))
	p.peer.Send(serverText("dropped"))
	s.send(closeFrame(1000))
	s.wantState("open")
	s.takeAll()
	s.wantFrames("text:torn|close:1000")
	s.wantState("closed")
}

// TestR333ProtocolErrors: one Close with the right code, then a FIN; others do
// not suffer (C19, C21, C22).
func TestR333ProtocolErrors(t *testing.T) {
	long := strings.Repeat("x", 126)
	for _, c := range []struct {
		name, in string
		want     string
	}{
		{"unmasked", "\x81\x01x", "close:1002"},
		{"reserved opcode 3", frame(3, true, "x"), "close:1002"},
		{"reserved opcode 11", frame(11, true, "x"), "close:1002"},
		{"rsv1", "\xc1\x81\x00\x00\x00\x00x", "close:1002"},
		{"continuation first", frame(wsframe.OpContinuation, true, "x"), "close:1002"},
		{"text in text", frame(wsframe.OpText, false, "x") + textFrame("y"), "close:1002"},
		{"ping in pieces", frame(wsframe.OpPing, false, "x"), "close:1002"},
		{"long ping", frame(wsframe.OpPing, true, long), "close:1002"},
		{"long close", frame(wsframe.OpClose, true, long), "close:1002"},
		{"close of one byte", frame(wsframe.OpClose, true, "x"), "close:1002"},
		{"close code 1005", closeFrame(1005), "close:1002"},
		{"bad utf-8", textFrame("\xff"), "close:1007"},
		{"bad utf-8 reason", frame(wsframe.OpClose, true, "\x03\xe8\xff"), "close:1007"},
		{"declared 2^34", "\x81\xff\x00\x00\x00\x04\x00\x00\x00\x00", "close:1009"},
		{"declared 2^63-1", "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff", "close:1009"},
		{"declared 2^63", "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00", "close:1002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			other, q := openSocket(r, a)
			s, p := openSocket(r, a)
			s.send(textFrame("good") + c.in)
			s.send(textFrame("more") + closeFrame(1000))
			s.wantFrames(c.want)
			s.wantState("fin")
			if got := strings.Join(p.log, "|"); got != "text good|close" {
				t.Errorf("the handler was told %q", got)
			}
			r.pass(LingerTimeout + tick)
			s.wantState("closed")
			other.send(textFrame("on"))
			if q.texts() != "on" {
				t.Error("the other socket suffered")
			}
		})
	}
}

// TestCloseSocket: a Close goes out behind what is owed, messages are no longer
// handed over, and the peer's Close ends the connection.
func TestCloseSocket(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	s.room = 0
	p.peer.Send(serverText("owed"))
	p.peer.CloseSocket(1001, "bye", CloseTimeout)
	p.peer.CloseSocket(1002, "twice", CloseTimeout)
	p.peer.Send(serverText("late"))
	if got := strings.Join(p.log, "|"); got != "close" {
		t.Errorf("the handler was told %q", got)
	}
	s.takeAll()
	s.wantFrames("text:owed|close:1001 bye")
	s.send(textFrame("crossing") + pingFrame("p"))
	s.wantState("open")
	s.send(closeFrame(1001))
	s.wantFrames("")
	s.wantState("closed")
	if got := strings.Join(p.log, "|"); got != "close" {
		t.Errorf("the handler was told %q", got)
	}
}

// TestR428Patience: a peer that does not finish the handshake in time is reset,
// whatever it does meanwhile.
func TestR428Patience(t *testing.T) {
	for _, c := range []struct {
		name string
		room int
		act  func(*sock)
		want string
	}{
		{"reads, does not answer", -1, func(*sock) {}, "reset"},
		{"does not read", 0, func(*sock) {}, "reset"},
		{"does not read and answers", 0, func(s *sock) { s.send(closeFrame(1013)) }, "reset"},
		{"does not read and breaks rules", 0, func(s *sock) { s.send(badFrame) }, "reset"},
		{"reads and breaks rules", -1, func(s *sock) { s.send(badFrame) }, "closed"},
		{"reads a little", 0, func(s *sock) { s.take(5) }, "reset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			s, p := openSocket(r, a)
			s.room = c.room
			p.peer.Send(serverText("closing"))
			p.peer.CloseSocket(1013, "backpressure", BackpressureTimeout)
			r.pass(BackpressureTimeout - seconds(1))
			c.act(s)
			r.pass(seconds(1) - tick)
			if s.doomed {
				t.Fatal("the connection ended too early")
			}
			r.pass(2 * tick)
			s.wantState(c.want)
		})
	}
}

// TestCloseWhileHolding: a handler that holds input can close; the peer's Close
// is found behind the messages that nobody takes any more.
func TestCloseWhileHolding(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	p.peer.Hold()
	s.send(textFrame("waits") + pingFrame("p"))
	p.peer.CloseSocket(1001, "", CloseTimeout)
	s.wantFrames("close:1001")
	s.send(textFrame("more") + closeFrame(1001))
	s.wantState("closed")
	if p.texts() != "" {
		t.Errorf("texts %q after OnClose", p.texts())
	}

	s, p = openSocket(r, a)
	p.peer.Hold()
	s.send(textFrame("waits") + closeFrame(1000)) // the peer was first
	s.wantState("open")
	p.peer.CloseSocket(1001, "", CloseTimeout)
	s.wantFrames("close:1001")
	s.wantState("closed")
}

// TestCloseFromAnotherSocket: closing a socket that holds input, from inside
// another's OnText, leaves that text alone.
func TestCloseFromAnotherSocket(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	p.peer.Hold()
	s.send(textFrame("something else that is long enough") + closeFrame(1000))
	other, q := openSocket(r, a)
	h := &closer{recorder: q, victim: p.peer}
	other.conn().peer.handler = h
	other.send(textFrame("the text of this one, which stays"))
	if h.before != h.after || h.before == "" {
		t.Errorf("the text turned from %q to %q", h.before, h.after)
	}
	s.wantState("closed")
}

// closer closes a victim in the middle of a message.
type closer struct {
	*recorder
	victim        *Peer
	before, after string
}

func (c *closer) OnText(text []byte) {
	c.before = string(text)
	c.victim.CloseSocket(1008, "", CloseTimeout)
	c.after = string(text)
}

// TestOnCloseOnce: in each ending the handler is told once, and last.
func TestOnCloseOnce(t *testing.T) {
	for name, end := range map[string]func(r *rig, s *sock, p *recorder){
		"lost":           func(_ *rig, s *sock, _ *recorder) { s.hangUp() },
		"abort":          func(_ *rig, _ *sock, p *recorder) { p.peer.Abort() },
		"close socket":   func(_ *rig, _ *sock, p *recorder) { p.peer.CloseSocket(1000, "", CloseTimeout) },
		"peer closes":    func(_ *rig, s *sock, _ *recorder) { s.send(closeFrame(1000)) },
		"protocol error": func(_ *rig, s *sock, _ *recorder) { s.send(badFrame) },
		"close all":      func(r *rig, _ *sock, _ *recorder) { r.worker.CloseAll() },
		"close in text": func(_ *rig, s *sock, p *recorder) {
			p.hook = func(event string) {
				if event == "text x" {
					p.peer.CloseSocket(1000, "", CloseTimeout)
				}
			}
			s.send(textFrame("x") + textFrame("y") + closeFrame(1000))
		},
		"abort in text": func(_ *rig, s *sock, p *recorder) {
			p.hook = func(event string) {
				if event == "text x" {
					p.peer.Abort()
				}
			}
			s.send(textFrame("x") + textFrame("y") + closeFrame(1000))
		},
		"abort in close": func(_ *rig, s *sock, p *recorder) {
			p.hook = func(event string) {
				if event == "close" {
					p.peer.Abort()
					p.peer.CloseSocket(1000, "", CloseTimeout)
				}
			}
			s.send(closeFrame(1000))
		},
		"broken": func(r *rig, s *sock, p *recorder) {
			s.broken = errSockClosed
			p.peer.Send(serverText("x"))
			r.run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			s, p := openSocket(r, a)
			p.subscribe()
			r.run()
			end(r, s, p)
			r.run()
			if r.set.Members() != 0 {
				t.Error("the subscriber did not go at once (R334)")
			}
			r.pass(seconds(20))
			if !s.ended {
				t.Errorf("the connection is %s", s.state())
			}
			if p.count("close") != 1 || p.log[len(p.log)-1] != "close" {
				t.Errorf("the handler was told %q", p.log)
			}
		})
	}
}
