package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
)

// upgrader serves WebSockets with options.
type upgrader struct {
	options UpgradeOptions
	peers   []*recorder
}

// Serve implements Handler.
func (u *upgrader) Serve(x *Exchange) {
	p := &recorder{isSocket: true}
	if p.peer = x.UpgradeWith(p, u.options); p.peer != nil {
		u.peers = append(u.peers, p)
	}
}

// Options add fields to a 101, choose no subprotocol, and word the refusals.
func TestUpgradeWith(t *testing.T) {
	server := http1.Field{Name: "Server", Value: "x"}
	var why []string
	u := &upgrader{options: UpgradeOptions{
		Fields: []http1.Field{server, {Name: "A", Value: "b"}},
		Refuse: func(x *Exchange, status int, reason string, field http1.Field) {
			why = append(why, reason)
			fields := []http1.Field{server}
			if field.Name != "" {
				fields = append(fields, field)
			}
			x.Respond(&http1.Response{Status: status, Fields: fields, Body: []byte("no"), KeepAlive: true})
		},
	}}
	r := newRig(t, u)
	s := r.dial()
	s.send(strings.Replace(upgradeHead, "Host:", "Sec-WebSocket-Protocol: a\r\nHost:", 1))
	head := s.text()
	s.wantSwitching()
	if !strings.HasSuffix(head, "\r\nServer: x\r\nA: b\r\n\r\n") || strings.Contains(head, "Sec-WebSocket-Protocol") {
		t.Errorf("101 is %q", head)
	}
	f := func(name, old, new, want, field string) {
		t.Helper()
		s := r.dial()
		s.send(strings.Replace(upgradeHead, old, new, 1))
		a := s.answers()
		if len(a) != 1 || a[0].body != "no" || a[0].header.Get("Server") != "x" || a[0].closes {
			t.Fatalf("%s: answered %+v", name, a)
		}
		value := ""
		if field != "" {
			value = a[0].header.Get(field)
		}
		if got := why[len(why)-1]; !strings.Contains(got, want) || field != "" && value == "" {
			t.Errorf("%s: %q with %q", name, got, value)
		}
	}
	f("key", "dGhlIHNhbXBsZSBub25jZQ==", "x", "Sec-WebSocket-Key", "")
	f("version", "Version: 13", "Version: 12", "Sec-WebSocket-Version", "Sec-WebSocket-Version")
	f("method", "GET", "PUT", "method", "Allow")
	f("protocol", "websocket", "h2c", "websocket", "")
	if n := r.worker.Stats().Upgrades; n != 1 || len(u.peers) != 1 {
		t.Errorf("%d upgrades, %d peers", n, len(u.peers))
	}
}

// A peer that is ended with EndStream gets what it is owed and a FIN, and no
// Close frame.
func TestEndStreamOfSocket(t *testing.T) {
	for _, owed := range []bool{false, true} {
		a := &app{}
		r := newRig(t, a)
		s, p := openSocket(r, a)
		if owed {
			s.room = 3
		}
		p.peer.Send(serverText("last"))
		p.peer.EndStream()
		r.run()
		if got := strings.Join(p.log, "|"); got != "close" {
			t.Errorf("the handler was told %q", got)
		}
		if owed {
			s.wantState("open")
			s.takeAll()
		}
		s.wantFrames("text:last")
		s.wantState("fin")
		s.send(closeFrame(1000))
		s.send(textFrame("late"))
		s.wantFrames("")
		r.pass(shortLinger + tick)
		s.wantState("closed")
	}
}

// What is owed at the end and not taken does not keep the connection.
func TestEndStreamIsCut(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	s.room = 0
	p.peer.Send(serverText("last"))
	p.peer.EndStream()
	r.pass(FlushTimeout - seconds(1))
	s.wantState("open")
	r.pass(seconds(2))
	s.wantState("reset")
}

// SendFrames accepts what it writes and one frame that is owed, and a peer that
// is gone takes everything.
func TestPeerSendFrames(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	frames := [][]byte{serverText("one"), serverText("two"), serverText("three")}
	batch := []byte(string(frames[0]) + string(frames[1]) + string(frames[2]))
	if n := p.peer.SendFrames(batch, frames); n != 3 {
		t.Errorf("%d of 3 were accepted", n)
	}
	s.wantFrames("text:one|text:two|text:three")
	s.room = len(frames[0]) + 1
	if n := p.peer.SendFrames(batch, frames); n != 2 || p.peer.QueuedBytes() != int64(len(frames[1])-1) {
		t.Errorf("%d were accepted and %d bytes are owed", n, p.peer.QueuedBytes())
	}
	p.peer.NotifyDrained()
	if n := p.peer.SendFrames(batch, frames); n != 0 {
		t.Errorf("%d were accepted while bytes are owed", n)
	}
	s.send(pingFrame("x"))
	if n := p.count("drained"); n != 0 {
		t.Errorf("drained was told %d times too early", n)
	}
	s.takeAll()
	s.wantFrames("text:one|text:two|pong:x")
	if n := p.count("drained"); n != 1 {
		t.Errorf("drained was told %d times", n)
	}
	p.peer.Abort()
	if n := p.peer.SendFrames(batch, frames); n != 3 {
		t.Errorf("a peer that is gone accepted %d", n)
	}
	r.run()
	s.wantFrames("")
}

// A stall of SendFrames is watched too, for as long as the peer's own timeout,
// and to within it when that is short.
func TestStallTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Second, seconds(30), seconds(200)} {
		a := &app{}
		r := newRig(t, a)
		s, p := openSocket(r, a)
		p.hook = func(event string) {
			if event == "stalled" {
				p.peer.Abort()
			}
		}
		s.room = 0
		frame := serverText("x")
		p.peer.SendFrames(frame, [][]byte{frame})
		p.peer.SetStallTimeout(timeout) // owed already: an earlier look
		r.pass(timeout - 2*tick)
		if p.count("stalled") != 0 {
			t.Errorf("%v: given up too early", timeout)
		}
		r.pass(2*tick + min(timeout, RetryInterval))
		if p.count("stalled") != 1 {
			t.Errorf("%v: not given up", timeout)
		}
		s.wantState("reset")
	}
}
