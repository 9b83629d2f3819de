package deploytest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/client/follow"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// A reader that follows through a proxy misses nothing and sees nothing twice,
// also when the relay behind it is another one meanwhile.
func TestFollowThroughRestart(t *testing.T) {
	eachProxy(t, func(t *testing.T, kind proxyKind) {
		for _, socket := range []bool{false, true} {
			port := testrelay.FixedPort(t)
			f := startRelay(t, "AEP_PORT="+port)
			f.proxy = startProxy(t, kind, f.back, kind.plain...)
			relay, err := client.New("http://"+f.proxy.addr, testToken)
			if err != nil {
				t.Fatal(err)
			}
			got := &followed{ids: map[string]int{}, changed: make(chan struct{}, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- follow.Follow(ctx, follow.Options{Relay: relay, Socket: socket, All: true}, got) }()

			seq := uint64(0)
			post := func(f *fixture) {
				for range 50 {
					f.post(relaytest.Event{ID: fmt.Sprint("e", seq), Session: "s", Seq: seq}.JSON())
					seq++
				}
			}
			post(f)
			got.await(t, int(seq))
			if err := f.shutdown(); err != nil {
				t.Fatal(err)
			}
			next := startRelay(t, "AEP_PORT="+port)
			post(next)
			got.await(t, int(seq))
			post(next)
			got.await(t, int(seq))
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			for id, n := range got.ids {
				if n != 1 {
					t.Errorf("ws=%v: %s came %d times", socket, id, n)
				}
			}
			if got.restarts != 1 || got.others != 0 {
				t.Errorf("ws=%v: %d restarts told, %d gaps", socket, got.restarts, got.others)
			}
		}
	})
}

// followed is a follow.Sink.
type followed struct {
	mu       sync.Mutex
	ids      map[string]int
	restarts int
	others   int
	changed  chan struct{}
}

func (f *followed) Event(text []byte) error {
	_, rest, _ := bytes.Cut(text, []byte(`"id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	f.mu.Lock()
	f.ids[string(id)]++
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
	return nil
}

func (f *followed) Notice(n follow.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch n.Kind {
	case follow.Restarted:
		f.restarts++
	case follow.Gap, follow.Shed, follow.Malformed, follow.Incomplete:
		f.others++
	}
}

func (f *followed) Flush() error { return nil }

// await waits for n events.
func (f *followed) await(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(2 * patience) // some seconds are the relay's own retry
	for {
		f.mu.Lock()
		have := len(f.ids)
		f.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-f.changed:
		case <-deadline:
			t.Fatalf("%d events, want %d", have, n)
		}
	}
}
