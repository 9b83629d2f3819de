//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// set changes what the hub does.
func (h *hub) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// Both transports over sockets; later runs go on with the same connections.
func TestRun(t *testing.T) {
	h := newHub(t)
	h.publish = func(n, _ int, _ []byte) {
		for _, p := range h.consumers {
			if p.path == "/ws?picky" && n%10 != 3 || p.path == "/sse?late" && n < 50 {
				continue
			}
			p.event(n)
		}
	}
	picky := Class{Count: 3, Request: upgrade("/ws?picky"), Select: func(n int) bool { return n%10 == 3 }}
	late := Class{Count: 2, Kind: SSE, Request: get("/sse?late"), First: 50}
	c := h.connect(ws(20), sse(20), picky, late)
	for i, deliveries := range []int64{40*100 + 3*10 + 2*50, 40*100 + 3*10 + 2*100} {
		var calls []bool
		out := mustRun(t, c, Load{
			Publisher: testPublisher, First: i * 100, Events: 100, Window: 10,
			OnMeasure: func(begin bool) { calls = append(calls, begin) },
		})
		if got := faultsOf(out); got != (faults{}) {
			t.Errorf("run %d: %+v", i, got)
		}
		if out.Events != 100 || out.Deliveries != deliveries || out.LastLatency.Count() != 100 || out.PublishLag.Count() != 100 {
			t.Errorf("run %d: %d events, %d deliveries (want %d), %d last, %d published",
				i, out.Events, out.Deliveries, deliveries, out.LastLatency.Count(), out.PublishLag.Count())
		}
		if out.Bytes < out.Deliveries*50 || out.Wall <= 0 || out.ClientCPU <= 0 || out.Latency.Max() > out.Wall {
			t.Errorf("run %d: %d bytes, wall %v, CPU %v, latency %v", i, out.Bytes, out.Wall, out.ClientCPU, out.Latency.Max())
		}
		if !slices.Equal(calls, []bool{true, false}) {
			t.Errorf("run %d: OnMeasure %v", i, calls)
		}
	}
}

// Many classes of one consumer each, by Owners.
func TestRunManyClasses(t *testing.T) {
	const count = 200
	h := newHub(t)
	h.publish = func(n, _ int, _ []byte) {
		for _, p := range h.consumers {
			if p.path == fmt.Sprintf("/ws?%d", n%count) {
				p.event(n)
			}
		}
	}
	var classes []Class
	for i := range count {
		classes = append(classes, Class{Count: 1, Request: upgrade(fmt.Sprintf("/ws?%d", i))})
	}
	out := mustRun(t, h.connect(classes...), Load{
		Publisher: testPublisher, Events: 3 * count, Window: 32, Batch: 32,
		Owners: func(n int) []int { return []int{n % count} },
	})
	if faultsOf(out) != (faults{}) || out.Deliveries != 3*count {
		t.Errorf("%+v", out)
	}
}

// A window holds back what does not fit in; a batch goes out as a whole.
func TestWindowAndBatch(t *testing.T) {
	f := func(name string, window, batch, events int, rate float64, want ...int) {
		t.Helper()
		h := newHub(t)
		// The hub holds events back until it has a group, and then sends them
		// all. The client must have written no more than the group.
		var held, groups []int
		h.publish = func(n, buffered int, _ []byte) {
			held = append(held, n)
			size := want[min(len(groups), len(want)-1)]
			if len(held) < size && n < events-1 {
				return
			}
			if buffered > 0 {
				t.Errorf("%s: %d bytes more behind a full window of %d", name, buffered, len(held))
			}
			groups = append(groups, len(held))
			for _, n := range held {
				h.broadcast(n)
			}
			held = nil
		}
		out := mustRun(t, h.connect(ws(3)), Load{Publisher: testPublisher, Events: events, Window: window, Batch: batch, Rate: rate})
		if faultsOf(out) != (faults{}) || out.Deliveries != int64(3*events) {
			t.Errorf("%s: %+v", name, out)
		}
	}
	f("one in flight", 1, 0, 20, 0, 1)
	f("window", 8, 1, 64, 0, 8)
	f("batches", 8, 8, 64, 0, 8)
	f("last batch is smaller", 8, 8, 20, 0, 8)
	f("batches of half a window", 8, 4, 64, 0, 8)
	f("no second batch in a window and a half", 6, 4, 40, 0, 4)
	f("schedule in a window", 1, 1, 20, 1e6, 1)
}

