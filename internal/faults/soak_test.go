package faults_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

const (
	soakVariable   = "SLUICE_SOAK" // how long, as 10m
	soakPublishers = 8
	soakRate       = 1000 // events a second in all
	soakBatch      = 5
)

// soak is a relay that is used and misused for a long time, and started anew
// twice.
type soak struct {
	t     *testing.T
	seed  uint64
	end   time.Time
	port  string
	fleet *fleet
	ticks []*time.Ticker
	fast  []*faults.Roamer // those that always read

	// pause is held for reading while a batch is posted.
	pause   sync.RWMutex
	restart atomic.Bool

	mu     sync.Mutex
	relay  *faults.Process
	firsts map[string][]uint64 // boot id -> first event of each session in that run
	lives  [][]int64           // memory samples of each run, one a second
}

// TestSoak runs for as long as SLUICE_SOAK says: consumers that churn, are slow
// and stall, faults of every kind, an orderly restart in the middle and a kill
// after three quarters. Every consumer's view is checked against what was sent,
// by hash; after a restart positions are exhausted or start anew, and nothing
// else is missing; memory is flat after the first minute (R166, R169, R190 to
// R194, R420 to R430, R460 to R464, R473).
func TestSoak(t *testing.T) {
	text := os.Getenv(soakVariable)
	if text == "" {
		t.Skipf("runs for as long as %s says", soakVariable)
	}
	length, err := time.ParseDuration(text)
	must(t, soakVariable, err)
	begin := time.Now()
	s := &soak{t: t, seed: newSeed(t), end: begin.Add(length), port: testrelay.FixedPort(t), firsts: map[string][]uint64{}}
	s.begin()
	base := gauges(t, s.relay)
	addr := s.relay.Addr
	s.fleet = newFleet(addr, soakPublishers)
	s.addRoamers(addr)
	for i, pub := range s.fleet.publishers {
		pub.PadBytes = soakPad
		s.ticks = append(s.ticks, time.NewTicker(time.Second*soakBatch*soakPublishers/soakRate))
		defer s.ticks[i].Stop()
	}
	s.fleet.start(s.publish)

	var beside sync.WaitGroup
	beside.Go(s.sample)
	for i := range uint64(4) {
		beside.Go(func() { s.misuse(addr, faults.NewRand(s.seed, 100+i)) })
		beside.Go(func() { s.stall(addr, faults.NewRand(s.seed, 200+i)) })
	}
	s.sleep(begin.Add(length / 2))
	s.startAnew(false)
	s.sleep(begin.Add(length * 3 / 4))
	s.startAnew(true)
	s.sleep(s.end)
	beside.Wait()
	s.fleet.end(t)
	if err := s.fleet.failure.get(); err == nil {
		must(t, "R281, R334: after all left", s.relay.AwaitBaseline(base, 2*patience))
	}
	endRelay(t, s.relay)
	s.checkMemory(time.Minute)
}

// sleep waits until then, or until something went wrong.
func (s *soak) sleep(then time.Time) {
	for time.Now().Before(then) && s.fleet.failure.get() == nil {
		time.Sleep(min(time.Until(then)+1, 100*time.Millisecond)) // the time of the test
	}
}

// over tells whether those beside have to leave.
func (s *soak) over() bool {
	return time.Now().After(s.end) || s.fleet.failure.get() != nil
}

// soakPad gives an event its size: 1.5 KB in the mean, up to 64 KiB.
func soakPad(seq uint64) int {
	if seq%100 == 99 {
		return int(seq * 7919 % (64 << 10))
	}
	return int(seq * 104729 % 1500)
}

// addRoamers adds consumers that stay, that churn, that are slow, and that
// stall.
func (s *soak) addRoamers(addr string) {
	add := func(number uint64) *faults.Roamer {
		c := s.fleet.add(addr, number%2 == 0, faults.NewRand(s.seed, number))
		c.OnBoot = s.onBoot
		return c
	}
	for i := range uint64(6) {
		s.fast = append(s.fast, add(i))
		add(10 + i).StayEvents = 1500
	}
	for i := range uint64(4) {
		slow := add(20 + i)
		slow.Sub.RecvBytes = 16 << 10
		slow.Pace = s.unlessFinal(func() time.Duration { return slow.Rand.Between(0, 3*time.Millisecond) })
		stalls := add(30 + i)
		stalls.Sub.RecvBytes = 16 << 10
		stalls.Pace = s.unlessFinal(func() time.Duration {
			if stalls.Rand.IntN(2000) == 0 {
				return stalls.Rand.Between(0, 15*time.Second)
			}
			return 0
		})
	}
}

// unlessFinal is pace while there is still something to come.
func (s *soak) unlessFinal(pace func() time.Duration) func() time.Duration {
	return func() time.Duration {
		if s.fleet.final.Load() {
			return 0
		}
		return pace()
	}
}

