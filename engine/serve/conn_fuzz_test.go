package serve

import (
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// play sends in to a new connection of an echoing server, cut as cuts say, lets
// kept requests be answered at the end, and returns all that its peer and its
// handlers saw. The rig's end checks that nothing was leaked and nothing
// panicked.
func play(t *testing.T, in, cuts []byte) string {
	a := &app{}
	a.extra = map[string]func(*Exchange){
		"/socket": func(x *Exchange) { echoSocket(a, x) },
		"/replay": func(x *Exchange) {
			p := &recorder{}
			x.Stream(nil, p, true, p.begin)
			p.peer.Send([]byte(chunk("replay")))
			p.peer.EndStream()
		},
	}
	r := newRig(t, a)
	defer r.finish()
	s := r.dial()
	for i := 0; len(in) > 0; i++ {
		n := len(in)
		if len(cuts) > 0 {
			n = min(n, 1+int(cuts[i%len(cuts)]))
		}
		s.deliver(in[:n])
		r.run()
		in = in[n:]
	}
	for i := 0; i < len(a.kept); i++ {
		reply(a.kept[i], 200, "kept")
		r.run()
	}
	var b strings.Builder
	b.WriteString(s.text() + "\n" + s.state() + "\n" + strings.Join(a.served, " "))
	for _, p := range a.peers {
		b.WriteString("\n" + strings.Join(p.log, "|"))
	}
	s.hangUp()
	for _, body := range a.bodies {
		if body.done != 1 {
			t.Errorf("Done was called %d times", body.done)
		}
	}
	for _, p := range a.peers {
		if n := p.count("close"); p.peer != nil && n != 1 {
			t.Errorf("OnClose was called %d times", n)
		}
	}
	return b.String()
}

// echoSocket upgrades to a socket that sends each text back.
func echoSocket(a *app, x *Exchange) {
	p := &recorder{isSocket: true}
	a.peers = append(a.peers, p)
	p.hook = func(event string) {
		if text, ok := strings.CutPrefix(event, "text "); ok {
			p.peer.Reply(serverText(text))
		}
	}
	p.peer = x.Upgrade(p)
}

// FuzzConn: whatever comes, however it is cut, the outcome is the same, nothing
// panics, and everything that was reserved is given back.
func FuzzConn(f *testing.F) {
	for _, in := range []string{
		get("/now") + post("/echo", "body") + get("/close"),
		get("/later") + post("/echo", "held") + get("/later") + get("/now"),
		chunked("/echo", "a chunked body", 3) + get("/replay") + get("/now"),
		post("/refuse", "not read") + chunked("/later", "not read", 4) + get("/now"),
		request("POST", "/echo", "x", "Expect: 100-continue", "Content-Length: 1"),
		"GET /now HTTP/1.0\r\n\r\n" + get("/now"),
		"\r\n\r\n" + get("/now") + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		get("/stream") + get("/now"),
		get("/now") + upgradeHead + textFrame("hello") + pingFrame("p") + closeFrame(1000),
		strings.Repeat(get("/later"), 70),
	} {
		f.Add([]byte(in), []byte{0})
		f.Add([]byte(in), []byte{6, 40, 0})
	}
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		want := play(t, in, nil)
		if got := play(t, in, cuts); got != want {
			t.Errorf("cut by %v:\n%q\nin one piece:\n%q", cuts, got, want)
		}
	})
}

// FuzzUpgradePath: the same behind a handshake of which one octet is changed at
// most, with anything glued to it.
func FuzzUpgradePath(f *testing.F) {
	f.Add(uint16(0), byte(0), []byte(textFrame("hello")), []byte{3})
	f.Add(uint16(0), byte(0), []byte(textFrame("hello")[:4]), []byte{})
	f.Add(uint16(5), byte(0x20), []byte(textFrame("hello")+badFrame), []byte{100, 100})
	f.Add(uint16(70), byte(1), []byte(frame(wsframe.OpText, false, "a")+pingFrame("b")+
		frame(wsframe.OpContinuation, true, "c")+closeFrame(4000)+get("/now")), []byte{0, 9})
	f.Add(uint16(0), byte(0), []byte("\x82\x80\x00\x00\x00\x00"+closeFrame(0)), []byte{1})
	f.Fuzz(func(t *testing.T, at uint16, change byte, glued, cuts []byte) {
		in := []byte(upgradeHead)
		in[int(at)%len(in)] ^= change
		in = append(in, glued...)
		want := play(t, in, nil)
		if got := play(t, in, cuts); got != want {
			t.Errorf("cut by %v:\n%q\nin one piece:\n%q", cuts, got, want)
		}
	})
}