// Without a window and a rate all is published at once, in order, however
// slowly the server reads.
func TestRunUnbounded(t *testing.T) {
	h := newHub(t)
	big := strings.Repeat("z", 900)
	pub := Publisher{Request: upgrade("/pub"), Encode: func(dst []byte, n int) []byte {
		for range 20 { // frames that the hub drops as pongs
			dst = appendMasked(dst, 0x8a, []byte(big[:maxControl]))
		}
		return encodeEvent(dst, n)
	}}
	out := mustRun(t, h.connect(ws(1)), Load{Publisher: pub, Events: 3000})
	if faultsOf(out) != (faults{}) || out.Deliveries != 3000 || out.PublishLag.Count() != 3000 {
		t.Errorf("%+v", out)
	}
}

// The schedule goes on while the server stalls, and latency counts from it.
func TestOpenLoop(t *testing.T) {
	t.Run("deliveries stall", func(t *testing.T) {
		h := newHub(t)
		// Nothing is delivered before event 50 is published, 50 ms after event
		// 0 was intended.
		h.publish = func(n, _ int, _ []byte) {
			if n == 50 {
				for i := range n {
					h.broadcast(i)
				}
			}
			if n >= 50 {
				h.broadcast(n)
			}
		}
		out := mustRun(t, h.connect(ws(2)), Load{Publisher: testPublisher, Events: 60, Rate: 1000})
		if faultsOf(out) != (faults{}) || out.Deliveries != 120 {
			t.Fatalf("%+v", out)
		}
		if out.Latency.Max() < 50*time.Millisecond || out.LastLatency.Max() < 50*time.Millisecond || out.Wall < 59*time.Millisecond {
			t.Errorf("latency %v and %v, wall %v", out.Latency.Max(), out.LastLatency.Max(), out.Wall)
		}
	})
	t.Run("publishing stalls", func(t *testing.T) {
		h := newHub(t)
		const stall = 40 * time.Millisecond
		h.publish = func(n, _ int, _ []byte) {
			if n == 0 {
				time.Sleep(stall) // what is measured
			}
			h.broadcast(n)
		}
		out := mustRun(t, h.connect(ws(1)), Load{Publisher: testPublisher, Events: 30, Window: 1, Rate: 1000})
		// Event i was intended at i ms and could not be published before the
		// stall was over; all 30 are late, the first by nothing, event 1 by 39.
		if out.PublishLag.Max() < stall-time.Millisecond {
			t.Errorf("published at most %v late", out.PublishLag.Max())
		}
		if least := out.Latency.Min(); least < stall-29*time.Millisecond {
			t.Errorf("latency of %v: not from the intended time", least)
		}
	})
}

// The warm-up is delivered and checked, but not measured; it ends before the
// measured part begins.
func TestWarmup(t *testing.T) {
	h := newHub(t)
	sent := 0
	h.publish = func(n, _ int, _ []byte) {
		sent = n + 1
		if n == 2 {
			h.broadcast(1) // repeated
		}
		h.broadcast(n)
	}
	c := h.connect(ws(2), sse(1))
	atBegin := -1
	out := mustRun(t, c, Load{Publisher: testPublisher, Events: 50, Warmup: 20, Window: 5, OnMeasure: func(begin bool) {
		if begin {
			h.set(func() { atBegin = sent })
		}
	}})
	if atBegin != 20 {
		t.Errorf("%d events were published when the measured part began", atBegin)
	}
	if out.Events != 30 || out.Deliveries != 90 || out.LastLatency.Count() != 30 || out.PublishLag.Count() != 30 {
		t.Errorf("%+v", out)
	}
	if got := faultsOf(out); got != (faults{Repeated: 3}) {
		t.Errorf("%+v", got)
	}
}