// publish posts one batch. An error is one of the relay's unless it is about to
// be killed.
func (s *soak) publish(i int, pub *faults.Publisher) error {
	<-s.ticks[i].C
	s.pause.RLock()
	defer s.pause.RUnlock()
	err := pub.Publish(soakBatch)
	if err != nil && s.restart.Load() {
		return nil // the same events are due again
	}
	return err
}

// begin starts a relay, whose buffers are full within the first minute, and notes where each session stands.
func (s *soak) begin() {
	p, err := testrelay.Spawn("AEP_PORT="+s.port, "AEP_BUFFER=2000", "AEP_BUFFER_BYTES=33554432")
	must(s.t, "start", err)
	boot, err := p.Boot()
	must(s.t, "boot id", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	firsts := make([]uint64, soakPublishers)
	if s.fleet != nil {
		for i, pub := range s.fleet.publishers {
			firsts[i] = pub.Acked()
		}
	}
	s.relay, s.firsts[boot] = p, firsts
	s.lives = append(s.lives, nil)
}

// startAnew ends the relay, in an orderly way between two batches or by a kill
// in the middle of some, and starts another on the same port.
func (s *soak) startAnew(kill bool) {
	if s.fleet.failure.get() != nil {
		return
	}
	if kill {
		s.restart.Store(true)
		s.relay.Kill()
		s.pause.Lock() // until those who had a batch under way know
	} else {
		s.pause.Lock()
		if err := s.relay.Stop(); err != nil {
			s.t.Errorf("R464: %v", err)
		}
		s.checkFarewell()
	}
	defer s.pause.Unlock()
	checkLog(s.t, s.relay)
	s.begin()
	for _, pub := range s.fleet.publishers {
		pub.Close() // the next batch goes to the new one
	}
	s.restart.Store(false)
	s.t.Logf("started anew after %d events, killed %v", s.fleet.published(), kill)
}

// checkFarewell wants those that always read to have got, before the end of an
// orderly shutdown, all that was acknowledged (R461, R462).
func (s *soak) checkFarewell() {
	for i, c := range s.fast {
		if c.Gaps() > 0 {
			continue // was too slow for that at some time
		}
		await(s.t, fmt.Sprintf("R461, R462: consumer %d: all that was acknowledged", i), func() bool {
			return c.Seen() >= int64(s.fleet.published()) || s.fleet.failure.get() != nil
		})
	}
}

// onBoot tells a view what a new run has forgotten.
func (s *soak) onBoot(v *faults.View, boot string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // pacing
		s.mu.Lock()
		firsts, known := s.firsts[boot]
		s.mu.Unlock()
		if known {
			for i, session := range s.fleet.sessions {
				v.Forget(session, firsts[i])
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("boot id %s is not that of any run", boot)
		}
	}
}

// misuse commits one fault after another.
func (s *soak) misuse(addr string, r *faults.Rand) {
	for !s.over() {
		f := faults.Faults[r.IntN(len(faults.Faults))]
		if err := f.Do(r, addr); err != nil {
			time.Sleep(20 * time.Millisecond) // pacing: between two runs
		}
		time.Sleep(r.Between(0, 100*time.Millisecond)) // pacing
	}
}

// stall subscribes and never reads, for longer than the relay stands it, at
// times.
func (s *soak) stall(addr string, r *faults.Rand) {
	for !s.over() {
		c, err := faults.AskConsumer(addr, faults.Subscription{
			Socket: r.IntN(2) == 0, RecvBytes: 4 << 10, From: []string{"", `"all"`}[r.IntN(2)],
		})
		if err != nil {
			time.Sleep(20 * time.Millisecond) // pacing: between two runs
			continue
		}
		s.sleep(earlier(s.end, time.Now().Add(r.Between(0, 40*time.Second))))
		c.Reset()
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sample measures the memory once a second.
func (s *soak) sample() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for !s.over() {
		<-tick.C
		s.mu.Lock()
		life := &s.lives[len(s.lives)-1]
		if now, _, err := s.relay.Memory(); err == nil { // it fails between two runs
			*life = append(*life, now)
		}
		s.mu.Unlock()
	}
}

// checkMemory compares, for each run, the memory at its end with that after
// warm, a median each.
func (s *soak) checkMemory(warm time.Duration) {
	for i, life := range s.lives {
		first := int(warm / time.Second)
		span := max(5, len(life)/6)
		var series []int64 // every tenth, in MiB
		for n := 0; n < len(life); n += 10 {
			series = append(series, life[n]>>20)
		}
		s.t.Logf("run %d: MiB every 10 s: %d", i, series)
		if len(life) < first+2*span {
			s.t.Logf("run %d: %d s, too short to tell of its memory", i, len(life))
			continue
		}
		early, late := middle(life[first:first+span]), middle(life[len(life)-span:])
		s.t.Logf("run %d: %d s, memory %d MiB after %v, %d MiB at the end, most %d MiB",
			i, len(life), early>>20, warm, late>>20, slices.Max(life)>>20)
		if late > early+early/10+16<<20 && !raceDetector {
			s.t.Errorf("run %d: memory is not flat: %d MiB, then %d MiB", i, early>>20, late>>20)
		}
	}
}

func middle(v []int64) int64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
