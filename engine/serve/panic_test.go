package serve

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

// badBody panics where it is told to.
type badBody struct {
	echoBody
	where string
}

func (b *badBody) Data(x *Exchange, p []byte) {
	b.echoBody.Data(x, p)
	if b.where == "Data" {
		panic("Data")
	}
}

func (b *badBody) End(x *Exchange) {
	if b.where == "End" {
		panic("End")
	}
	b.echoBody.End(x)
}

func (b *badBody) Done() {
	b.echoBody.Done()
	if b.where == "Done" {
		panic("Done")
	}
}

// TestR14PanicHTTP: a panic in a handler ends its own connection and is counted.
// One in Done has nothing to end.
func TestR14PanicHTTP(t *testing.T) {
	for _, c := range []struct {
		where, state, answers string
	}{
		{"Serve", "reset", ""},
		{"Serve after Respond", "reset", "OK|"},
		{"Serve after ReadBody", "reset", ""},
		{"begin", "reset", ""},
		{"Data", "reset", ""},
		{"End", "reset", ""},
		{"Done", "open", "OK body|OK /now|"},
	} {
		t.Run(c.where, func(t *testing.T) {
			a := &app{}
			b := &badBody{where: c.where}
			a.extra = map[string]func(*Exchange){"/bad": func(x *Exchange) {
				b.w = x.Worker()
				switch c.where {
				case "Serve":
					panic("Serve")
				case "Serve after Respond":
					reply(x, 200, "")
					panic("Serve")
				case "begin":
					x.Stream(nil, &recorder{}, false, func(*Peer) []byte { panic("begin") })
				}
				x.ReadBody(b)
				if c.where == "Serve after ReadBody" {
					panic("Serve")
				}
			}}
			r := newRig(t, a)
			r.faults = 1
			s, other := r.dial(), r.dial()
			other.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
			s.send(post("/bad", "body") + get("/now"))
			s.wantState(c.state)
			s.wantAnswers(c.answers)
			other.send("cde")
			other.wantAnswers("OK abcde|")
			s.hangUp()
			if n := r.budget.UsedBytes(); n != 0 {
				t.Errorf("%d bytes are still reserved", n)
			}
		})
	}
}

// TestR14PanicPeer: the same for each call of a stream's or socket's handler.
func TestR14PanicPeer(t *testing.T) {
	for _, c := range []struct {
		event string
		act   func(r *rig, s *sock, p *recorder)
	}{
		{"text a", func(_ *rig, s *sock, _ *recorder) { s.send(textFrame("a") + textFrame("b")) }},
		{"binary b", func(_ *rig, s *sock, _ *recorder) { s.send(frame(wsframe.OpBinary, true, "b")) }},
		{"timer", func(r *rig, _ *sock, p *recorder) { p.peer.SetTimer(seconds(1)); r.pass(seconds(2)) }},
		{"shutdown", func(r *rig, _ *sock, _ *recorder) { r.worker.Shutdown(); r.run() }},
		{"drained", func(_ *rig, s *sock, p *recorder) {
			s.room = 0
			p.peer.Send(serverText("x"))
			p.peer.NotifyDrained()
			s.takeAll()
		}},
		{"stalled", func(r *rig, s *sock, p *recorder) {
			s.room = 0
			p.peer.Send(serverText("x"))
			r.pass(StallTimeout + seconds(11))
		}},
		{"close", func(_ *rig, _ *sock, p *recorder) { p.peer.Abort() }},
	} {
		t.Run(c.event, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			r.faults = 1
			s, p := openSocket(r, a)
			other, q := openSocket(r, a)
			p.hook = func(event string) {
				if event == c.event {
					panic(event)
				}
			}
			c.act(r, s, p)
			r.run()
			s.wantState("reset")
			if n := p.count("close"); n != 1 {
				t.Errorf("OnClose was called %d times", n)
			}
			if strings.Contains(p.texts(), "b") {
				t.Error("a message was handed over after the panic")
			}
			if c.event != "shutdown" {
				other.send(textFrame("on"))
				if q.texts() != "on" {
					t.Error("the other socket did not go on")
				}
			} else if q.count("shutdown") != 1 {
				t.Error("the other socket was not told")
			}
		})
	}
}

// TestPanicLeavesTimers: after a panic in one connection's timer those of the
// others still fire.
func TestPanicLeavesTimers(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	r.faults = 1
	_, p := openSocket(r, a)
	_, q := openSocket(r, a)
	p.hook = func(event string) {
		if event == "timer" {
			panic(event)
		}
	}
	p.peer.SetTimer(seconds(1))
	q.peer.SetTimer(seconds(1))
	r.pass(seconds(2))
	if q.count("timer") != 1 {
		t.Error("the other timer did not fire")
	}
}

// TestPanicInHeldRequest: a panic in a request that was held ends its own
// connection, not that of whoever answered.
func TestPanicInHeldRequest(t *testing.T) {
	a := &app{}
	a.extra = map[string]func(*Exchange){
		"/bad": func(*Exchange) { panic("bad") },
		"/answer": func(x *Exchange) {
			a.kept[0].Respond(&http1.Response{Status: 200, KeepAlive: true})
			reply(x, 200, "answered")
		},
	}
	r := newRig(t, a)
	r.faults = 1
	s, other := r.dial(), r.dial()
	s.send(get("/later") + get("/bad"))
	other.send(get("/answer"))
	other.wantAnswers("OK answered|")
	r.await("the end of the connection", func() bool { return s.ended })
	s.wantState("reset")
	other.wantState("open")
}
