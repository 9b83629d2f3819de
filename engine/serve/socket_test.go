package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// TestR300Upgrade: the handshake, and what is refused (R300 to R302).
func TestR300Upgrade(t *testing.T) {
	without := func(field string) string {
		at := strings.Index(upgradeHead, field)
		end := at + strings.Index(upgradeHead[at:], "\r\n") + 2
		return upgradeHead[:at] + upgradeHead[end:]
	}
	with := func(field string) string {
		return strings.Replace(upgradeHead, "Host: relay\r\n", "Host: relay\r\n"+field+"\r\n", 1)
	}
	for _, c := range []struct {
		name, in string
		status   int
		field    string
	}{
		{"plain", upgradeHead, 101, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
		{"no upgrade", get("/socket"), 404, ""},
		{"no key", without("Sec-WebSocket-Key"), 400, ""},
		{"no connection", without("Connection"), 404, ""},
		{"other version", strings.Replace(upgradeHead, "Version: 13", "Version: 8", 1), 400, "Sec-WebSocket-Version: 13"},
		{"post", strings.Replace(upgradeHead, "GET", "POST", 1), 405, "Allow: GET"},
		{"http/1.0", strings.Replace(upgradeHead, "HTTP/1.1", "HTTP/1.0", 1), 400, ""},
		{"subprotocol", with("Sec-WebSocket-Protocol: one, two"), 101, "Sec-WebSocket-Protocol: one"},
		{"subprotocols in two fields", with("Sec-WebSocket-Protocol: one\r\nSec-WebSocket-Protocol: two"), 101, "Sec-WebSocket-Protocol: one"},
		{"connection in two fields", with("Connection: keep-alive"), 101, ""},
		{"two keys", with("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), 400, ""},
		{"body", with("Content-Length: 4"), 400, ""},
		{"chunked body", with("Transfer-Encoding: chunked"), 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			s := r.dial()
			s.send(c.in)
			head, rest, _ := strings.Cut(s.text(), "\r\n\r\n")
			if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(head, c.field) {
				t.Errorf("head %q, want %d with %q", head, c.status, c.field)
			}
			if c.status == 101 {
				if rest != "" || a.last().peer == nil || !s.streams || r.worker.Stats().Upgrades != 1 {
					t.Errorf("rest %q, peer %v", rest, a.last().peer)
				}
				s.send(textFrame("on"))
				if got := a.last().texts(); got != "on" {
					t.Errorf("texts %q", got)
				}
				return
			}
			s.wantState("fin")
			if a.last().peer != nil || r.set.Members() != 0 {
				t.Error("a refused upgrade has a peer")
			}
			s.send("body" + textFrame("off") + get("/now"))
			if n := len(s.answers()); n != 1 {
				t.Errorf("%d answers, want 1", n)
			}
		})
	}
}

// TestC18GluedToUpgrade: frames behind the request, whole or in part, are not
// lost, wherever the input is cut.
func TestC18GluedToUpgrade(t *testing.T) {
	in := get("/now") + upgradeHead + textFrame("hello") + pingFrame("p") +
		frame(wsframe.OpText, false, "two ") + pingFrame("q") + frame(wsframe.OpContinuation, true, "parts") +
		textFrame(strings.Repeat("long ", 30))
	play := func(parts ...string) (got string) {
		a := &app{}
		r := newRig(t, a)
		defer r.finish()
		s := r.dial()
		for _, part := range parts {
			s.send(part)
		}
		if len(a.peers) != 1 {
			return s.text()
		}
		return s.text() + "\n" + strings.Join(a.last().log, "|")
	}
	want := play(in)
	if !strings.HasSuffix(want, "text hello|text two parts|text "+strings.Repeat("long ", 30)) {
		t.Fatalf("in one piece: %q", want)
	}
	var single []string
	for i := range len(in) {
		single = append(single, in[i:i+1])
		if got := play(in[:i], in[i:]); got != want {
			t.Fatalf("cut at %d: %q, want %q", i, got, want)
		}
	}
	if got := play(single...); got != want {
		t.Errorf("octet by octet: %q", got)
	}
}

// TestUpgradeWaitsItsTurn: an upgrade behind an unfinished answer waits (R49),
// and its frames with it.
func TestUpgradeWaitsItsTurn(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/later") + upgradeHead + textFrame("early")[:4])
	s.send(textFrame("early")[4:])
	if len(a.peers) != 0 {
		t.Fatal("the upgrade did not wait")
	}
	reply(a.kept[0], 200, "")
	s.send(textFrame("late"))
	if got := a.last().texts(); got != "early,late" {
		t.Errorf("texts %q", got)
	}
	if n := r.budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes are still reserved", n)
	}
}

// TestC21Pong: a ping is answered with the same payload, between frames.
func TestC21Pong(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	s.send(pingFrame("payload"))
	s.send(pingFrame(""))
	s.wantFrames("pong:payload|pong:")
	s.room = 3
	p.peer.Send(serverText("first"))
	p.peer.Send(serverText("second"))
	s.send(pingFrame("1") + pingFrame("2"))
	s.takeAll()
	s.wantFrames("text:first|pong:1|pong:2|text:second")
	s.send(frame(wsframe.OpPong, true, "unasked"))
	s.wantFrames("")
	if p.log != nil {
		t.Errorf("the handler was told %q", p.log)
	}
}

// TestPongsOwed: at most 16 pongs wait for a peer that does not read; one that
// reads, however slowly, goes on getting them (C26).
func TestPongsOwed(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	s.room = 0
	p.peer.Send(serverText("owed"))
	for i := range 100 {
		s.send(pingFrame(fmt.Sprint(i)))
	}
	s.takeAll()
	got := s.frames()
	if n := strings.Count(got, "pong:"); n != pongsOwed || !strings.HasPrefix(got, "pong:0|pong:1|") {
		t.Errorf("%d pongs were owed: %q", n, got)
	}
	s.send(pingFrame("again"))
	s.wantFrames("pong:again")

	// A long replay that is read slowly: something is always owed.
	s.room = 0
	for range 200 {
		p.peer.Send(serverText(strings.Repeat("r", 1000)))
	}
	for i := range 100 {
		s.send(pingFrame(fmt.Sprint(i)))
		s.take(20_000)
		if i < 50 {
			for range 20 {
				p.peer.Send(serverText(strings.Repeat("r", 1000)))
			}
		}
	}
	s.takeAll()
	if n := strings.Count(s.frames(), "pong:"); n < 95 {
		t.Errorf("%d pongs of 100 to a peer that reads", n)
	}
}

// TestR332Limit: the limit is the default at first, then what SetLimit says.
func TestR332Limit(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	big := strings.Repeat("x", wsframe.DefaultLimit+1)
	p.peer.SetLimit(1 << 20)
	s.send(textFrame(big))
	if got := p.texts(); got != big {
		t.Errorf("%d bytes arrived", len(got))
	}
	p.peer.SetLimit(10)
	s.send(textFrame("0123456789"))
	s.wantFrames("")
	s.send(textFrame("0123456789A"))
	s.wantFrames("close:1009")

	s, _ = openSocket(r, a)
	s.send(textFrame(big)[:14]) // the header alone decides
	s.wantFrames("close:1009")
	s.wantState("fin")
}

// TestHoldRelease: what comes while the handler holds waits, in order, and none
// is lost wherever it holds again.
func TestHoldRelease(t *testing.T) {
	for _, every := range []int{1, 2, 3, 7} {
		a := &app{}
		r := newRig(t, a)
		s, p := openSocket(r, a)
		n := 0
		p.hook = func(event string) {
			if !strings.HasPrefix(event, "text") {
				return
			}
			if n++; n%every == 0 {
				p.peer.Hold()
			}
		}
		var in, want string
		for i := range 40 {
			in += textFrame(fmt.Sprint(i))
			want += fmt.Sprintf(",%d", i)
		}
		want = want[1:]
		for in != "" {
			k := min(len(in), 17)
			s.send(in[:k])
			in = in[k:]
			if len(in)%5 == 0 {
				p.peer.Release()
			}
		}
		for range 50 {
			p.peer.Release()
		}
		if got := p.texts(); got != want {
			t.Errorf("holding at each %d: %q, want %q", every, got, want)
		}
		if n := r.budget.UsedBytes(); n != 0 {
			t.Errorf("%d bytes are still reserved", n)
		}
	}
}

// TestHoldIsCheap: a handler that holds at each of many messages does not make
// the relay copy what waits each time.
func TestHoldIsCheap(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	p.peer.Hold()
	s.send(strings.Repeat(textFrame("m"), 1000))
	base := &s.conn().socket.input.held[999*7]
	n := 0
	p.hook = func(string) { n++; p.peer.Hold() }
	for range 999 {
		p.peer.Release()
	}
	if n != 999 || &s.conn().socket.input.held[0] != base {
		t.Error("held input was copied")
	}
}

// TestHoldBound: a quarter of the budget waits; one octet more is overload, which
// the handler answers with 1013 (R46).
func TestHoldBound(t *testing.T) {
	const most = 1 << 20
	a := &app{}
	r := newRigConfig(t, Config{Handler: a, Budget: NewBudget(socketShare * most)})
	s, p := openSocket(r, a)
	p.peer.Hold()
	one := textFrame(strings.Repeat("m", 1018)) // 1026 bytes
	all := strings.Repeat(one, most/len(one)+1)
	for at := 0; at < most; at += 4096 {
		s.send(all[at:min(at+4096, most)])
	}
	s.wantState("open")
	if n := r.budget.UsedBytes(); n != most {
		t.Errorf("%d bytes are reserved, want %d", n, most)
	}
	s.send("x")
	s.wantFrames("close:1013 try again later")
	if n := r.budget.UsedBytes(); n > 4<<10 {
		t.Errorf("%d bytes are still reserved", n)
	}
	p.peer.Release() // does nothing any more
	if got := strings.Join(p.log, " "); got != "overloaded close" {
		t.Errorf("the handler was told %q", got)
	}
}

// TestMessagesHandedOn: text and binary messages reach the handler with what
// they carry, whole and in order, wherever the input is cut (RFC 6455 section
// 5.4 and 5.6).
func TestMessagesHandedOn(t *testing.T) {
	in := frame(wsframe.OpBinary, true, "\x00\xff\x80") + textFrame("t") + frame(wsframe.OpBinary, true, "") +
		frame(wsframe.OpBinary, false, "in ") + pingFrame("p") + frame(wsframe.OpContinuation, true, "\xfeparts")
	const want = "binary \x00\xff\x80|text t|binary |binary in \xfeparts"
	for cut := range len(in) {
		a := &app{}
		r := newRig(t, a)
		s, p := openSocket(r, a)
		s.send(in[:cut])
		s.send(in[cut:])
		if got := strings.Join(p.log, "|"); got != want {
			t.Fatalf("cut at %d: %q, want %q", cut, got, want)
		}
	}
}

// TestLastHeard: it is when input arrived, not when held input was worked off.
func TestLastHeard(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, p := openSocket(r, a)
	p.peer.Hold()
	r.pass(seconds(5))
	s.send(textFrame("x"))
	at := r.clock.Now()
	r.pass(seconds(5))
	p.peer.Release()
	if got := p.peer.LastHeard(); !got.Equal(at) || p.texts() != "x" {
		t.Errorf("last heard at %v, want %v", got, at)
	}
}