// Faults over sockets, and the time that ends the wait for what was lost.
func TestRunFindsFaults(t *testing.T) {
	h := newHub(t)
	h.publish = func(n, _ int, _ []byte) {
		switch n {
		case 2, 9: // lost, the last without a later one that would tell
		case 4:
		case 5:
			h.broadcast(5)
			h.broadcast(4)
		case 6:
			h.broadcast(6)
			h.broadcast(6)
			h.consumers[0].send(frame(0x81, []byte(`{"type":"other"}`)))
			h.consumers[0].send(event(100))
		case 8:
			h.consumers[1].send(encodeEvent(nil, 8)) // masked: it is lost
			h.consumers[0].event(8)
		default:
			h.broadcast(n)
		}
	}
	c := h.connect(ws(2))
	// In which all has to come that is not lost.
	l := Load{Publisher: testPublisher, Events: 10, Window: 3, Timeout: 3 * time.Second}
	out, err := c.Run(context.Background(), l)
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("error %v", err)
	}
	want := faults{Lost: 2 + 1 + 2, Repeated: 2, Disordered: 2, Foreign: 1, Corrupt: 1, ConnsLost: 1}
	if got := faultsOf(out); got != want || out.Other != 1 || out.Deliveries != 15 {
		t.Errorf("got %+v, %d others, %d deliveries; want %+v", got, out.Other, out.Deliveries, want)
	}
	// The client goes on with the consumer that is left.
	l.First, l.Events, l.Timeout = 10, 5, testTimeout
	if out := mustRun(t, c, l); faultsOf(out) != (faults{}) || out.Deliveries != 5 {
		t.Errorf("next run: %+v", out)
	}
}

