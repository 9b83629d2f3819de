package relay_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// flood publishes notice events of session "s" while one healthy consumer
// reads; each batch waits until that consumer has the one before, so that only
// consumers that do not read can lag.
type flood struct {
	f        *fixture
	received atomic.Int64 // by the healthy consumer
	failure  atomic.Value // string
	sent     int
}

// newFlood starts the healthy consumer.
func newFlood(t *testing.T, f *fixture) *flood {
	t.Helper()
	fl := &flood{f: f}
	next := f.join(t, "WebSocket", "", `{"type":"subscribe","id":"healthy"}`)
	go func() {
		for {
			text, err := next()
			if err != nil {
				return
			}
			e, err := relaytest.ParseEnvelope(text)
			if err != nil || int64(e.SeqNumber()) != fl.received.Load() {
				fl.failure.CompareAndSwap(nil, fmt.Sprintf("healthy consumer: %.200s (%v) as event %d", text, err, fl.received.Load()))
			}
			fl.received.Add(1)
		}
	}()
	return fl
}

// publishUntil publishes until only left subscriptions are there, which has to
// be before n bytes. Whoever was cut has a few seconds from then on.
func (fl *flood) publishUntil(t *testing.T, left, n, size int) {
	t.Helper()
	const step = 256 << 10
	for sent := 0; sent < n; sent += step {
		fl.publish(t, step, size)
		if fl.f.health(t).Subscribers == left {
			return
		}
	}
	t.Fatalf("R422: nobody was cut in %d bytes", n)
}

// publish sends about n bytes in events of about size bytes.
func (fl *flood) publish(t *testing.T, n, size int) {
	t.Helper()
	for left := n; left > 0; {
		var batch []string
		for bytes := 0; bytes < 256<<10 && left > 0; bytes += size {
			batch = append(batch, relaytest.Padded("s", uint64(fl.sent+len(batch)), "notice", size).JSON())
			left -= size
		}
		fl.f.post(t, batch...)
		fl.sent += len(batch)
		deadline := time.Now().Add(patience)
		for fl.received.Load() < int64(fl.sent) {
			if time.Now().After(deadline) {
				t.Fatalf("R425: healthy consumer has %d of %d events", fl.received.Load(), fl.sent)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	if failure := fl.failure.Load(); failure != nil {
		t.Error(failure)
	}
}

// TestR428StalledSocket: a reader with a 4 KiB receive buffer stalls under a
// flood and reads again: it has no hole, is told its positions, and closed with
// 1013 (R422, R425, R428, R430, W23).
func TestR428StalledSocket(t *testing.T) {
	t.Parallel()
	// A small send buffer, so that what it holds is read in good time.
	f := startRelay(t, map[string]string{"AEP_BUFFER": "100", "SLUICE_SEND_BUFFER": "32768"})
	stalled := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 4 << 10})
	stalled.subscribe(`{"type":"subscribe","id":"slow"}`)
	stalled.subscribe(`{"type":"subscribe","id":"idle","filter":{"session":"none"}}`)
	fl := newFlood(t, f)
	fl.publishUntil(t, 1, 14<<20, 4000)
	got := 0
	for {
		text := stalled.text()
		if isFrame(text[:min(len(text), 40)], "closing") || strings.Contains(text[:min(len(text), 40)], `"closing"`) {
			e, err := relaytest.ParseEnvelope(text)
			if err != nil || e.Type != "closing" || e.Reason != "backpressure" {
				t.Fatalf("R428: %s (%v)", text, err)
			}
			want := fmt.Sprintf(`[{"sub":"slow","session":"s","epoch":0,"seq":%d}]`, got-1)
			_, delivered, _ := strings.Cut(text, `"delivered":`)
			delivered = delivered[:strings.LastIndex(delivered, "]")+1]
			wantJSON(t, "R430: delivered", delivered, want)
			break
		}
		if e, err := relaytest.ParseEnvelope(text); err != nil || e.SeqNumber() != uint64(got) {
			t.Fatalf("R422: event %d is %.200s (%v)", got, text, err)
		}
		got++
	}
	if got == fl.sent {
		t.Error("all events came: nothing was bounded")
	}
	if reason := stalled.closes(1013); reason != "backpressure" {
		t.Errorf("close reason %q", reason)
	}
	f.awaitHealth(t, "R334", func(h health) bool { return h.Connections == 1 && h.Subscribers == 1 })
	fl.publish(t, 1<<20, 4000)
}

// TestR428NeverReads: such a peer is reset at most 5 s later.
func TestR428NeverReads(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "100"})
	stalled := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 4 << 10})
	stalled.subscribe(`{"type":"subscribe","id":"slow"}`)
	fl := newFlood(t, f)
	fl.publish(t, 14<<20, 4000)
	begin := time.Now()
	f.awaitHealth(t, "R428", func(h health) bool { return h.Connections == 1 && h.Subscribers == 1 })
	// Without a limit of its own it would be 90 s (R424).
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("cut %v after the flood, want at most 5 s", took)
	}
}

