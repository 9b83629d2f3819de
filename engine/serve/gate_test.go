package serve

import (
	"net/netip"
	"strings"
	"testing"
)

// oneEach lets each address have one connection. A connection from the zero
// address is a proxy's, trusted to name its client.
type oneEach map[netip.Addr]int

func (g oneEach) Acquire(addr netip.Addr) bool {
	if g[addr] > 0 {
		return false
	}
	g[addr]++
	return true
}

func (g oneEach) Release(addr netip.Addr) { g[addr]-- }

func (g oneEach) Client(peer netip.Addr, forwarded [][]byte) (netip.Addr, bool) {
	if peer.IsValid() {
		return peer, true
	}
	if forwarded == nil {
		return netip.Addr{}, false
	}
	if len(forwarded) == 0 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(string(forwarded[0]))
	return addr, err == nil
}

// TestC54AtAccept: a peer that is no proxy is counted when it connects, and gets
// 429 before it asks for anything.
func TestC54AtAccept(t *testing.T) {
	g := oneEach{}
	r := newRigConfig(t, Config{Handler: &app{}, Budget: NewBudget(1 << 20), Gate: g})
	first, second := r.dial(), r.dial()
	second.wantAnswers("Too Many Requests too many connections from this address\n (close)|")
	second.wantState("fin")
	first.send(get("/now"))
	first.wantAnswers("OK /now|")
	first.hangUp()
	third := r.dial()
	third.send(get("/now"))
	third.wantAnswers("OK /now|")
}

// TestC54PerAddress: a client with too many connections gets 429, and its place
// is free again when one closes; behind a trusted proxy it is the client that
// the request names, also over a Unix socket, whose peers have no address.
func TestC54PerAddress(t *testing.T) {
	g := oneEach{}
	a := &app{}
	r := newRigConfig(t, Config{Handler: a, Budget: NewBudget(1 << 20), Gate: g})
	from := func(client string) string {
		return "GET /now HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: " + client + "\r\n\r\n"
	}
	r.unix = true
	first, second, other := r.dial(), r.dial(), r.dial()
	first.send(from("192.0.2.1"))
	first.wantAnswers("OK /now|")
	second.send(from("192.0.2.1"))
	second.wantAnswers("Too Many Requests too many connections from this address\n (close)|")
	other.send(from("192.0.2.2"))
	other.wantAnswers("OK /now|")
	if got := r.worker.Stats().PerAddress; got != 1 {
		t.Errorf("PerAddress is %d, want 1", got)
	}
	// The proxy reuses a connection for another client: the old place is free.
	first.send(from("192.0.2.3"))
	first.wantAnswers("OK /now|")
	third := r.dial()
	third.send(from("192.0.2.1"))
	third.wantAnswers("OK /now|")
	for _, s := range []*sock{first, other, third} {
		s.hangUp()
	}
	for addr, n := range g {
		if n != 0 {
			t.Errorf("%v still counts %d", addr, n)
		}
	}
}

// TestC54Head: the answer to HEAD has no body, whoever gives it (RFC 9110
// section 9.3.2).
func TestC54Head(t *testing.T) {
	g := oneEach{}
	r := newRigConfig(t, Config{Handler: &app{}, Budget: NewBudget(1 << 20), Gate: g})
	r.unix = true
	head := "HEAD /now HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
	first, second := r.dial(), r.dial()
	first.send(strings.Replace(head, "HEAD", "GET", 1))
	second.send(head)
	if got := second.text(); !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("got %q", got)
	}
}
