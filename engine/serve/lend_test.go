package serve

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/http1"
)

// lender answers with a body that is lent, and counts what went and came back.
type lender struct {
	body     []byte
	lent     int
	released int
	stream   recorder // of /stream
}

func (a *lender) Serve(x *Exchange) {
	switch string(x.Head.Path) {
	case "/now":
		reply(x, 200, "now")
		return
	case "/stream":
		x.Stream(nil, &a.stream, false, a.stream.begin)
		return
	}
	a.lent++
	r := &http1.Response{Status: 200, Body: a.body, KeepAlive: true, NoBody: string(x.Head.Method) == "HEAD"}
	x.Lend(r, func() { a.released++ })
}

// TestLend: a body that is lent comes whole and in order, and comes back once:
// when the kernel has all of it, or the connection is gone.
func TestLend(t *testing.T) {
	a := &lender{body: bytes.Repeat([]byte("l"), 300<<10)}
	r := newRig(t, a)
	want := func(what string, released int) {
		t.Helper()
		if a.released != released {
			t.Errorf("%s: %d bodies came back, want %d", what, a.released, released)
		}
		a.released = 0
	}
	whole := "OK " + string(a.body) + "|"

	fast := r.dial()
	fast.send(get("/lent") + get("/now"))
	fast.wantAnswers(whole + "OK now|")
	want("taken at once", 1)

	slow := r.dial()
	slow.room = 100
	slow.send(get("/lent") + get("/now"))
	slow.take(200 << 10)
	want("taken in part", 0)
	slow.takeAll()
	slow.wantAnswers(whole + "OK now|")
	want("taken at last", 1)

	for name, end := range map[string]func(*sock){
		"peer goes": (*sock).hangUp,
		"aborted":   func(s *sock) { s.conn().abort(); r.run() },
		"stalled":   func(*sock) { r.pass(StallTimeout + RetryInterval + tick) },
	} {
		s := r.dial()
		s.room = 0
		s.send(get("/lent"))
		want(name+", before", 0)
		end(s)
		want(name, 1)
	}

	headed := r.dial()
	headed.send(strings.Replace(get("/lent"), "GET", "HEAD", 1))
	if got := headed.text(); !strings.Contains(got, "Content-Length: 307200\r\n") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("HEAD: %.200q", got)
	}
	want("HEAD", 1)

	old := r.dial() // HTTP/1.0: the connection ends behind the body
	old.room = 1000
	old.send(strings.Replace(get("/lent"), "HTTP/1.1", "HTTP/1.0", 1))
	old.takeAll()
	old.wantAnswers(strings.TrimSuffix(whole, "|") + " (close)|")
	want("HTTP/1.0", 1)
}

// TestLendComesBackInTurn: a body comes back when it is taken, also where
// something is owed behind it all the time.
func TestLendComesBackInTurn(t *testing.T) {
	a := &lender{body: bytes.Repeat([]byte("l"), 300<<10)}
	r := newRig(t, a)
	s := r.dial()
	s.room = 100
	const requests = 20
	s.send(strings.Repeat(get("/lent"), requests))
	for a.lent < requests {
		s.take(50 << 10)
		if n := a.lent - a.released; n > 2 { // the next one begins before the last is out
			t.Fatalf("%d of %d bodies are not back, %d bytes are owed", n, a.lent, s.conn().owed())
		}
	}
	s.takeAll()
	s.wantAnswers(strings.Repeat("OK "+string(a.body)+"|", requests))
	if a.released != requests {
		t.Errorf("%d of %d bodies came back", a.released, requests)
	}

	a.lent, a.released = 0, 0
	live := r.dial()
	live.room = 0
	live.send(get("/lent") + get("/stream"))
	live.take(len(a.body)) // all but the end of it: the stream begins
	a.stream.peer.Send(bytes.Repeat([]byte("s"), 100<<10))
	if a.released != 0 || a.stream.peer == nil {
		t.Errorf("%d bodies came back too early", a.released)
	}
	live.take(50 << 10)
	if a.released != 1 {
		t.Errorf("%d bodies came back behind which a stream is owed", a.released)
	}
}