// TestR427StalledStream: forgotten at once and reset; what came before the end
// has no hole (W7).
func TestR427StalledStream(t *testing.T) {
	t.Parallel()
	for _, http10 := range []bool{false, true} {
		f := startRelay(t, map[string]string{"AEP_BUFFER": "100"})
		s := f.stream(t, "", relaytest.StreamOptions{RecvBytes: 4 << 10, HTTP10: http10})
		fl := newFlood(t, f)
		fl.publish(t, 14<<20, 4000)
		f.awaitHealth(t, "R427: subscriber gone while its peer does not read", func(h health) bool { return h.Subscribers == 1 })
		got := 0
		for {
			b, err := s.Next(patience)
			if relaytest.IsTimeout(err) {
				t.Fatal("R427: stream neither goes on nor ends")
			}
			if err != nil {
				break
			}
			if e, err := relaytest.ParseEnvelope(b.Data); err != nil || e.SeqNumber() != uint64(got) {
				t.Fatalf("event %d is %.200s (%v)", got, b.Raw, err)
			}
			got++
		}
		if got == fl.sent {
			t.Error("all events came: nothing was bounded")
		}
		fl.publish(t, 1<<20, 4000)
	}
}

// TestR420Shedding: over SOFT, debug and info go, notice and above stay, and
// the consumer is told how many (R420, R421, R424a, C45).
func TestR420Shedding(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{"SSE", "WebSocket"} {
		f := startRelay(t, nil)
		var next func() string
		if binding == "SSE" {
			s := f.stream(t, "", relaytest.StreamOptions{RecvBytes: 4 << 10})
			next = func() string {
				b := s.block()
				return b.Raw[max(0, strings.Index(b.Raw, "{")):]
			}
		} else {
			w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 4 << 10})
			w.subscribe(`{"type":"subscribe","id":"q"}`)
			next = w.text
		}
		const total = 5000
		severities := []string{"info", "debug", "", "notice", "info", "warning", "info", "info", "info", "critical"}
		var batch []string
		for i := range total {
			size := 1000
			if strings.Contains("notice warning critical", severities[i%10]) && severities[i%10] != "" {
				size = 100
			}
			if batch = append(batch, relaytest.Padded("s", uint64(i), severities[i%10], size).JSON()); len(batch) == 250 {
				f.post(t, batch...)
				batch = nil
			}
		}
		var lost, high uint64
		seen := uint64(0)
		last := -1
		for lost+seen < total {
			text := next()
			var n uint64
			if _, err := fmt.Sscanf(text, ": shed %d", &n); err == nil {
				lost += n
				continue
			}
			e, err := relaytest.ParseEnvelope(text[:strings.LastIndex(text, "}")+1])
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == "shed" {
				lost += e.Count
				continue
			}
			if int(e.SeqNumber()) <= last {
				t.Fatalf("%s: %d after %d", binding, e.SeqNumber(), last)
			}
			last = int(e.SeqNumber())
			seen++
			if i := last % 10; i == 3 || i == 5 || i == 9 {
				high++
			}
		}
		if lost+seen != total || lost == 0 {
			t.Errorf("R424a: %s: %d seen and %d shed of %d", binding, seen, lost, total)
		}
		if high != total/10*3 {
			t.Errorf("R420: %s: %d of %d events of notice and above", binding, high, total/10*3)
		}
		after := relaytest.Event{Session: "after"}.JSON()
		f.post(t, after)
		if got := next(); !strings.Contains(got, after) {
			t.Errorf("%s: after the shed notice: %.200s", binding, got)
		}
		if got := len(f.held(t)); got != total+1 {
			t.Errorf("R421: %d events held, want %d", got, total+1)
		}
	}
}

