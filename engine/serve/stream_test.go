package serve

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/fanout"
)

func chunk(text string) string { return string(http1.AppendChunk(nil, []byte(text))) }

// headOf splits a response whose body is still under way.
func headOf(t *testing.T, s *sock) (head, body string) {
	t.Helper()
	head, body, ok := strings.Cut(s.text(), "\r\n\r\n")
	if !ok {
		t.Fatalf("no head in %q", s.text())
	}
	return head, body
}

// TestR271StreamHead: the head leaves at once; HTTP/1.1 gets chunks, HTTP/1.0 a
// body that ends with the connection.
func TestR271StreamHead(t *testing.T) {
	for _, c := range []struct {
		in      string
		chunked bool
	}{
		{"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", true},
		{"GET /stream HTTP/1.0\r\n\r\n", false},
		{"GET /stream HTTP/1.0\r\nConnection: close\r\n\r\n", false},
		{"GET /replay HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false},
	} {
		a := &app{}
		r := newRig(t, a)
		s := r.dial()
		s.send(c.in)
		head, body := headOf(t, s)
		if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || body != "" {
			t.Fatalf("%q: head %q, body %q", c.in, head, body)
		}
		if got := strings.Contains(head, "\r\nTransfer-Encoding: chunked"); got != c.chunked {
			t.Errorf("%q: chunked is %v in %q", c.in, got, head)
		}
		if got := strings.Contains(head, "\r\nConnection: close"); got == c.chunked {
			t.Errorf("%q: head %q", c.in, head)
		}
		p := a.last()
		if p.peer.Chunked() != c.chunked || !s.streams || p.peer.Gone() {
			t.Errorf("%q: chunked %v, stream buffers %v, gone %v", c.in, p.peer.Chunked(), s.streams, p.peer.Gone())
		}
		text := chunk("data: 1\n\n")
		if !c.chunked {
			text = "data: 1\n\n"
		}
		p.peer.Send([]byte(text))
		p.peer.EndStream()
		want := text
		if c.chunked {
			want += http1.LastChunk
		}
		if _, body := headOf(t, s); body != want {
			t.Errorf("%q: body %q, want %q", c.in, body, want)
		}
		s.wantState("fin")
		if n := p.count("close"); n != 1 {
			t.Errorf("OnClose was called %d times", n)
		}
		p.peer.Send([]byte("late")) // does nothing
		p.peer.EndStream()
		p.peer.Abort()
		s.wantState("fin")
	}
}

// TestR192BeginBeforeHead: begin registers the peer before anything of the
// answer is written, and what it returns follows the head in the same write.
func TestR192BeginBeforeHead(t *testing.T) {
	a := &app{}
	p := &recorder{}
	var s *sock
	a.extra = map[string]func(*Exchange){"/s": func(x *Exchange) {
		x.Stream(nil, p, false, func(peer *Peer) []byte {
			if s.text() != "" {
				t.Error("the head was written before begin")
			}
			p.peer = peer
			p.subscribe()
			return []byte(chunk(": open\n\n"))
		})
	}}
	r := newRig(t, a)
	s = r.dial()
	s.send(get("/s"))
	if s.writes != 1 {
		t.Errorf("%d writes, want 1", s.writes)
	}
	r.publish([]byte(chunk("data: 1\n\n")))
	if _, body := headOf(t, s); body != chunk(": open\n\n")+chunk("data: 1\n\n") {
		t.Errorf("body %q", body)
	}
}

// TestR49FiniteStream: behind a finite stream the next pipelined request is
// served; input that comes meanwhile waits.
func TestR49FiniteStream(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/replay") + get("/now?1"))
	s.send(get("/replay?2") + get("/now?3"))
	a.last().peer.Send([]byte(chunk("one")))
	if len(a.served) != 1 {
		t.Fatalf("served %q during the replay", a.served)
	}
	a.last().peer.EndStream()
	r.run()
	if list, _ := s.answersAnd(); len(list) != 2 || list[0].body != "one" || list[1].body != "/now?1" {
		t.Fatalf("answers %+v", list)
	}
	a.last().peer.Send([]byte(chunk("two")))
	a.last().peer.EndStream()
	r.run()
	s.wantAnswers("OK two|OK /now?3|")
	s.wantState("open")
	for _, p := range a.peers {
		if n := p.count("close"); n != 1 {
			t.Errorf("OnClose was called %d times", n)
		}
	}
}

// TestFiniteStreamAtOnce: a stream that is ended inside Serve is one answer
// among others.
func TestFiniteStreamAtOnce(t *testing.T) {
	a := &app{}
	a.extra = map[string]func(*Exchange){"/short": func(x *Exchange) {
		p := &recorder{}
		x.Stream(nil, p, true, p.begin)
		p.peer.Send([]byte(chunk("short")))
		p.peer.EndStream()
	}}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/short") + get("/now") + get("/short") + get("/now"))
	s.wantAnswers("OK short|OK /now|OK short|OK /now|")
	s.wantState("open")
}

// TestFiniteStreamThatCloses: a finite stream whose connection does not go on
// says so and drops input, however much comes.
func TestFiniteStreamThatCloses(t *testing.T) {
	for name, in := range map[string]string{
		"asked for": get("/replay", "Connection: close"),
		"has body":  request("GET", "/replay", "body", "Content-Length: 4"),
		"body open": request("GET", "/replay", "body", "Content-Length: 5000000"),
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			s := r.dial()
			s.send(in + get("/now"))
			for range 3 {
				s.send(strings.Repeat("x", HeldBytes))
			}
			s.wantState("open")
			if n := r.budget.UsedBytes(); n != 0 {
				t.Errorf("%d bytes are held", n)
			}
			r.pass(seconds(30)) // no deadline of the body is left
			a.last().peer.Send([]byte(chunk("one")))
			a.last().peer.EndStream()
			r.run()
			s.wantAnswers("OK one (close)|")
			s.wantState("fin")
		})
	}
}

