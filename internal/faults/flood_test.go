package faults_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
)

const (
	floodStalled = 200
	floodEvent   = 4000 // bytes, about
	floodBatch   = 50
	// floodAhead is how many events publishing may be ahead of the one who reads:
	// less than what nothing is shed for (R420).
	floodAhead = 200
	// floodMemory bounds the relay's resident memory. 200 consumers may owe
	// 8 MiB each, 1.6 GiB in all (R426), but owe the same events.
	floodMemory = 512 << 20
	// floodTime is less than the 90 s after which the relay cuts whoever takes
	// nothing, whatever it is owed (R424).
	floodTime = 80 * time.Second
)

// floodLevel gives the severity of an event of a flood: every fourth must not
// be lost.
func floodLevel(seq uint64) string {
	return [4]string{"debug", "info", "", "warning"}[seq%4]
}

// TestFlood: 200 MB pass 200 consumers that have a receive buffer of 4 KiB and
// never read. The publisher is not refused or held up, the one who reads gets
// all, the memory is bounded, those whom events may be dropped for stay, the
// others are cut (R420 to R426, C41).
func TestFlood(t *testing.T) {
	p := startRelay(t, "AEP_BUFFER=100")
	for i := range floodStalled {
		s := faults.Subscription{Socket: i%2 == 0, RecvBytes: 4 << 10, BufferBytes: 16}
		if i%4 < 2 {
			s.Filter = `{"severity":["debug","info"]}`
		}
		c, err := faults.OpenConsumer(p.Addr, s)
		must(t, "stalled consumer", err)
		t.Cleanup(c.Reset)
	}
	healthy := newReader("flood")
	healthy.start(t, p.Addr, faults.Subscription{Socket: true, BufferBytes: 64 << 10})
	pub := faults.NewPublisher(p.Addr, "flood")
	pub.PadBytes = func(uint64) int { return floodEvent }
	pub.Severity = func(seq uint64) string {
		if level := floodLevel(seq); level != "" {
			return level
		}
		return "info"
	}
	events := uint64(scale(200, 50) * 1_000_000 / floodEvent)
	begin := time.Now()
	for pub.Acked() < events {
		if err := pub.Publish(floodBatch); err != nil {
			t.Fatalf("R425: %v", err)
		}
		await(t, "R425: the consumer that reads", func() bool {
			return healthy.failure.get() != nil || healthy.seen.Load()+floodAhead >= pub.Acked()
		})
	}
	took := time.Since(begin)
	healthy.await(t, "the consumer that reads: all of the flood", events)
	pub.Close()
	h, err := p.Health()
	must(t, "health", err)
	_, peak, err := p.Memory()
	must(t, "memory", err)
	shed, err := p.Metric("sluice_shed_events_total")
	must(t, "metric", err)
	t.Logf("C41: %d MB past %d stalled consumers in %v, peak memory %d MiB, %.0f events shed, %d subscriptions left",
		events*floodEvent/1_000_000, floodStalled, took, peak>>20, shed, h.Subscribers)
	if peak > floodMemory && !raceDetector {
		t.Errorf("R426: peak memory %d MiB, want at most %d", peak>>20, floodMemory>>20)
	}
	if want := floodStalled/2 + 1; h.Subscribers < want && !testing.Short() && time.Since(begin) < floodTime {
		t.Errorf("R420: %d subscriptions left, want at least %d: those who get only debug and info", h.Subscribers, want)
	}
	if shed == 0 {
		t.Error("R420: nothing was shed")
	}
	// A quarter of the flood is 50 MB: more than anyone may owe.
	await(t, "R422: those who get warnings are cut", func() bool {
		h, err := p.Health()
		must(t, "health", err)
		return testing.Short() || h.Subscribers <= floodStalled/2+1
	})
	healthy.end(t)
}

// TestShedding: a stream and a socket that read slowly while thousands of events
// of every severity come miss debug and info events only; the relay counts each
// of them, and tells (R420, R421, R424a, C45).
func TestShedding(t *testing.T) {
	t.Parallel()
	p := startRelay(t, "AEP_BUFFER=100")
	pub := faults.NewPublisher(p.Addr, "shed")
	pub.PadBytes = func(uint64) int { return 600 }
	pub.Severity = func(seq uint64) string {
		if shedDroppable(seq) {
			return [2]string{"debug", "info"}[seq%2]
		}
		return [3]string{"notice", "error", "critical"}[seq%3]
	}
	var hurry atomic.Bool
	var slow []*reader
	for _, socket := range []bool{false, true} {
		r := newReader("shed")
		r.view.Droppable = shedDroppable
		r.each = func([]byte) { // a tenth of what comes, however fast that is
			for !hurry.Load() && 10*r.seen.Load() > pub.Acked() {
				time.Sleep(10 * time.Millisecond) // pacing
			}
		}
		r.start(t, p.Addr, faults.Subscription{Socket: socket, RecvBytes: 16 << 10})
		slow = append(slow, r)
	}
	const beats, perBeat = 100, 50 // 5,000 a second, 5 MB
	tick := time.NewTicker(time.Second / beats)
	defer tick.Stop()
	for range beats * scale(4, 2) {
		must(t, "R425", pub.Publish(perBeat))
		<-tick.C
	}
	hurry.Store(true)
	// One that is up to date again is told before what comes next. What is
	// published before that may be shed too, so that more has to come.
	await(t, "slow consumers have caught up", func() bool {
		must(t, "publish", pub.Publish(1))
		for range 200 {
			if !slices.ContainsFunc(slow, func(r *reader) bool { return r.behind(pub.Acked()) }) {
				return true
			}
			time.Sleep(5 * time.Millisecond) // pacing
		}
		return false
	})
	for _, r := range slow {
		r.end(t)
		if r.view.Missing != r.view.Shed || r.view.Missing == 0 {
			t.Errorf("R424a: %d events are missing and %d were told to be shed", r.view.Missing, r.view.Shed)
		}
		t.Logf("C45: %d events came, %d were shed", r.view.Events, r.view.Missing)
	}
	pub.Close()
}

// shedDroppable tells which events of TestShedding may be left out: all but two
// of a hundred.
func shedDroppable(seq uint64) bool { return seq%100 < 98 }
