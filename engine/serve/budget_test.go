package serve

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// TestR46Body: a request for which there is no room is answered by its handler,
// and the connection goes on.
func TestR46Body(t *testing.T) {
	a := &app{}
	r := newRigConfig(t, Config{Handler: a, Budget: NewBudget(1000)})
	s := r.dial()
	s.send(post("/echo", strings.Repeat("x", 1001)) + post("/echo", strings.Repeat("y", 1000)))
	s.wantAnswers("Service Unavailable|OK " + strings.Repeat("y", 1000) + "|")
	s.wantState("open")
}

// TestR46GivenBack: whatever was reserved is given back in every ending, at
// once.
func TestR46GivenBack(t *testing.T) {
	const halfBody = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf of it"
	halfFrame := textFrame(strings.Repeat("x", 200))[:100]
	holding := func(p *recorder) { p.peer.Hold() }
	for _, c := range []struct {
		name string
		in   string
		act  func(*recorder) // on the newest peer, before more is sent
		more string
	}{
		{name: "mid-body", in: halfBody},
		{name: "mid-chunk", in: request("POST", "/echo", "5\r\nhal", "Transfer-Encoding: chunked")},
		{name: "held requests", in: get("/later") + strings.Repeat(get("/now"), 10)},
		{name: "held behind a replay", in: get("/replay") + strings.Repeat(get("/now"), 10)},
		{name: "mid-message", in: upgradeHead + halfFrame},
		{name: "mid-fragments", in: upgradeHead + frame(wsframe.OpText, false, strings.Repeat("x", 300))},
		{name: "mid-control", in: upgradeHead + pingFrame("a payload")[:10]},
		{name: "held messages", in: upgradeHead, act: holding, more: textFrame("one") + textFrame("two")},
	} {
		for _, end := range []struct {
			name string
			do   func(r *rig, s *sock)
		}{
			{"peer goes", func(_ *rig, s *sock) { s.hangUp() }},
			{"reset here", func(r *rig, s *sock) { s.conn().abort(); r.run() }},
			{"closed here", func(r *rig, s *sock) { s.conn().close(); r.run() }},
			{"all closed", func(r *rig, _ *sock) { r.worker.CloseAll(); r.run() }},
			{"time goes by", func(r *rig, s *sock) {
				if c := s.conn(); c.peer != nil && c.peer.chunked {
					c.peer.EndStream()
				} else if c.peer != nil {
					c.peer.CloseSocket(1000, "", CloseTimeout)
				}
				r.pass(seconds(3))
				if s.conn().x != nil && !s.conn().inBody() {
					s.conn().x.refuse(503, "shutting down")
				}
				r.pass(seconds(120))
			}},
			{"protocol error", func(_ *rig, s *sock) {
				if s.conn().x != nil && !s.conn().inBody() || s.conn().phase == phaseStream {
					s.hangUp() // what is held is not read
					return
				}
				if c := s.conn(); c.socket != nil && c.socket.holding {
					c.peer.Release()
				}
				// Ends whatever body there was, then is no HTTP and no frame.
				s.send(strings.Repeat("\xff\x00", 1000))
			}},
		} {
			t.Run(c.name+"/"+end.name, func(t *testing.T) {
				a := &app{}
				r := newRig(t, a)
				s := r.dial()
				s.send(c.in)
				if c.act != nil {
					c.act(a.last())
					s.send(c.more)
				}
				if r.budget.UsedBytes() == 0 {
					t.Fatal("nothing is reserved")
				}
				end.do(r, s)
				if n := r.budget.UsedBytes(); n != 0 {
					t.Errorf("%d bytes are still reserved", n)
				}
				for _, b := range a.bodies {
					if b.done != 1 {
						t.Errorf("Done was called %d times", b.done)
					}
				}
				for _, p := range a.peers {
					if n := p.count("close"); n != 1 {
						t.Errorf("OnClose was called %d times", n)
					}
				}
			})
		}
	}
}

// TestR46Message: a message for which there is no room closes 1013.
func TestR46Message(t *testing.T) {
	a := &app{}
	r := newRigConfig(t, Config{Handler: a, Budget: NewBudget(2000)})
	s, p := openSocket(r, a)
	p.peer.SetLimit(1 << 20)
	s.send(textFrame(strings.Repeat("a", 3000))) // in one read: nothing is kept
	s.wantFrames("")
	big := textFrame(strings.Repeat("b", 3000))
	s.send(big[:2500])
	s.wantFrames("close:1013 try again later")
	s.send(big[2500:] + closeFrame(1013))
	s.wantState("closed")
	if got := r.worker.Stats().OverLimit; got != 1 {
		t.Errorf("OverLimit is %d, want 1", got)
	}
	if n := r.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes are still reserved", n)
	}
	if got := strings.Join(p.log[1:], " "); got != "overloaded close" {
		t.Errorf("the handler was told %q", got)
	}
}

// TestBudget: what is there can be taken, not more.
func TestBudget(t *testing.T) {
	b := NewBudget(10)
	if !b.Take(4) || !b.Take(6) || b.Take(1) || b.UsedBytes() != 10 {
		t.Errorf("%d bytes are used of 10", b.UsedBytes())
	}
	if b.Give(6); !b.Take(6) || b.Take(7) || b.UsedBytes() != 10 {
		t.Errorf("%d bytes are used of 10", b.UsedBytes())
	}
}

// TestDoneOnStream: a body that was asked for is over when the answer turns out
// to be a stream.
func TestDoneOnStream(t *testing.T) {
	a := &app{}
	b := &streamingBody{p: &recorder{}}
	a.extra = map[string]func(*Exchange){"/streaming": func(x *Exchange) {
		b.w = x.Worker()
		x.ReadBody(b)
	}}
	r := newRig(t, a)
	s := r.dial()
	s.send(post("/streaming", "query"))
	if b.done != 1 {
		t.Errorf("Done was called %d times", b.done)
	}
	if _, rest := s.answersAnd(); !strings.HasPrefix(rest, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("got %q", rest)
	}
}

// streamingBody answers with a stream when it is complete.
type streamingBody struct {
	echoBody
	p *recorder
}

func (b *streamingBody) End(x *Exchange) { x.Stream(nil, b.p, false, b.p.begin) }
