package aepwsfaults

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestReplaced: hard case 33: a second connection opens the same session. The
// first is told so, and its subscriptions are gone; the second has none (B45).
func TestReplaced(t *testing.T) {
	p := start(t, t.TempDir(), "SLUICE_LOOPS=2")
	pub := join(t, p.Addr, "publisher")
	old := join(t, p.Addr, "twice")
	for n := range 10 {
		old.mustSubscribe(t, filterFrom("", ""))
		second := join(t, p.Addr, "twice")
		id := fmt.Sprint("e", n)
		pub.mustPublish(t, plain(id))
		if e := old.must(t); e.Type != "session.closed" || e.Payload.Reason != "replaced" {
			t.Fatalf("case 33: %v %q", e, e.Payload.Reason)
		}
		old.want(t, "B44", "close 1000")
		old.close()
		if err := second.send("capabilities.requested", "{}"); err != nil {
			t.Fatal(err)
		}
		second.want(t, "B45: no subscription came along", "capabilities.declared")
		old = second
	}
	healthy(t, p)
}

// TestLostAnswer: hard case 34: a publisher loses its answers again and again, and
// sends the same event each time. It has one cursor, and subscribers see it once.
// Another payload is refused (case 35).
func TestLostAnswer(t *testing.T) {
	p := start(t, t.TempDir())
	live := mustFollow(t, p.Addr, "live", filterFrom("", "at_least_once"))
	d := plain("again")
	for n := range 20 {
		a := join(t, p.Addr, "publisher")
		if err := a.ws.SendText(d.text()); err != nil {
			t.Fatal(err)
		}
		end := []func() error{a.ws.Reset, a.ws.Close, a.ws.CloseWrite}[n%3]
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	pub := join(t, p.Addr, "publisher")
	if n := pub.mustPublish(t, d); n != 1 {
		t.Errorf("case 34: number %d", n)
	}
	d.padBytes = 1
	if e, err := pub.publish(d); err != nil || e.Type != "event.rejected" || e.Payload.Error.Details.Reason != "duplicate_id" {
		t.Errorf("case 35: %v, %v", e, err)
	}
	last := pub.mustPublish(t, plain("last"))
	await(t, "the last event", func() bool { return live.last() == last })
	stop(t, p)
	wantRun(t, "case 34", live.end(t), 1, 2)
}

// TestSilent: hard case 20: a client stops answering Pings and keeps publishing.
// After three intervals it is told why, and closed with 1001.
func TestSilent(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "AEPWS_HEARTBEAT_MS=1000")
	began := time.Now() // before the relay begins to count
	a := join(t, p.Addr, "silent")
	a.ws.NoPong = true
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond): // a steady publisher
			}
			if a.ws.SendText(plain(fmt.Sprint("e", n)).text()) != nil {
				return
			}
		}
	}()
	e := a.must(t)
	for e.Type == "event.acknowledged" {
		e = a.must(t)
	}
	took := time.Since(began)
	if e.Type != "session.error" || e.Payload.Error.Code != "session_timeout" {
		t.Errorf("case 20: %v", e)
	}
	for e = a.must(t); e.closed == 0; e = a.must(t) {
		t.Errorf("B43: %v after session.error", e)
	}
	if e.closed != 1001 || took < 2900*time.Millisecond {
		t.Errorf("case 20: closed with %d after %v", e.closed, took)
	}
	t.Logf("closed %v after the session was ready", took)
	close(over)
	<-stopped
	healthy(t, p)
}

// late is how much later than it is due a busy machine may see something.
const late = 5 * time.Second

// TestStop: hard case 41: SIGTERM with 50 sessions, of which some publish and
// some have subscriptions: each is told and closed with 1001, and the relay ends
// within 5 s. What was acknowledged is there after it.
func TestStop(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir)
	book := newLedger()
	var readers []*follower
	for i := range 20 {
		readers = append(readers, mustFollow(t, p.Addr, fmt.Sprint("reader", i), filterFrom("", "at_least_once")))
	}
	var idle []*agent
	for i := range 26 {
		idle = append(idle, join(t, p.Addr, fmt.Sprint("idle", i)))
	}
	random := newRand(t)
	var writers []*writer
	for i := range 4 {
		seed := rand.New(rand.NewPCG(random.Uint64(), 2))
		writers = append(writers, &writer{name: fmt.Sprint("w", i), random: seed, ledger: book})
	}
	crowd := startCrowd(p.Addr, writers)
	await(t, "1,000 events", func() bool { return readers[0].last() > 1000 })
	began := time.Now()
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	for _, a := range idle {
		ended.Go(func() {
			e, err := a.next()
			if err != nil || e.Type != "session.closed" || e.Payload.Reason != "peer_disconnected" {
				t.Errorf("case 41: %v %q, %v", e, e.Payload.Reason, err)
				return
			}
			if e, err := a.next(); err != nil || e.closed != 1001 {
				t.Errorf("case 41: %v, %v", e, err)
			}
			a.close()
		})
	}
	ended.Wait()
	if err := p.AwaitExit(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second+late {
		t.Errorf("case 41: it took %v", took)
	}
	crowd.wait(t)
	healthy(t, p)
	for _, f := range readers {
		items := f.end(t)
		// One that works off what it was sent for longer than the closing handshake
		// may take is reset, and notices with its next acknowledgement.
		if f.err != nil && !errors.Is(f.err, syscall.ECONNRESET) && !errors.Is(f.err, syscall.EPIPE) {
			t.Errorf("case 41: a subscriber ends with %v", f.err)
		}
		wantRun(t, "live", items, items[0].Delivery.Sequence, items[len(items)-1].Delivery.Sequence)
		for _, e := range items {
			if err := book.enter(e.ID, e.Delivery.Sequence, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	p = start(t, dir)
	if lost := book.lost(whole(t, p.Addr, book.top())); lost != "" {
		t.Errorf("K2: %s", lost)
	}
}

// TestStopWithStalled: a session that takes nothing does not keep the relay from
// ending in an orderly way.
func TestStopWithStalled(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "SLUICE_SEND_BUFFER=16384")
	pub := join(t, p.Addr, "publisher")
	stuck := joinWith(t, p.Addr, "stuck", relaytest.WSOptions{RecvBytes: 4096})
	stuck.mustSubscribe(t, filterFrom("", ""))
	pub.mustPublishMany(t, "e", 2000, 1000)
	stop(t, p)
	if _, err := stuck.ws.Drain(patience); relaytest.IsTimeout(err) || err == nil && !errors.Is(err, io.EOF) {
		t.Errorf("the session that is stuck goes on: %v", err)
	}
}
