//go:build linux

package load

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A head in pieces, frames sent behind it, a text that says "subscribed", and
// events in the same write as that.
func TestConnectReady(t *testing.T) {
	h := newHub(t)
	h.greet = func(p *peer) {
		if p.isSSE() {
			p.send([]byte("HTTP/1.1 200 OK\r\n\r\n: sub"))
			p.send(join([]byte("scribed\n\n"), sseEvent(0), sseEvent(1)[:10]))
			p.send(sseEvent(1)[10:])
			return
		}
		for _, part := range strings.SplitAfter(answer101, "\n") {
			p.send([]byte(part))
		}
		h.wg.Go(func() {
			if first, body, err := readMasked(p.in); err != nil || first != 0x81 || string(body) != "sub" {
				t.Errorf("behind the head: %x %q %v", first, body, err)
			}
			h.set(func() { p.send(join(frame(0x81, []byte(`{"subscribed":1}`)), event(0), event(1))) })
		})
	}
	a := ws(20)
	a.After, a.Ready = appendMasked(nil, 0x81, []byte("sub")), "subscribed"
	b := sse(20) // without chunks
	b.Ready = "subscribed"
	out := mustRun(t, h.connect(a, b), Load{Published: 2})
	if faultsOf(out) != (faults{}) || out.Deliveries != 80 || out.Other != 20 || out.LastLatency.Count() != 2 {
		t.Errorf("%+v", out)
	}
}

// A second Connect adds consumers.
func TestConnectTwice(t *testing.T) {
	h := newHub(t)
	c := h.connect(ws(3))
	if stats, err := c.Connect(context.Background(), []Class{sse(2)}); err != nil || stats.Consumers != 2 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if out := mustRun(t, c, Load{Publisher: testPublisher, Events: 4}); out.Deliveries != 20 {
		t.Errorf("%+v", out)
	}
}

// A handshake that fails is an error which says whose it was and why.
func TestConnectRefused(t *testing.T) {
	f := func(name string, cl Class, greet func(p *peer), is error, wants ...string) {
		t.Helper()
		h := newHub(t)
		h.greet = greet
		timeout := testTimeout
		if errors.Is(is, ErrTimeout) {
			timeout = 200 * time.Millisecond
		}
		c := h.client(Options{Timeout: timeout})
		cl.Name = "the class"
		_, err := c.Connect(context.Background(), []Class{cl})
		if !errors.Is(err, is) {
			t.Errorf("%s: %v", name, err)
			return
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
		if _, err := c.Run(context.Background(), Load{}); err == nil {
			t.Errorf("%s: a run without consumers", name)
		}
	}
	say := func(text string) func(p *peer) { return func(p *peer) { p.send([]byte(text)) } }
	hang := func(text string) func(p *peer) { return func(p *peer) { p.send([]byte(text)); _ = p.Close() } }
	f("status", ws(2), say("HTTP/1.1 503 Too Many\r\n\r\n"), ErrRefused, "the class", "503 Too Many")
	f("no upgrade", ws(1), say("HTTP/1.1 200 OK\r\n\r\n"), ErrRefused, "200 OK")
	f("no stream", sse(1), say("HTTP/1.1 404 Not Found\r\n\r\n"), ErrRefused, "404")
	f("no HTTP", sse(1), say("SSH-2.0-x\r\n\r\n"), ErrRefused, "SSH-2.0")
	f("closed", ws(1), hang("HTTP/1.1 101 Sw"), ErrRefused, "closed", "101 Sw")
	f("silent", ws(1), say("HTTP/1.1 101 Sw"), ErrTimeout, "0 of 1")
	ready := ws(1)
	ready.Ready = "subscribed"
	f("never subscribed", ready, say(answer101), ErrTimeout, "0 of 1")
	f("endless", ready, say(answer101+strings.Repeat("x", maxHello)), ErrRefused, "not subscribed")

	h := newHub(t)
	if err := h.ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.client(Options{}).Connect(context.Background(), []Class{ws(1)}); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
}

// Bad arguments have errors of their own.
func TestConnectArguments(t *testing.T) {
	for _, addr := range []string{"", ":80", "127.0.0.1", "[::1]:80", "127.0.0.1:x"} {
		if c, err := New(Options{Addr: addr}); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v, %v", addr, c, err)
		}
	}
	h := newHub(t)
	if _, err := h.client(Options{}).Connect(context.Background(), []Class{ws(1 << 30)}); !errors.Is(err, ErrDescriptors) {
		t.Errorf("too many: %v", err)
	}
	for _, cl := range []Class{{Count: 1}, {Count: -1, Request: []byte("x")}, {Count: 1, Kind: 7, Request: []byte("x")}} {
		if _, err := h.client(Options{}).Connect(context.Background(), []Class{cl}); err == nil {
			t.Errorf("%+v is taken", cl)
		}
	}
}

// RecvBytes is set before connect, and connections come from several
// addresses.
func TestConnectSockets(t *testing.T) {
	h := newHub(t)
	cl := ws(sources)
	cl.RecvBytes = 8192
	c := h.connect(cl)
	for i := range c.consumers {
		if got, err := unix.GetsockoptInt(int(c.consumers[i].fd), unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil || got != 2*8192 {
			t.Errorf("SO_RCVBUF %d, %v", got, err)
		}
	}
	hosts := map[string]bool{}
	h.set(func() {
		for _, p := range h.consumers {
			host, _, _ := net.SplitHostPort(p.RemoteAddr().String())
			hosts[host] = true
		}
	})
	if len(hosts) != sources {
		t.Errorf("from %v", hosts)
	}
}

// A herd connects at once, gets what was published before from its positions,
// and what is published meanwhile, in pieces.
func TestHerd(t *testing.T) {
	const published, events = 300, 50
	h := newHub(t)
	next := published
	h.greet = func(p *peer) {
		p.accept()
		first := 0
		if strings.HasSuffix(p.path, "?late") {
			first = 120
		}
		var replay []byte
		for n := first; n < next; n++ {
			if p.isSSE() {
				replay = append(replay, chunk(sseEvent(n))...)
			} else {
				replay = append(replay, event(n)...)
			}
		}
		p.send(replay[:len(replay)/3+1])
		p.send(replay[len(replay)/3+1:])
	}
	h.publish = func(n, _ int, _ []byte) {
		h.broadcast(n)
		next = n + 1
	}
	late := Class{Name: "late", Count: 100, Request: upgrade("/ws?late"), First: 120}
	for name, o := range map[string]Options{"at once": {AllAtOnce: true}, "few at a time": {BatchDial: 3}} {
		h.set(func() { next, h.consumers = published, nil })
		c := h.client(o)
		stats, out, err := c.Herd(context.Background(), []Class{ws(100), sse(100), late},
			Load{Published: published, First: published, Events: events, Publisher: testPublisher, Rate: 2000, Timeout: testTimeout})
		if err != nil {
			t.Fatalf("%s: %v: %+v", name, err, out)
		}
		want := int64(200*(published+events) + 100*(published+events-120))
		if stats.Consumers != 300 || faultsOf(out) != (faults{}) || out.Deliveries != want || out.Events != published+events {
			t.Errorf("%s: %d consumers, %+v, %d deliveries (want %d), %d events",
				name, stats.Consumers, faultsOf(out), out.Deliveries, want, out.Events)
		}
		if out.LastLatency.Max() < stats.Latency.Max() {
			t.Errorf("%s: the last event came in %v, the last consumer in %v", name, out.LastLatency.Max(), stats.Latency.Max())
		}
		c.Close()
	}
}