// TestR423Overtaken: when trimming overtakes a replay there is a marker at that
// point, and no silent gap.
func TestR423Overtaken(t *testing.T) {
	t.Parallel()
	const held, more = 2000, 1700
	for _, from := range []string{`[{"session":"s"}]`, "all"} {
		f := startRelay(t, map[string]string{"AEP_BUFFER": fmt.Sprint(held)})
		f.fill(t, "s", held, 2000)
		s := f.stream(t, query("from", from), relaytest.StreamOptions{RecvBytes: 4 << 10})
		w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 4 << 10})
		if from == "all" {
			from = `"all"`
		}
		w.subscribe(`{"type":"subscribe","id":"q","from":` + from + `}`)
		var batch []string
		for i := range more {
			if batch = append(batch, relaytest.Padded("s", uint64(held+i), "notice", 1000).JSON()); len(batch) == 100 {
				f.post(t, batch...)
				batch = nil
			}
		}
		read := func(binding string, next func() string) {
			t.Helper()
			want, gaps := 0, 0
			for want < held+more {
				text := next()
				var marked int
				if _, err := fmt.Sscanf(text, ": replay-exhausted s 0:%d", &marked); err == nil {
					if marked <= want {
						t.Errorf("%s from=%s: marker at %d names %d", binding, from, want, marked)
					}
					want = marked
					gaps++
					continue
				}
				e, err := relaytest.ParseEnvelope(text)
				if err != nil || e.SeqNumber() != uint64(want) {
					t.Errorf("%s from=%s: got %.120s (%v) where %d was due", binding, from, text, err, want)
					return
				}
				want++
			}
			if gaps == 0 { // more than one where the reader got on in between
				t.Errorf("%s from=%s: no marker", binding, from)
			}
		}
		read("SSE", func() string {
			b := s.block()
			if b.IsEvent() {
				return b.Data
			}
			return b.Raw
		})
		read("WebSocket", func() string {
			text := w.text()
			if e, err := relaytest.ParseEnvelope(text); err == nil && e.Type == "replay-exhausted" && string(e.Sub) == `"q"` && e.Earliest != nil {
				return fmt.Sprintf(": replay-exhausted %s %s:%s", e.Session, e.Earliest.Epoch, e.Earliest.Seq)
			}
			return text
		})
	}
}

// TestR426Memory: stalled readers cost a bounded amount, whatever the flood.
// It runs alone, since it looks at the heap.
func TestR426Memory(t *testing.T) {
	if testing.Short() {
		t.Skip("publishes 200 MB")
	}
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc >> 20)
	}
	measure := func(t *testing.T, stalled int) (mebibytes []int) {
		for deadline := time.Now().Add(time.Minute); heap() > 20; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("R473: heap is %d MiB a minute after the relay was shut down", heap())
			}
		}
		f := startRelay(t, map[string]string{"AEP_BUFFER": "100"})
		for range stalled {
			w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 4 << 10})
			w.subscribe(`{"type":"subscribe","id":"slow"}`)
		}
		fl := newFlood(t, f)
		for range 10 {
			fl.publish(t, 10<<20, 4000)
			mebibytes = append(mebibytes, heap())
		}
		return mebibytes
	}
	var without, with []int // each relay is gone before the next is measured
	t.Run("with", func(t *testing.T) { with = measure(t, 8) })
	t.Run("without", func(t *testing.T) { without = measure(t, 0) })
	for i := range min(len(without), len(with)) {
		if with[i] >= without[i]+32 {
			t.Errorf("heap in MiB, each 10 MiB of flood: %d without and %d with stalled readers, want less than 32 more", without, with)
			return
		}
	}
}

// TestR470DescendingBatch: order costs no more than a search and a move.
func TestR470DescendingBatch(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	const n = 10_000
	var down []string
	timed := func(session string, seq func(int) int) time.Duration {
		down = down[:0]
		for i := range n {
			down = append(down, relaytest.Event{Session: session, Seq: uint64(seq(i))}.JSON())
		}
		begin := time.Now()
		f.post(t, down...)
		return time.Since(begin)
	}
	// Whatever else the machine does, it is not in the way each time.
	for try := 1; ; try++ {
		ascending := timed(fmt.Sprint("up", try), func(i int) int { return i })
		descending := timed("down", func(i int) int { return n - 1 - i })
		if descending <= 10*ascending+time.Second {
			break
		}
		if try == 5 {
			t.Fatalf("10,000 events descending took %v, ascending %v", descending, ascending)
		}
		f = startRelay(t, nil)
	}
	got := texts(f.replay(t, query("from", `[{"session":"down"}]`)))
	if len(got) != n || got[0] != down[n-1] || got[n-1] != down[0] {
		t.Errorf("replay of %d events is not ascending", len(got))
	}
}
