package firehoseload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"
)

// Fan is one number of consumers, and how much is delivered to them.
type Fan struct {
	Consumers int
	Rounds    int
	Singles   int  // of a round: frames that are on their way alone
	Bursts    int  // of a round: burstFrames each
	Together  bool // relay and floor are up at the same time
}

// burstFrames is how many frames are on their way at once.
const burstFrames = 32

// micro is a microsecond.
const micro = float64(time.Microsecond)

// warmup is the part of the deliveries that is not measured.
const warmup = 10 // percent

// cost is what one server's deliveries cost.
type cost struct {
	single, burst time.Duration // CPU of one delivery
	even          time.Duration // floor: a burst in as many writes as the relay's
	writes        float64       // relay: writes of a burst to a consumer
}

// side is a server with its consumers, before or while it is measured.
type side struct {
	pid   int
	t     target
	all   *consumers
	parts func(n int) // floor: how many writes a burst is made in
	stop  func() error
}

// close ends the server.
func (d *side) close() error {
	d.all.close()
	d.t.close()
	return d.stop()
}

// fanOut measures the relay and the floor in turns, each first in every other
// round. Both are up all the time if this process has descriptors for the
// consumers of both, so that a round is short; else one is up at a time.
func (s *suite) fanOut(ctx context.Context, f Fan) (err error) {
	sides := [2]*side{}
	open := [2]func(context.Context, Fan) (*side, error){s.relaySide, s.floorSide}
	defer func() {
		for _, d := range sides {
			if d != nil {
				err = errors.Join(err, d.close())
			}
		}
	}()
	var m figures
	for round := range f.Rounds {
		var got [2]cost
		for turn := range sides {
			i := (turn + round) % len(sides)
			if sides[i] == nil {
				if sides[i], err = open[i](ctx, f); err != nil {
					return err
				}
			}
			if got[i], err = sides[i].measure(ctx, f, m.evenWrites(got[0])); err != nil {
				return err
			}
			if !f.Together {
				d := sides[i]
				sides[i] = nil
				if err = d.close(); err != nil {
					return err
				}
			}
		}
		m.take(got[0], got[1])
		s.say("%d consumers, round %d: one in flight %v, floor %v; burst %v in %.2f writes, floor %v in one, %v in as many",
			f.Consumers, round+1, got[0].single, got[1].single, got[0].burst, got[0].writes, got[1].burst, got[1].even)
	}
	s.report(f, &m)
	return nil
}

// figures are those of all rounds, times in microseconds.
type figures struct {
	relaySingle, floorSingle, relayBurst, floorBurst, writes []float64
	single, burst, even                                      []float64 // ratios
}

// evenWrites is in how many writes the floor makes a burst, to be like the relay.
func (m *figures) evenWrites(now cost) int {
	if now.writes > 0 {
		return int(math.Round(now.writes))
	}
	return int(math.Round(median(m.writes)))
}

func (m *figures) take(relay, floor cost) {
	add := func(to *[]float64, v float64) { *to = append(*to, v) }
	add(&m.relaySingle, float64(relay.single)/micro)
	add(&m.floorSingle, float64(floor.single)/micro)
	add(&m.relayBurst, float64(relay.burst)/micro)
	add(&m.floorBurst, float64(floor.burst)/micro)
	add(&m.writes, relay.writes)
	add(&m.single, float64(relay.single)/float64(floor.single))
	add(&m.burst, float64(relay.burst)/float64(floor.burst))
	if floor.even > 0 {
		add(&m.even, float64(relay.burst)/float64(floor.even))
	}
}

func (s *suite) report(f Fan, m *figures) {
	name := fmt.Sprintf("%d consumers, #commit of %d bytes, %d rounds", f.Consumers, len(s.sample.frame()), f.Rounds)
	s.add(name, "one frame in flight: CPU of a delivery, relay; floor", "%.3f us; %.3f us", median(m.relaySingle), median(m.floorSingle))
	s.add(name, "ratio of one round (goal: 1.10)", "%s", spread(m.single))
	s.add(name, fmt.Sprintf("bursts of %d: CPU of a delivery, relay; floor", burstFrames), "%.3f us; %.3f us", median(m.relayBurst), median(m.floorBurst))
	s.add(name, "writes of a burst to a consumer, relay; floor", "%.2f; 1", median(m.writes))
	s.add(name, "ratio to the floor of one write a burst", "%s", spread(m.burst))
	s.add(name, "ratio to a floor with about as many writes", "%s", spread(m.even))
}

// relaySide starts a relay and connects consumers.
func (s *suite) relaySide(ctx context.Context, f Fan) (*side, error) {
	r, err := s.p.start()
	if err != nil {
		return nil, err
	}
	all, err := s.consumersOf(r.Addr, f.Consumers)
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	d := &side{pid: r.PID(), t: newPosts(r.Addr, s.sample), all: all, stop: r.stop}
	if err := r.settled(ctx, "sluice_firehose_consumers", float64(f.Consumers)); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// floorSide starts a floor, with as many threads as a relay has loops, and
// connects consumers.
func (s *suite) floorSide(_ context.Context, f Fan) (*side, error) {
	p, err := startChild(s.p.Floor(runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, err
	}
	t, err := newBlobs(p.addr, s.sample)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	all, err := s.consumersOf(p.addr, f.Consumers)
	if err != nil {
		t.close()
		return nil, errors.Join(err, p.stop())
	}
	return &side{pid: p.cmd.Process.Pid, t: t, all: all, parts: func(n int) { t.parts = n }, stop: p.stop}, nil
}

// measure measures one round. A floor makes its bursts in one write, and then in
// so many as are given, if any are.
func (d *side) measure(ctx context.Context, f Fan, even int) (c cost, err error) {
	if c.single, err = d.each(ctx, 1, f.Singles); err != nil {
		return c, err
	}
	before, err := writes(d.pid)
	if err != nil {
		return c, err
	}
	if c.burst, err = d.each(ctx, burstFrames, f.Bursts); err != nil {
		return c, err
	}
	after, err := writes(d.pid)
	if d.parts == nil {
		// The answers of the publishes are writes too, and the warm-up is as the
		// rest. What the loops' wakes add is little for many consumers.
		bursts := float64(f.Bursts + warmupOf(f.Bursts))
		c.writes = ((after-before)/bursts - burstFrames) / float64(f.Consumers)
		return c, err
	}
	if err != nil || even < 1 {
		return c, err
	}
	d.parts(even)
	c.even, err = d.each(ctx, burstFrames, f.Bursts)
	d.parts(1)
	return c, err
}

// consumersOf connects consumers to a server that has published nothing.
func (s *suite) consumersOf(addr string, n int) (*consumers, error) {
	all, err := newConsumers(s.sample)
	if err != nil {
		return nil, err
	}
	if err := all.connect(addr, n, firstSeq); err != nil {
		all.close()
		return nil, err
	}
	return all, nil
}

func warmupOf(times int) int { return (times*warmup + 99) / 100 }

// each publishes n frames at once, so many times, and returns the CPU time that
// the server used for one delivery.
func (d *side) each(ctx context.Context, n, times int) (time.Duration, error) {
	if err := burst(ctx, d.t, d.all, n, warmupOf(times)); err != nil {
		return 0, err
	}
	cpu, err := cpuOf(d.pid, func() error { return burst(ctx, d.t, d.all, n, times) })
	return cpu / time.Duration(n*times*len(d.all.open)), err
}
