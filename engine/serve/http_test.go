package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/http1"
)

// TestR49PipelinedInOrder: answers leave in request order, whichever is ready
// first.
func TestR49PipelinedInOrder(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/now?1") + get("/later?2") + get("/now?3") + post("/echo", "four") + get("/later?5") + get("/now?6"))
	s.wantAnswers("OK /now?1|")
	reply(a.kept[0], 200, "second")
	r.run()
	s.wantAnswers("OK second|OK /now?3|OK four|")
	if len(a.kept) != 2 {
		t.Fatalf("%d exchanges are kept, want 2", len(a.kept))
	}
	s.send(get("/now?7"))
	s.wantAnswers("")
	reply(a.kept[1], 200, "fifth")
	s.wantAnswers("OK fifth|OK /now?6|OK /now?7|")
	s.wantState("open")
}

// TestKeptExchange: a handler that keeps its exchange answers it once, and only
// while it is wanted.
func TestKeptExchange(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s, other := r.dial(), r.dial()
	s.send(get("/later"))
	other.send(get("/now"))
	other.wantAnswers("OK /now|")
	x := a.kept[0]
	if !x.Alive() {
		t.Error("a kept exchange is not alive")
	}
	reply(x, 200, "first")
	reply(x, 200, "again")
	s.wantAnswers("OK first|")
	if x.Alive() {
		t.Error("an answered exchange is alive")
	}
	s.send(get("/later"))
	s.hangUp()
	x = a.kept[1]
	if x.Alive() {
		t.Error("the exchange of a lost connection is alive")
	}
	reply(x, 200, "late")
	x.ReadBody(&echoBody{})
	if x.TakeBudget(1) {
		t.Error("a dead exchange took budget")
	}
	if p := x.Stream(nil, &recorder{}, false, nil); p != nil {
		t.Error("a dead exchange began a stream")
	}
	if p := x.Upgrade(&recorder{}); p != nil {
		t.Error("a dead exchange began a socket")
	}
	if err := x.Go(func() func(*Exchange) { return nil }); err != ErrExchangeOver {
		t.Errorf("Go on a dead exchange: %v", err)
	}
	s.wantAnswers("")
}

// TestAnswerFromAnotherRequest: a kept exchange that is answered while another
// connection's head is being handled does not disturb that head, although the
// next request of its own connection waits.
func TestAnswerFromAnotherRequest(t *testing.T) {
	a := &app{}
	a.extra = map[string]func(*Exchange){"/answer-the-other": func(x *Exchange) {
		reply(a.kept[0], 200, "kept")
		reply(x, 200, string(x.Head.Target)+" "+string(x.Head.Header("X-Mark")))
	}}
	r := newRig(t, a)
	s, other := r.dial(), r.dial()
	s.send(get("/later") + get("/now?a-rather-long-target-that-takes-the-place"))
	other.send(get("/answer-the-other?x", "X-Mark: mine"))
	other.wantAnswers("OK /answer-the-other?x mine|")
	s.send(get("/now?last")) // must not overtake what is held
	r.await("the held request to be answered", func() bool { return strings.Contains(s.text(), "last") })
	s.wantAnswers("OK kept|OK /now?a-rather-long-target-that-takes-the-place|OK /now?last|")
}

// TestC07SplitAtEveryByte: the outcome does not depend on where input is cut.
func TestC07SplitAtEveryByte(t *testing.T) {
	input := map[string]string{
		"two posts":      post("/echo", "first body") + post("/echo", "second"),
		"chunked":        chunked("/echo", "a body in several chunks", 5) + get("/now"),
		"refused body":   post("/refuse", "not wanted") + get("/now") + chunked("/refuse", "not wanted", 3) + get("/now?2"),
		"blank lines":    "\r\n\r\n" + get("/now") + "\r\n" + get("/close"),
		"bad after good": get("/now") + "GET /now HTTP/2.0\r\nHost: x\r\n\r\n" + get("/now"),
		"trailers": request("POST", "/echo", "3;ext=1\r\nabc\r\n0\r\nX: y\r\n\r\n", "Transfer-Encoding: chunked") +
			get("/now"),
		"replay": get("/replay") + get("/now?behind"),
		"kept":   get("/later") + post("/echo", "behind"),
	}
	for name, in := range input {
		t.Run(name, func(t *testing.T) {
			play := func(cuts ...string) (text, state string) {
				a := &app{}
				r := newRig(t, a)
				defer r.finish()
				s := r.dial()
				for _, part := range cuts {
					s.send(part)
				}
				for _, x := range a.kept {
					reply(x, 200, "kept")
				}
				for _, p := range a.peers {
					p.peer.Send([]byte("2\r\nev\r\n"))
					p.peer.EndStream()
				}
				r.run()
				return s.text(), s.state()
			}
			want, wantState := play(in)
			if want == "" {
				t.Fatal("no answer to the input in one piece")
			}
			for i := 1; i < len(in); i++ {
				if got, state := play(in[:i], in[i:]); got != want || state != wantState {
					t.Fatalf("cut at %d: %q (%s), want %q (%s)", i, got, state, want, wantState)
				}
			}
			var single []string
			for i := range len(in) {
				single = append(single, in[i:i+1])
			}
			if got, state := play(single...); got != want || state != wantState {
				t.Errorf("octet by octet: %q (%s), want %q (%s)", got, state, want, wantState)
			}
		})
	}
}