// TestR49LiveStream: input after a live stream is discarded, also what was held
// when it began.
func TestR49LiveStream(t *testing.T) {
	a := &app{}
	var kept *Exchange
	p := &recorder{}
	a.extra = map[string]func(*Exchange){"/stream-later": func(x *Exchange) { x.Keep(); kept = x }}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/stream") + get("/now"))
	s.send(strings.Repeat(get("/now"), 1000))
	if _, body := headOf(t, s); body != "" || len(a.served) != 1 {
		t.Errorf("body %q, served %q", body, a.served)
	}
	later := r.dial()
	later.send(get("/stream-later") + get("/now") + get("/now"))
	if r.budget.UsedBytes() == 0 {
		t.Fatal("nothing is held")
	}
	kept.Stream(nil, p, false, p.begin)
	if n := r.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes are held behind a live stream", n)
	}
	p.peer.EndStream()
	later.wantAnswers("OK|")
	later.wantState("fin")
}

// TestR281StreamGone: when the client goes its subscriber goes at once.
func TestR281StreamGone(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/stream"))
	p := a.last()
	p.subscribe()
	r.publish([]byte(chunk("live")))
	if _, body := headOf(t, s); body != chunk("live") {
		t.Fatalf("body %q", body)
	}
	if r.set.Members() != 1 {
		t.Fatalf("%d members", r.set.Members())
	}
	s.hangUp()
	if r.set.Members() != 0 || r.set.Groups() != 0 || r.worker.Conns() != 0 || !p.peer.Gone() {
		t.Errorf("%d members, %d groups, %d connections are left", r.set.Members(), r.set.Groups(), r.worker.Conns())
	}
	if n := p.count("close"); n != 1 {
		t.Errorf("OnClose was called %d times", n)
	}
	// Nothing of a dead peer does anything.
	p.peer.Send(nil)
	p.peer.Subscribe(&fanout.Sub{ID: "t", Selector: everything{}}, fanout.Plan{}, nil)
	p.peer.Unsubscribe("s", nil)
	p.peer.Reply([]byte("x"))
	p.peer.Urgent([]byte("x"))
	p.peer.SetTimer(seconds(1))
	p.peer.NotifyDrained()
	p.peer.DropUnsent()
	if p.peer.Command([]byte("x")) {
		t.Error("a dead peer took a command")
	}
	r.pass(seconds(2))
	if len(p.log) != 1 {
		t.Errorf("told %q after the end", p.log)
	}
}

