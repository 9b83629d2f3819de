package serve

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/loop"
)

// sink is a transport that takes everything and keeps nothing.
type sink struct{}

func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) WantWritable()               {}
func (sink) UnackedBytes() int           { return 0 }
func (sink) CloseWrite()                 {}
func (sink) Close()                      {}
func (sink) Abort()                      {}
func (sink) StreamBuffers()              {}
func (sink) RemoteAddr() netip.AddrPort  { return netip.AddrPort{} }
func (sink) LocalAddr() netip.AddrPort   { return netip.AddrPort{} }

// fixedAnswer is a handler that answers all requests alike, and upgrades those
// that ask for it.
type fixedAnswer struct {
	answer http1.Response
	socket SocketHandler
}

func (h *fixedAnswer) Serve(x *Exchange) {
	if x.Head.IsWebSocketUpgrade() {
		x.Upgrade(h.socket)
		return
	}
	x.Respond(&h.answer)
}

// quiet is a socket handler that does nothing with a text.
type quiet struct {
	recorder
	bytes int
}

func (q *quiet) OnText(text []byte) { q.bytes += len(text) }

func newFixedAnswer() *fixedAnswer {
	return &fixedAnswer{
		answer: http1.Response{
			Status: 200, KeepAlive: true, Body: []byte(`{"ok":true}`),
			Fields: []http1.Field{{Name: "Content-Type", Value: "application/json"}},
		},
		socket: &quiet{},
	}
}

// connect accepts a connection to nowhere.
func (r *rig) connect(tb testing.TB) loop.Handler {
	h := r.worker.Accept(sink{})
	tb.Cleanup(func() { h.OnClose(nil) })
	return h
}

// TestAllocations: a keep-alive GET that is answered at once, and a WebSocket
// text in one piece, allocate nothing in this package and below it.
func TestAllocations(t *testing.T) {
	r := newRig(t, newFixedAnswer())
	request := []byte(get("/healthz", "User-Agent: test", "Accept: */*"))
	h := r.connect(t)
	if n := testing.AllocsPerRun(1000, func() { h.OnData(request) }); n != 0 {
		t.Errorf("a request allocates %v times, want 0", n)
	}
	pipelined := []byte(get("/healthz") + get("/healthz") + get("/healthz"))
	if n := testing.AllocsPerRun(1000, func() { h.OnData(pipelined) }); n != 0 {
		t.Errorf("three pipelined requests allocate %v times, want 0", n)
	}
	s := r.connect(t)
	s.OnData([]byte(upgradeHead))
	message := []byte(textFrame(`{"type":"run.started","id":"1"}`))
	if n := testing.AllocsPerRun(1000, func() { s.OnData(message) }); n != 0 {
		t.Errorf("a message allocates %v times, want 0", n)
	}
}

// idleBytes returns what a connection costs at rest, the average of count.
func idleBytes(tb testing.TB, r *rig, count int, prepare func(loop.Handler)) float64 {
	handlers, open := make([]loop.Handler, count), r.worker.Conns()
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for i := range handlers {
		handlers[i] = r.worker.Accept(sink{})
		prepare(handlers[i])
	}
	after := used()
	for _, h := range handlers {
		h.OnClose(nil)
	}
	if n := r.worker.Conns() - open; n != 0 {
		tb.Errorf("%d connections are left", n)
	}
	return float64(int64(after)-int64(before)) / float64(count)
}

// idleKinds are connections at rest: what each does before it rests.
var idleKinds = []struct {
	name    string
	prepare func(loop.Handler)
}{
	{"new", func(loop.Handler) {}},
	{"keep-alive", func(h loop.Handler) { h.OnData([]byte(get("/healthz"))) }},
	{"socket", func(h loop.Handler) { h.OnData([]byte(upgradeHead + textFrame("hello"))) }},
}

// TestIdleMemory: a connection at rest costs less than 1.5 KB.
func TestIdleMemory(t *testing.T) {
	for _, k := range idleKinds {
		r := newRig(t, newFixedAnswer())
		k.prepare(r.connect(t)) // scratch that all connections share
		if n := idleBytes(t, r, 1000, k.prepare); n > 1500 {
			t.Errorf("%s: %.0f bytes a connection", k.name, n)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	for name, in := range map[string]string{
		"get":       get("/healthz", "User-Agent: test", "Accept: */*"),
		"pipelined": get("/healthz") + get("/healthz") + get("/healthz") + get("/healthz"),
		"dropped body": post("/events", `{"aep":"0.1","id":"1","type":"run.started"}`,
			"Content-Type: application/json", "AEP-Version: 0.1"),
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, newFixedAnswer())
			h := r.connect(b)
			in := []byte(in)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				h.OnData(in)
			}
		})
	}
}

func BenchmarkMessage(b *testing.B) {
	for name, payload := range map[string]int{"100B": 100, "600B": 600, "16KiB": 16 << 10} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, newFixedAnswer())
			h := r.connect(b)
			h.OnData([]byte(upgradeHead))
			text := make([]byte, payload)
			for i := range text {
				text[i] = 'x'
			}
			in := []byte(textFrame(string(text)))
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				h.OnData(in)
			}
		})
	}
}

func BenchmarkIdleConns(b *testing.B) {
	for _, k := range idleKinds {
		b.Run(k.name, func(b *testing.B) {
			r := newRig(b, newFixedAnswer())
			k.prepare(r.connect(b))
			var sum float64
			for b.Loop() {
				sum += idleBytes(b, r, 1000, k.prepare)
			}
			b.ReportMetric(sum/float64(b.N), "B/conn")
		})
	}
}
