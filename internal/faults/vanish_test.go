package faults_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

// vanishEvents is the size of a batch whose publisher vanishes.
const vanishEvents = 40

// replay returns how many events of a session the relay holds, all checked.
func replay(tb testing.TB, addr, session string) int {
	tb.Helper()
	c, err := faults.OpenConsumer(addr, faults.Subscription{
		ReplayOnly: true, Filter: faults.FilterOf(session), From: (&faults.View{}).From(session),
	})
	must(tb, "replay", err)
	defer c.Close()
	var view faults.View
	view.Expect(session, 0)
	for {
		it, err := c.Next(patience)
		if errors.Is(err, faults.ErrEnded) {
			return view.Events
		}
		if err == nil {
			err = view.Take(it)
		}
		if err != nil {
			tb.Fatalf("replay of %s: %v", session, err)
		}
	}
}

// batch returns a batch of a session as a whole request, and the length of its
// head.
func batch(r *faults.Rand, addr, session string, chunked bool) (request []byte, head int) {
	var body []byte
	for seq := range uint64(vanishEvents) {
		body = append(faults.Seal(body, faults.Sealing{
			Session: session, Seq: seq, Severity: "notice", PadBytes: r.IntN(2000),
		}), '\n')
	}
	if !chunked {
		h := faults.PostHead(nil, addr, len(body))
		return append(h, body...), len(h)
	}
	h := faults.PostHead(nil, addr, -1)
	return append(h, faults.Chunks(r, body)...), len(h)
}

// TestPublisherVanishes: a publisher that vanishes before the last octet of its
// batch has published nothing; one that vanishes after it has published all or
// nothing; and what was published is there for live consumers and replays alike
// (R71).
func TestPublisherVanishes(t *testing.T) {
	t.Parallel()
	p := startRelay(t)
	r := faults.NewRand(newSeed(t), 0)
	base := gauges(t, p)
	h := startHealthy(t, p.Addr, "healthy", 2, 200)
	watcher := watchVanish(t, p.Addr)
	kept := map[string]int{}
	rounds := scale(200, 40)
	for i := range rounds {
		session := fmt.Sprintf("v%d", i)
		request, head := batch(r, p.Addr, session, i%2 == 0)
		whole := i%4 >= 2
		if !whole {
			request = request[:head+r.IntN(len(request)-head)]
		}
		vanish(t, p.Addr, request, r.IntN(3))
		kept[session] = vanishEvents
		if !whole {
			kept[session] = 0
		}
	}
	h.end()
	must(t, "R71: connections of those who vanished", p.AwaitBaseline(watcher.over(base), patience))
	whole, none := 0, 0
	for session, most := range kept {
		n := replay(t, p.Addr, session)
		if n != 0 && n != most {
			t.Errorf("R71: %d events of %s were ingested, want none%s", n, session, map[bool]string{true: "", false: " or all"}[most == 0])
		}
		if live := watcher.count(session, n); live != n {
			t.Errorf("R78: %d events of %s were delivered live, %d are held", live, session, n)
		}
		if n > 0 {
			whole++
		} else if most > 0 {
			none++
		}
	}
	t.Logf("of %d whole batches %d were ingested and %d were not", rounds/2, whole, none)
	if whole == 0 {
		t.Error("no whole batch was ingested: nothing was tested")
	}
}

// vanish sends a request and leaves without waiting for an answer.
func vanish(tb testing.TB, addr string, request []byte, how int) {
	nc, err := faults.Dial(addr, 0)
	must(tb, "dial", err)
	_ = nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := nc.Write(request); err != nil {
		tb.Errorf("send: %v", err)
	}
	switch how {
	case 0:
		_ = nc.SetLinger(0) // RST
	case 1: // half-close
		_ = nc.CloseWrite()
		_ = nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, net.ErrClosed) {
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				tb.Error("R334: the relay does not end a connection that was half-closed")
			}
		}
	}
	_ = nc.Close()
}

// vanishWatcher counts the events that come live. It reads all the time: one
// that takes nothing for too long is cut.
type vanishWatcher struct {
	tb   testing.TB
	done chan struct{} // closed when nothing more is read

	mu   sync.Mutex
	view faults.View
	err  error
}

// watchVanish subscribes to everything.
func watchVanish(tb testing.TB, addr string) *vanishWatcher {
	tb.Helper()
	c, err := faults.OpenConsumer(addr, faults.Subscription{Socket: true, Filter: `{"agent":"faults"}`})
	must(tb, "watcher", err)
	w := &vanishWatcher{tb: tb, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for w.take(c.Next(time.Hour)) {
		}
	}()
	tb.Cleanup(func() {
		c.Close()
		<-w.done
	})
	return w
}

// take takes what was read, and tells whether to read on.
func (w *vanishWatcher) take(it faults.Item, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		err = w.view.Take(it)
	}
	w.err = err
	return err == nil
}

// count waits until a session has come as far as it is held.
func (w *vanishWatcher) count(session string, atLeast int) (n int) {
	w.tb.Helper()
	await(w.tb, "watcher: what is held of "+session, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err != nil {
			w.tb.Fatalf("watcher: %v", w.err)
		}
		n = int(w.view.Next(session))
		return n >= atLeast
	})
	return n
}

// over adds the watcher itself to a baseline.
func (w *vanishWatcher) over(base faults.Gauges) faults.Gauges {
	base.Subscribers++
	base.Sockets++
	base.Connections++
	base.Descriptors++
	return base
}