// TestPeerAccessors tell of the connection.
func TestPeerAccessors(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	r.dial().send(get("/stream"))
	p := a.last().peer
	if p.Worker() != r.worker || p.Member() == nil || !p.Now().Equal(r.clock.Now()) ||
		p.RemoteAddr().Port() != 4711 || p.Worker().Set() != r.set {
		t.Error("accessors do not tell of the connection")
	}
}

// TestSendOrder: frames leave in the order sent, urgent ones between frames.
func TestSendOrder(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/stream"))
	p := a.last().peer
	s.room = 2
	p.Send([]byte("first "))
	p.Send([]byte("second "))
	p.Urgent([]byte("urgent "))
	if !p.Command([]byte("command ")) {
		t.Error("the command was not taken")
	}
	p.Reply([]byte("reply "))
	s.takeAll()
	if _, body := headOf(t, s); body != "first urgent command second reply " {
		t.Errorf("body %q", body)
	}
	s.room = 2
	p.Send([]byte("torn "))
	p.Send([]byte("dropped "))
	p.DropUnsent()
	p.Send([]byte("last"))
	s.takeAll()
	if _, body := headOf(t, s); !strings.HasSuffix(body, " torn last") {
		t.Errorf("body %q", body)
	}
}

// TestUnsubscribe: the acknowledgement is the last frame of a subscription.
func TestUnsubscribe(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/stream"))
	p := a.last()
	p.subscribe()
	r.publish([]byte("one "))
	p.peer.Unsubscribe("s", []byte("ack "))
	r.run()
	r.publish([]byte("two "))
	if _, body := headOf(t, s); body != "one ack " {
		t.Errorf("body %q", body)
	}
}

// TestNotifyDrained: it tells once, when nothing is owed.
func TestNotifyDrained(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/stream"))
	p := a.last()
	p.peer.NotifyDrained()
	if p.count("drained") != 1 {
		t.Error("not told although nothing is owed")
	}
	s.room = 0
	p.peer.Send([]byte("owed"))
	p.peer.NotifyDrained()
	s.take(3)
	if p.count("drained") != 1 {
		t.Error("told too early")
	}
	s.takeAll()
	p.peer.Send([]byte("more"))
	s.takeAll()
	if n := p.count("drained"); n != 2 {
		t.Errorf("told %d times, want 2", n)
	}
}

// TestNotifyDrainedAfterPass: what a pass has sent without the connection's
// doing counts as well, at the latest when progress is looked at.
func TestNotifyDrainedAfterPass(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/stream"))
	p := a.last()
	p.subscribe()
	r.run()
	r.log.Append(newEntry("event "))
	p.peer.Reply([]byte("reply ")) // waits until the event is served
	p.peer.NotifyDrained()
	if p.count("drained") != 0 {
		t.Error("told although a reply waits")
	}
	r.loop.Ring()
	r.run()
	if _, body := headOf(t, s); body != "event reply " {
		t.Errorf("body %q", body)
	}
	r.pass(RetryInterval + tick)
	if n := p.count("drained"); n != 1 {
		t.Errorf("told %d times, want 1", n)
	}
}

// TestOwnerTimer: SetTimer moves; it fires once.
func TestOwnerTimer(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	r.dial().send(get("/stream"))
	p := a.last()
	p.peer.SetTimer(seconds(5))
	r.pass(seconds(4))
	p.peer.SetTimer(seconds(5))
	r.pass(seconds(4))
	if p.count("timer") != 0 {
		t.Error("the timer did not move")
	}
	r.pass(seconds(10))
	if n := p.count("timer"); n != 1 {
		t.Errorf("the timer fired %d times", n)
	}
}