// A consumer that ends is not awaited, however its end comes.
func TestConnectionsLost(t *testing.T) {
	for name, end := range map[string]func(p *peer){
		"FIN":        func(p *peer) { _ = p.Close() },
		"close":      func(p *peer) { p.send(frame(0x88, nil)) },
		"last chunk": func(p *peer) { p.send([]byte("0\r\n\r\n")) },
	} {
		h := newHub(t)
		h.publish = func(n, _ int, _ []byte) {
			h.broadcast(n)
			if n == 3 {
				end(h.consumers[0])
			}
		}
		cl := ws(1)
		if name == "last chunk" {
			cl = sse(1)
		}
		out := mustRun(t, h.connect(cl), Load{Publisher: testPublisher, Events: 10, Window: 1})
		if got := faultsOf(out); got != (faults{Lost: 6, ConnsLost: 1}) || out.Deliveries != 4 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What comes before a run, also the end of a connection, is accounted for in
// it.
func TestBetweenRuns(t *testing.T) {
	h := newHub(t)
	h.greet = func(p *peer) { p.accept(frame(0x81, []byte("{}")), event(0)[:20]) }
	h.publish = func(n, _ int, _ []byte) {
		for _, p := range h.consumers {
			if n == 0 {
				p.send(event(0)[20:])
				continue
			}
			p.event(n)
		}
		if n == 4 {
			_ = h.consumers[0].Close()
		}
	}
	c := h.connect(ws(2))
	out := mustRun(t, c, Load{Publisher: testPublisher, Events: 4, Window: 1})
	if faultsOf(out) != (faults{}) || out.Deliveries != 8 || out.Other != 2 {
		t.Errorf("first run: %+v", out)
	}
	// Events 4 and 5 are sent to no run and reach the second late; the FIN
	// stands behind the first of them.
	h.set(func() {
		h.broadcast(3)
		_ = h.consumers[0].Close()
	})
	out = mustRun(t, c, Load{Publisher: testPublisher, First: 5, Events: 5, Window: 1})
	if got := faultsOf(out); got.ConnsLost != 1 || got.Repeated == 0 || out.Deliveries < 5 {
		t.Errorf("second run: %+v", got)
	}
}

// Stalled consumers subscribe, are not read, and are owed nothing.
func TestStalled(t *testing.T) {
	h := newHub(t)
	stalled := ws(2)
	stalled.Stalled, stalled.RecvBytes = true, 4096
	stalled.Request = upgrade("/ws?stalled")
	c := h.connect(stalled, ws(2))
	h.set(func() {
		h.publish = func(n, _ int, _ []byte) {
			for _, p := range h.consumers {
				if p.path == "/ws" || n < 5 {
					p.event(n)
				}
			}
		}
	})
	out := mustRun(t, c, Load{Publisher: testPublisher, Events: 100, Window: 4})
	if faultsOf(out) != (faults{}) || out.Deliveries != 200 {
		t.Errorf("%+v", out)
	}
}

// Pings are answered, with their payload, on consumers and publisher.
func TestPings(t *testing.T) {
	h := newHub(t)
	pongs := make(chan string, 1)
	h.behindPub = frame(0x89, []byte("pub"))
	h.greet = func(p *peer) {
		p.accept(frame(0x89, []byte("hi"))) // ping
		h.wg.Go(func() {
			first, body, err := readMasked(p.in)
			if err != nil || first != 0x8a {
				t.Errorf("%x %q %v", first, body, err)
			}
			pongs <- string(body)
		})
	}
	// Event 1 is sent when both pongs are there, or never.
	h.publish = func(n, _ int, _ []byte) {
		if n == 1 && (<-pongs != "hi" || h.pubPong != "pub") {
			t.Errorf("pongs: publisher %q", h.pubPong)
		}
		h.broadcast(n)
	}
	if out := mustRun(t, h.connect(ws(1)), Load{Publisher: testPublisher, Events: 2, Window: 1}); out.Deliveries != 2 {
		t.Errorf("%+v", out)
	}
}

// A load that contradicts itself is refused.
func TestBadLoads(t *testing.T) {
	h := newHub(t)
	c := h.connect(ws(1))
	for _, l := range []Load{
		{Events: 1},
		{Events: -1, Publisher: testPublisher},
		{Events: maxSpan + 1, Publisher: testPublisher},
		{First: math.MaxInt32, Events: 1, Publisher: testPublisher},
		{Events: 1, Window: 2, Batch: 3, Publisher: testPublisher},
		{Events: 1, Warmup: 2, Publisher: testPublisher},
		{Events: 1, Rate: math.NaN(), Publisher: testPublisher},
		{Events: 1, Rate: -1, Publisher: testPublisher},
		{Published: 5, First: 4, Events: 1, Publisher: testPublisher},
		{Events: 1, Publisher: testPublisher, Owners: func(int) []int { return []int{7} }},
	} {
		if _, err := c.Run(context.Background(), l); !errors.Is(err, ErrLoad) {
			t.Errorf("%+v: error %v", l, err)
		}
	}
	if out := mustRun(t, c, Load{Publisher: testPublisher, Events: 2}); out.Deliveries != 2 {
		t.Errorf("a good load behind bad ones: %+v", out)
	}
}

// A publisher that is refused or lost is an error, with what was found.
func TestPublisherLost(t *testing.T) {
	h := newHub(t)
	h.publish = func(n, _ int, _ []byte) {
		h.broadcast(n)
		if n == 2 {
			for _, nc := range h.conns {
				if nc.RemoteAddr().String() != h.consumers[0].RemoteAddr().String() {
					_ = nc.Close()
				}
			}
		}
	}
	c := h.connect(ws(1))
	out, err := c.Run(context.Background(), Load{Publisher: testPublisher, Events: 10, Window: 1, Timeout: testTimeout})
	if !errors.Is(err, ErrPublisher) || out.Deliveries > 3 {
		t.Errorf("%v, %+v", err, out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.connect(ws(1)).Run(ctx, Load{Publisher: testPublisher, Events: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
