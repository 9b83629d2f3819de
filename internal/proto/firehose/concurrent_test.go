package firehose

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/stream"
)

// F51, P1, N2: calls from many goroutines, with a log that is synced by all
// of them, give a gapless stream in which each caller's frames are in order.
func TestConcurrentCallers(t *testing.T) {
	const callers, each = 8, 300
	l := &log{}
	ring := stream.NewRing(stream.Bounds{Frames: callers * each, Bytes: 1 << 30})
	numbers, err := OpenNumbers(&disk{t: t}, NumbersConfig{Mode: FloorNumber, Floor: 1, Block: 16})
	if err != nil {
		t.Fatal(err)
	}
	p := NewProducer(Config{Ring: ring, Numbers: numbers, SyncLog: l.sync, SyncInterval: time.Millisecond})
	if err := errors.Join(p.Booting(), p.Listening()); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for caller := range callers {
		done.Go(func() {
			for i := range each {
				b := body{name: fmt.Sprintf("%d.%d", caller, i)}
				var err error
				switch (i + caller) % 5 {
				case 0:
					b.kind = KindIdentity
					_, err = p.Identity(b)
				case 1:
					_, err = p.Publish(b)
				case 2:
					p.LogSynced(uint64(i))
					fallthrough
				default:
					l.mu.Lock()
					l.written++
					position := l.written
					l.mu.Unlock()
					err = p.Commit(b, position)
				}
				if err != nil {
					t.Errorf("%d.%d: %v", caller, i, err)
				}
			}
		})
	}
	done.Wait()
	if err := p.Stop(nil, nil); err != nil {
		t.Fatal(err)
	}
	last := make([]int, callers)
	frames := make([]*stream.Frame, callers*each+1)
	n, _, err := ring.Fetch(1, frames, 0)
	if n != callers*each || err != nil {
		t.Fatalf("%d frames, %v", n, err)
	}
	for k, f := range frames[:n] {
		var caller, i, seq int
		if _, err := fmt.Sscanf(string(f.Bytes[2:]), "%d.%d=%d", &caller, &i, &seq); err != nil {
			t.Fatal(err)
		}
		if i != last[caller] || seq != k+1 || f.Seq != int64(seq) {
			t.Fatalf("frame %d: %q, want %d.%d", k, f.Bytes[2:], caller, last[caller])
		}
		last[caller]++
	}
}

// F26, N2: raises by cursors beside publishing leave the numbers ascending.
func TestConcurrentRaises(t *testing.T) {
	c := newClock()
	ring := stream.NewRing(stream.Bounds{Frames: 10, Bytes: 1 << 20})
	p := NewProducer(Config{Ring: ring, Numbers: open(t, &disk{t: t}, c, FloorClock, 0, 10)})
	if err := errors.Join(p.Booting(), p.Listening()); err != nil {
		t.Fatal(err)
	}
	first, _ := ring.Numbers()
	var done sync.WaitGroup
	done.Go(func() {
		pin := ring.Pin()
		defer pin.Close()
		for range 500 {
			c.add(time.Millisecond)
			if _, answer, err := p.Join(pin, c.floor()-1); answer != stream.Outdated || err != nil {
				t.Errorf("join: %d, %v", answer, err)
			}
			pin.None()
		}
	})
	for range 2 {
		done.Go(func() {
			last := first
			for range 500 {
				seq, err := p.Publish(body{name: "x"})
				if err != nil || seq <= last {
					t.Errorf("%d after %d, %v", seq, last, err)
				}
				last = seq
			}
		})
	}
	done.Wait()
	if err := p.Stop(nil, nil); err != nil {
		t.Fatal(err)
	}
	if last, _ := ring.Numbers(); last < c.floor() {
		t.Errorf("L %d is below the floor %d", last, c.floor())
	}
}

// entered waits until so many bodies are in the queue.
func (r *rig) entered(count int) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		r.Producer.mu.Lock()
		entered := len(r.queue)
		r.Producer.mu.Unlock()
		if entered == count {
			return
		}
	}
	r.t.Fatalf("never %d in the queue", count)
}

// F44: a sync that began before a call entered does not count for it, and what
// needs no sync does not make others ready.
func TestSyncCoversWhatEnteredBefore(t *testing.T) {
	r := newRig(t, nil)
	r.log.entered, r.log.gate = make(chan struct{}), make(chan struct{})
	var done sync.WaitGroup
	call := func(publish func(Body) (int64, error), b body) {
		done.Go(func() {
			if _, err := publish(b); err != nil {
				t.Errorf("%s: %v", b.name, err)
			}
		})
	}
	call(r.Account, body{kind: KindAccount, name: "a"})
	<-r.log.entered // the sync of a runs, and covers a alone
	call(r.Publish, body{name: "p"})
	r.entered(2)
	call(r.Account, body{kind: KindAccount, name: "b"})
	r.entered(3)
	r.log.gate <- struct{}{}
	<-r.log.entered // the sync of b
	if got := r.stream(); got != "a=1" && got != "a=1 p=2" {
		t.Errorf("before the sync of b: %q", got)
	}
	r.log.gate <- struct{}{}
	done.Wait()
	r.want("F44", "a=1 p=2 b=3")
}
