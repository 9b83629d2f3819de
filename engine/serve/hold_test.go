package serve

import (
	"strings"
	"testing"
)

// TestR49HeldRequests: 64 requests wait behind an unfinished answer; one more
// closes the connection.
func TestR49HeldRequests(t *testing.T) {
	for name, deliver := range map[string]func(*sock, string){
		"in one piece":   (*sock).send,
		"octet by octet": (*sock).sendBytes,
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{}
			r := newRig(t, a)
			s, over := r.dial(), r.dial()
			deliver(s, get("/later")+strings.Repeat(get("/now"), HeldRequests))
			s.wantState("open")
			reply(a.kept[0], 200, "first")
			s.wantAnswers("OK first|" + strings.Repeat("OK /now|", HeldRequests))

			deliver(over, get("/later")+strings.Repeat(get("/now"), HeldRequests+1))
			over.wantState("reset")
			over.wantAnswers("")
			if got := r.worker.Stats().OverLimit; got != 1 {
				t.Errorf("OverLimit is %d, want 1", got)
			}
			if a.kept[1].Alive() {
				t.Error("the exchange of the closed connection is alive")
			}
		})
	}
}

// TestR49HeldBytes: 1 MiB waits; one octet more closes the connection.
func TestR49HeldBytes(t *testing.T) {
	const head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1100000\r\n\r\n"
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/later"))
	s.send(head + strings.Repeat("b", HeldBytes-len(head)))
	s.wantState("open")
	if got := r.budget.UsedBytes(); got != HeldBytes {
		t.Errorf("%d bytes of the budget are used, want %d", got, HeldBytes)
	}
	s.send("b")
	s.wantState("reset")
	if got := r.budget.UsedBytes(); got != 0 {
		t.Errorf("%d bytes of the budget are used after the end", got)
	}
}

// TestR49HeldBodyCounts: what is held of a body is no request, whatever it looks
// like, and what is no HTTP is refused when its turn comes.
func TestR49HeldBodyCounts(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	body := strings.Repeat(get("/now"), 200)
	s.send(get("/later") + post("/echo", body) + chunked("/echo", body, 100) + "no http\r\n\r\n")
	s.wantState("open")
	reply(a.kept[0], 200, "first")
	list := s.answers()
	if len(list) != 4 || list[1].body != body || list[2].body != body || list[3].status != 400 {
		t.Fatalf("%d answers", len(list))
	}
	s.wantState("fin")
}

// TestHeldAgain: input that is held a second time, behind another kept answer,
// keeps its order and its count.
func TestHeldAgain(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(strings.Repeat(get("/later")+get("/now"), 20))
	for i := range 20 {
		if len(a.kept) != i+1 {
			t.Fatalf("%d requests came up, want %d", len(a.kept), i+1)
		}
		reply(a.kept[i], 200, "kept")
	}
	s.wantAnswers(strings.Repeat("OK kept|OK /now|", 20))
}

// TestSlowReaderOfAnswers: a peer that takes ten octets at a time gets all
// answers in order, and no more than owedAnswer and one answer are ever owed.
func TestSlowReaderOfAnswers(t *testing.T) {
	a := &app{}
	text := strings.Repeat("t", 16<<10)
	a.extra = map[string]func(*Exchange){"/some": func(x *Exchange) { reply(x, 200, text) }}
	r := newRig(t, a)
	s := r.dial()
	s.room = 0
	s.send(strings.Repeat(get("/some"), 20))
	if n := len(a.served); n != 4 {
		t.Errorf("%d requests were begun, want 4 of 16 KiB each", n)
	}
	for len(s.out) < 20*len(text) && s.want {
		s.take(10)
		if owed := s.conn().owed(); owed > owedAnswer+int64(len(text))+200 {
			t.Fatalf("%d bytes are owed", owed)
		}
	}
	for s.want {
		s.take(10)
	}
	if list := s.answers(); len(list) != 20 {
		t.Errorf("%d answers, want 20", len(list))
	}
	s.wantState("open")
	s.takeAll()
	s.send(get("/now"))
	s.wantAnswers("OK /now|")
}

// TestR46HeldBudget: held input counts in the budget; without room there the
// connection is closed.
func TestR46HeldBudget(t *testing.T) {
	a := &app{}
	r := newRigConfig(t, Config{Handler: a, Budget: NewBudget(1000)})
	s, other := r.dial(), r.dial()
	s.send(get("/later") + strings.Repeat(get("/now"), 10))
	s.wantState("open")
	other.send(get("/later") + strings.Repeat(get("/now"), 20))
	other.wantState("reset")
	reply(a.kept[0], 200, "")
	s.wantAnswers("OK|" + strings.Repeat("OK /now|", 10))
	if got := r.budget.UsedBytes(); got != 0 {
		t.Errorf("%d bytes of the budget are used", got)
	}
}

// TestBrokenTransport: after an error of the transport nothing more is served.
func TestBrokenTransport(t *testing.T) {
	a := &app{}
	r := newRig(t, a)
	s := r.dial()
	s.send(get("/later") + post("/echo", "held"))
	s.broken = errSockClosed
	reply(a.kept[0], 200, "")
	// The close is on its way; more input must not be taken for a request.
	s.call(func() { s.h.OnData([]byte(get("/now"))) })
	r.run()
	if got := strings.Join(a.served, " "); got != "/later" {
		t.Errorf("served %q", got)
	}
	s.wantState("closed")
}