// TestLendShutdown: a body on its way is sent to its end when the relay goes
// down, and one that makes no progress comes back (R463, R464).
func TestLendShutdown(t *testing.T) {
	a := &lender{body: bytes.Repeat([]byte("l"), 300<<10)}
	r := newRig(t, a)
	reads, rests := r.dial(), r.dial()
	for _, s := range []*sock{reads, rests} {
		s.room = 1000
		s.send(get("/lent"))
	}
	r.worker.Shutdown()
	for range 3 {
		r.pass(FlushTimeout - tick)
		reads.take(50 << 10)
	}
	if a.released != 1 {
		t.Errorf("%d bodies came back, want that of the reader that stopped", a.released)
	}
	rests.wantState("reset")
	reads.takeAll()
	reads.wantAnswers("OK " + string(a.body) + "|")
	reads.wantState("fin")
	if a.released != 2 {
		t.Errorf("%d bodies came back", a.released)
	}
}

// TestLendLate: a body for an exchange that is over comes back at once.
func TestLendLate(t *testing.T) {
	var kept *Exchange
	r := newRig(t, handlerFunc(func(x *Exchange) { x.Keep(); kept = x }))
	s := r.dial()
	s.send(get("/"))
	s.hangUp()
	released := 0
	kept.Lend(&http1.Response{Status: 200, Body: []byte("late")}, func() { released++ })
	if released != 1 || s.text() != "" {
		t.Errorf("came back %d times, the peer got %q", released, s.text())
	}
}

// TestLendDoesNotCopy: what a slow reader has not taken is the lender's memory.
func TestLendDoesNotCopy(t *testing.T) {
	a := &lender{body: make([]byte, 1<<20)}
	r := newRig(t, a)
	s := r.dial()
	s.room = 0
	per := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.send(get("/lent"))
			s.out = s.out[:0]
			s.takeAll()
			s.out = s.out[:0]
			s.room = 0
		}
	})
	if n := per.AllocedBytesPerOp(); n > 64<<10 {
		t.Errorf("%d bytes are allocated for an answer of 1 MiB that is lent", n)
	}
}

// TestAwaitBody: a client that waits for 100 Continue is told when the handler
// wants its body, or gets the answer instead.
func TestAwaitBody(t *testing.T) {
	var kept *Exchange
	r := newRig(t, handlerFunc(func(x *Exchange) {
		x.Keep()
		kept = x
		x.AwaitBody(&echoBody{w: x.Worker()})
	}))
	request := "PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
	s := r.dial()
	s.send(request)
	if s.text() != "" {
		t.Errorf("it was told to go on before anybody wanted its body: %q", s.text())
	}
	kept.Continue()
	kept.Continue()
	if s.text() != http1.Continue {
		t.Errorf("got %q", s.text())
	}
	refused := r.dial()
	refused.send(request)
	reply(kept, 200, "there already")
	refused.wantAnswers("OK there already (close)|") // whether the body comes is not known
	kept.Continue()
	refused.wantAnswers("")
}

// TestBodyRate: a handler may have patience with a body.
func TestBodyRate(t *testing.T) {
	r := newRig(t, handlerFunc(func(x *Exchange) {
		x.BodyRate(seconds(60), BodyWindowBytes)
		x.ReadBody(&echoBody{w: x.Worker()})
	}))
	s := r.dial()
	s.send("PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx")
	r.pass(seconds(60) - tick)
	s.wantState("open")
	s.send(strings.Repeat("x", BodyWindowBytes))
	r.pass(seconds(59))
	s.wantAnswers("")
	r.pass(seconds(2))
	s.wantAnswers("Request Timeout request body took too long\n (close)|")
}

// TestRefusals: whoever serves a path says how its requests are refused, and
// what is said when no path could be read.
func TestRefusals(t *testing.T) {
	refuse := func(who string) Refusal {
		return func(status int, reason string) http1.Response {
			return http1.Response{Status: status, Body: []byte(who + ": " + reason)}
		}
	}
	r := newRigConfig(t, Config{Budget: NewBudget(1 << 20), Handler: handlerFunc(func(x *Exchange) { x.ReadBody(&echoBody{w: x.Worker()}) }), Refusals: func(path []byte) Refusal {
		switch {
		case path == nil:
			return refuse("nobody")
		case string(path) == "/mine":
			return refuse("me")
		}
		return nil
	}})
	for _, c := range []struct{ request, want string }{
		{"no http\r\n\r\n", "Bad Request nobody: "},
		{"POST /mine HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", "Request Timeout me: request body took too long (close)|"},
		{"POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", "Request Timeout request body took too long\n (close)|"},
		{"POST /mine HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", "Bad Request me: "},
	} {
		s := r.dial()
		s.send(c.request)
		r.pass(BodyWindow + tick)
		if got := s.statuses(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %q, want %q", c.request, got, c.want)
		}
	}
}
