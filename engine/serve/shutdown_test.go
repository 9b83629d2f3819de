package serve

import (
	"strings"
	"testing"
)

// TestShutdown: what Worker.Shutdown does to a connection in each phase (R461
// to R463).
func TestShutdown(t *testing.T) {
	const halfBody = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo"
	for _, c := range []struct {
		name  string
		in    string
		room  int                           // of the kernel, before in
		state string                        // right after Shutdown
		then  func(a *app, s *sock)         // what goes on
		want  string                        // of all answers
		end   string                        // after then
		check func(*testing.T, *app, *sock) // of the peer
	}{
		{name: "new", room: -1, state: "fin"},
		{name: "blank line", in: "\r\n", room: -1, state: "fin"},
		{name: "idle", in: get("/now"), room: -1, want: "OK /now|", state: "fin"},
		{
			name: "idle, reading the last answer", in: get("/now"), state: "open",
			then: func(_ *app, s *sock) { s.takeAll() },
			want: "OK /now|", end: "fin",
		},
		{
			name: "head half read", in: "GET /n", room: -1, state: "open",
			then: func(_ *app, s *sock) { s.send("ow HTTP/1.1\r\nHost: x\r\n\r\n" + get("/now?2")) },
			want: "OK /now (close)|", end: "fin",
		},
		{
			name: "head that does not come", in: "GET /n", room: -1, state: "open",
			then: func(_ *app, s *sock) { s.r.pass(stoppingHead + tick) },
			want: headTimeout, end: "fin",
		},
		{
			name: "body half read", in: halfBody, room: -1, state: "open",
			then: func(_ *app, s *sock) { s.send("dy" + get("/now")) },
			want: "OK body (close)|", end: "fin",
		},
		{
			name: "answered, body half read", in: strings.Replace(halfBody, "/echo", "/refuse", 1), room: -1,
			want: "Unauthorized|", state: "fin",
		},
		{
			name: "answer owed by the handler", in: get("/later") + get("/now"), room: -1, state: "open",
			then: func(a *app, _ *sock) { reply(a.kept[0], 200, "late") },
			want: "OK late (close)|", end: "fin",
		},
		{
			name: "stream asked for too late", in: "GET /str", room: -1, state: "open",
			then: func(_ *app, s *sock) { s.send("eam HTTP/1.1\r\nHost: x\r\n\r\n") },
			want: "Service Unavailable shutting down\n (close)|", end: "fin",
		},
		{
			name: "upgrade asked for too late", in: upgradeHead[:9], room: -1, state: "open",
			then: func(_ *app, s *sock) { s.send(upgradeHead[9:] + textFrame("x")) },
			want: "Service Unavailable shutting down\n (close)|", end: "fin",
		},
		{name: "stream", in: get("/stream"), room: -1, state: "fin", want: "OK|"},
		{name: "replay with requests behind", in: get("/replay") + get("/now"), room: -1, state: "fin", want: "OK|"},
		{
			name: "closing", in: get("/close"), state: "open",
			then: func(_ *app, s *sock) { s.takeAll() },
			want: "OK /close (close)|", end: "fin",
		},
		{name: "lingering", in: get("/close"), room: -1, state: "fin", want: "OK /close (close)|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			s := r.dial()
			s.room = c.room
			s.send(c.in)
			r.worker.Shutdown()
			r.run()
			s.wantState(c.state)
			if c.then != nil {
				c.then(a, s)
				r.run()
				s.wantState(c.end)
			}
			s.send(get("/now?more"))
			s.wantAnswers(c.want)
			r.pass(LingerTimeout + tick)
			s.wantState("closed")
			for _, p := range a.peers {
				if p.peer != nil && strings.Join(p.log, "|") != "shutdown|close" {
					t.Errorf("a peer was told %q", p.log)
				}
			}
		})
	}
}

// TestShutdownSocket: R462, and what happens to sockets that close already.
func TestShutdownSocket(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	polite, p := openSocket(r, a)
	mute, _ := openSocket(r, a)
	closing, q := openSocket(r, a)
	patient, w := openSocket(r, a)
	w.peer.CloseSocket(1008, "", 10*CloseTimeout)
	failing, _ := openSocket(r, a)
	q.peer.CloseSocket(1000, "", CloseTimeout)
	failing.room = 0
	failing.send(badFrame)
	r.worker.Shutdown()
	r.worker.Shutdown() // twice is once
	polite.wantFrames("close:1001 shutting down")
	polite.send(closeFrame(1001))
	polite.wantState("closed")
	mute.wantFrames("close:1001 shutting down")
	r.pass(CloseTimeout + tick)
	mute.wantState("reset")
	closing.wantFrames("close:1000")
	closing.wantState("reset")
	failing.takeAll()
	failing.wantFrames("close:1002")
	failing.wantState("fin")
	patient.wantFrames("close:1008")
	patient.wantState("open")
	r.pass(stoppingClose - CloseTimeout)
	patient.wantState("reset")
	if got := strings.Join(p.log, "|"); got != "shutdown|close" {
		t.Errorf("the handler was told %q", got)
	}
	if got := strings.Join(q.log, "|"); got != "close" {
		t.Errorf("the handler was told %q", got)
	}
}

// TestShutdownAnswersOnce: a connection that is accepted after Shutdown still
// gets one answer.
func TestShutdownAnswersOnce(t *testing.T) {
	r := newRig(t, &app{})
	r.worker.Shutdown()
	s := r.dial()
	s.send(get("/now") + get("/now"))
	s.wantAnswers("OK /now (close)|")
	s.wantState("fin")
}

// TestCloseAll: whatever is left is reset.
func TestCloseAll(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	for _, in := range []string{"", get("/now"), get("/later"), get("/stream"), upgradeHead, get("/close"), "GET"} {
		r.dial().send(in)
	}
	r.worker.CloseAll()
	r.worker.CloseAll()
	r.run()
	for i, s := range r.socks {
		if s.state() != "reset" {
			t.Errorf("connection %d is %s", i, s.state())
		}
	}
	if r.worker.Conns() != 0 {
		t.Errorf("%d connections are left", r.worker.Conns())
	}
}