// TestC12KeepAlive: RFC 9112 section 9.3, R16.
func TestC12KeepAlive(t *testing.T) {
	for _, c := range []struct {
		name, in  string
		goesOn    bool
		wantField string // of Connection
	}{
		{"1.1", "GET /now HTTP/1.1\r\nHost: x\r\n\r\n", true, ""},
		{"1.1 keep-alive", "GET /now HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", true, ""},
		{"1.1 close", "GET /now HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false, "close"},
		{"1.1 close in a list", "GET /now HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n", false, "close"},
		{"1.0", "GET /now HTTP/1.0\r\n\r\n", false, "close"},
		{"1.0 keep-alive", "GET /now HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, "keep-alive"},
		{"1.0 both", "GET /now HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false, "close"},
		{"handler closes", "GET /close HTTP/1.1\r\nHost: x\r\n\r\n", false, "close"},
		{"close after the body", post("/echo", "body", "Connection: close"), false, "close"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, &app{})
			s := r.dial()
			s.send(c.in)
			head, _, _ := strings.Cut(s.text(), "\r\n\r\n")
			got := ""
			for line := range strings.SplitSeq(head, "\r\n") {
				if v, ok := strings.CutPrefix(line, "Connection: "); ok {
					got += v
				}
			}
			if got != c.wantField {
				t.Errorf("Connection is %q, want %q", got, c.wantField)
			}
			if n := len(s.answers()); n != 1 {
				t.Errorf("%d answers, want 1", n)
			}
			s.send(get("/now?next"))
			if c.goesOn {
				s.wantState("open")
				s.wantAnswers("OK /now?next|")
				return
			}
			s.wantState("fin")
			s.wantAnswers("")
			r.pass(LingerTimeout + seconds(1))
			s.wantState("closed")
		})
	}
}

// TestC04ExpectContinue: 100 Continue goes out when the body is asked for, and
// never when the head alone is refused (RFC 9110 section 10.1.1).
func TestC04ExpectContinue(t *testing.T) {
	const expect = "Expect: 100-continue"
	r := newRig(t, &app{})
	s := r.dial()
	in := post("/echo", "body", expect)
	head, body := in[:len(in)-4], in[len(in)-4:]
	s.send(head)
	s.wantAnswers("Continue|")
	s.send(body)
	s.wantAnswers("OK body|")
	s.wantState("open")

	s.send(head[:10])
	s.send(head[10:] + body) // a client that does not wait
	s.wantAnswers("Continue|OK body|")

	refused := r.dial()
	refused.send(post("/refuse", "", expect, "X: y")) // no body: nothing to wait for
	refused.wantAnswers("Unauthorized|")
	refused.wantState("open")
	refused.send(strings.Replace(head, "/echo", "/refuse", 1))
	refused.wantAnswers("Unauthorized (close)|")
	refused.wantState("fin")

	old := r.dial()
	old.send("POST /echo HTTP/1.0\r\nContent-Length: 4\r\n" + expect + "\r\n\r\n")
	old.wantAnswers("")
	old.send("body")
	old.wantAnswers("OK body (close)|")
}

// TestExpectKept: a kept exchange that never asks for the body is answered
// without 100, and its connection ends, since the client may or may not send.
func TestExpectKept(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(request("POST", "/later", "", "Expect: 100-continue", "Content-Length: 4"))
	s.wantAnswers("")
	reply(a.kept[0], 413, "")
	s.wantAnswers("Request Entity Too Large (close)|")
	s.wantState("fin")

	s = r.dial()
	s.send(request("POST", "/later", "body", "Expect: 100-continue", "Content-Length: 4"))
	reply(a.kept[1], 200, "")
	s.wantAnswers("OK|")
	s.wantState("open")
}

// TestR76AnswerBeforeBody: a small body is read and dropped, a large one ends
// the connection after its client could read the answer.
func TestR76AnswerBeforeBody(t *testing.T) {
	small := strings.Repeat("s", drainBody)
	large := small + "x"
	for _, c := range []struct {
		name, in, want, state string
	}{
		{"small", post("/refuse", small), "Unauthorized|OK /now|", "open"},
		{"large", post("/refuse", large), "Unauthorized (close)|", "fin"},
		{"small chunks", chunked("/refuse", small, 1000), "Unauthorized|OK /now|", "open"},
		{"large chunks", chunked("/refuse", large, 1000), "Unauthorized|", "fin"},
		{"refused on the way", post("/echo", large), "Service Unavailable (close)|", "fin"},
		{"refused on the way, chunked", chunked("/echo", large, 1000), "Service Unavailable|OK /now|", "open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &app{}
			r := newRigConfig(t, Config{Handler: a, Budget: NewBudget(64 << 10)})
			s := r.dial()
			for in := c.in + get("/now"); in != ""; {
				n := min(len(in), 16<<10)
				s.send(in[:n])
				in = in[n:]
			}
			s.wantAnswers(c.want)
			s.wantState(c.state)
			for _, b := range a.bodies {
				if b.done != 1 {
					t.Errorf("Done was called %d times", b.done)
				}
			}
			if c.state == "fin" {
				// What the client still sends is read and dropped, for a while.
				s.send(large)
				s.wantState("fin")
				r.pass(LingerTimeout + seconds(1))
				s.wantState("closed")
			}
		})
	}
}

// TestBodyNobodyReads: a body whose exchange is answered later, without asking
// for it, is dropped; beyond 1 MiB the connection ends with the answer, not
// before.
func TestBodyNobodyReads(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  string
	}{
		{1000, "OK late|OK /now|"},
		{drainBody, "OK late|OK /now|"},
		{drainBody + 1, "OK late (close)|"},
	} {
		for _, in := range []string{
			post("/later", strings.Repeat("x", c.bytes)),
			chunked("/later", strings.Repeat("x", c.bytes), 500),
		} {
			a := &app{}
			r := newRig(t, a)
			s := r.dial()
			s.send(in)
			s.wantState("open")
			s.send(get("/now"))
			reply(a.kept[0], 200, "late")
			s.wantAnswers(c.want)
		}
	}
}

// TestParserRefusals: what is no HTTP is answered once and the connection
// closed (R47, H3, C01, C06).
func TestParserRefusals(t *testing.T) {
	for _, c := range []struct {
		name, in string
		status   int
	}{
		{"431", "GET /now HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", http1.HeadBytes) + "\r\n\r\n", 431},
		{"400 line", "GET\r\n\r\n", 400},
		{"400 host", "GET /now HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"400 smuggling", request("POST", "/echo", "0\r\n\r\n"+get("/now?hidden"), "Content-Length: 6", "Transfer-Encoding: chunked"), 400},
		{"400 smuggling turned", request("POST", "/echo", "0\r\n\r\n"+get("/now?hidden"), "Transfer-Encoding: chunked", "Content-Length: 6"), 400},
		{"400 chunk size", request("POST", "/echo", "ffffffffffffffff\r\n", "Transfer-Encoding: chunked"), 400},
		{"417", request("POST", "/echo", "", "Expect: miracles"), 417},
		{"501", request("POST", "/echo", "", "Transfer-Encoding: gzip, chunked"), 501},
		{"505", "GET /now HTTP/3.0\r\nHost: x\r\n\r\n", 505},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			s, other := r.dial(), r.dial()
			s.send(c.in)
			s.send(get("/now?more"))
			list := s.answers()
			if len(list) != 1 || list[0].status != c.status || !list[0].closes {
				t.Fatalf("answers %+v, want one %d that closes", list, c.status)
			}
			s.wantState("fin")
			if got := r.worker.Stats().Refused; got != 1 {
				t.Errorf("%d refusals were counted", got)
			}
			for _, b := range a.bodies {
				if b.done != 1 {
					t.Errorf("Done was called %d times", b.done)
				}
			}
			r.pass(LingerTimeout + seconds(1))
			s.wantState("closed")
			other.send(get("/now"))
			other.wantAnswers("OK /now|")
		})
	}
}

// TestRefusedInsideAnsweredRequest: framing that breaks after the answer was
// given ends the connection without a second answer.
func TestRefusedInsideAnsweredRequest(t *testing.T) {
	r := newRig(t, &app{})
	s := r.dial()
	s.send(request("POST", "/refuse", "zz\r\n", "Transfer-Encoding: chunked"))
	s.wantAnswers("Unauthorized|")
	s.wantState("fin")
}

// TestHTTP10Exchange: accessors tell of the request and its connection.
func TestHTTP10Exchange(t *testing.T) {
	r := newRig(t, handlerFunc(func(x *Exchange) {
		reply(x, 200, fmt.Sprint(x.HTTP10(), x.RemoteAddr(), x.Now().Unix(), x.Loop() == x.Worker().Loop()))
	}))
	s := r.dial()
	s.send("GET / HTTP/1.0\r\n\r\n")
	s.wantAnswers(fmt.Sprintf("OK true 192.0.2.1:4711 %d true (close)|", r.clock.Now().Unix()))
}
