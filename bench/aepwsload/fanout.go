package aepwsload

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-relay/sluice/bench/load"
)

// Fan is a number of sessions with a subscription each, and how much is published
// to them in one round.
type Fan struct {
	Sessions int
	Rounds   int
	Singles  int // events to all sessions, each on its way alone
	Bursts   int // events to all sessions, burstEvents on their way at once
	Shared   int // bursts of events each of which goes to one session in targets
	Own      int // bursts of events each of which goes to one session
}

const (
	// sizeTolerance is by how much a delivery's bytes may differ (B3): the binding
	// writes the log's number into it, which grows.
	sizeTolerance = 0.015
	// targets is how many targets the sessions share that do not have their own.
	targets = 50
	// burstEvents is how many events are on their way at once.
	burstEvents = 32
	// warmup is the part of a load before the measured one.
	warmup = 4 // one in so many
)

// cost is what one surface's deliveries cost, in microseconds of CPU.
type cost struct {
	single, burst float64 // a delivery to all
	shared        float64 // a delivery to those that asked for one of few targets
	own           float64 // a delivery to the one session that asked for it
	ingest        float64 // an event that nobody asked for
	bytes         float64 // read of a delivery
}

// fanOut measures both surfaces of one relay in turns, each first in every other
// round.
func (s *suite) fanOut(ctx context.Context, f Fan) error {
	surfaces := [2]*surface{&binding, &neighbour}
	var all [2][]cost
	err := s.p.with(func(r *relay) error {
		var next [2]int // the event that comes next on each
		for round := range f.Rounds {
			for turn := range surfaces {
				i := (turn + round) % len(surfaces)
				c, err := r.fanCost(ctx, surfaces[i], f, &next[i])
				if err != nil {
					return fmt.Errorf("%s: %w", surfaces[i].name, err)
				}
				all[i] = append(all[i], c)
				s.say("%d sessions, round %d, %s: CPU of a delivery: one in flight %.3f us, bursts %.3f us, shared target %.3f us, own target %.2f us, of an event for nobody %.2f us; %.0f bytes",
					f.Sessions, round+1, surfaces[i].name, c.single, c.burst, c.shared, c.own, c.ingest, c.bytes)
			}
			if a, b := all[0][round].bytes, all[1][round].bytes; math.Abs(a/b-1) > sizeTolerance {
				return fmt.Errorf("%w: %.1f bytes of a delivery are not the other surface's %.1f", errWrong, a, b)
			}
		}
		return nil
	})
	if err == nil {
		s.reportFan(f, all[0], all[1])
	}
	return err
}

// fanCost measures one round of one surface. Its connections are gone when it
// returns, since a process has no descriptors for those of both.
func (r *relay) fanCost(ctx context.Context, f *surface, o Fan, next *int) (c cost, err error) {
	same := func(client *load.Client) error {
		single, err := r.burst(ctx, client, f, next, o.Singles, 1, nil)
		if err != nil {
			return err
		}
		burst, err := r.burst(ctx, client, f, next, o.Bursts*burstEvents, burstEvents, nil)
		if err != nil {
			return err
		}
		c.single, c.burst = single.perDelivery(), burst.perDelivery()
		c.bytes = float64(single.Bytes) / float64(single.Deliveries)
		return nil
	}
	if err := r.connected(ctx, f, []load.Class{f.class(o.Sessions, false, 0)}, same); err != nil {
		return c, err
	}
	// One class a target.
	classes := func(n int) (all []load.Class) {
		for i := range n {
			all = append(all, f.class(o.Sessions/n, true, i))
		}
		return all
	}
	shared := func(client *load.Client) error {
		got, err := r.burst(ctx, client, f, next, o.Shared*burstEvents, burstEvents, func(event int) int { return event % targets })
		if err == nil {
			c.shared = got.perDelivery()
		}
		return err
	}
	if err := r.connected(ctx, f, classes(targets), shared); err != nil {
		return c, err
	}
	apart := func(client *load.Client) error {
		own, err := r.burst(ctx, client, f, next, o.Own*burstEvents, burstEvents, func(event int) int { return event % o.Sessions })
		if err != nil {
			return err
		}
		// The last one of a burst comes to a session, and so tells that those
		// before it are through.
		ingest, err := r.burst(ctx, client, f, next, o.Own*burstEvents, burstEvents, func(event int) int {
			if event%burstEvents == burstEvents-1 {
				return event % o.Sessions
			}
			return nobody
		})
		if err != nil {
			return err
		}
		c.own, c.ingest = own.perDelivery(), ingest.perEvent()
		return nil
	}
	return c, r.connected(ctx, f, classes(o.Sessions), apart)
}

// connected calls measure with subscribers of a surface, and closes them.
func (r *relay) connected(ctx context.Context, f *surface, classes []load.Class, measure func(*load.Client) error) error {
	client, err := load.New(load.Options{Addr: r.Addr, Timeout: patience})
	if err != nil {
		return err
	}
	_, err = client.Connect(ctx, classes)
	if err == nil {
		err = r.rest(ctx)
	}
	if err == nil {
		err = measure(client)
	}
	client.Close()
	return errors.Join(err, r.rest(ctx))
}

// burst publishes events, so many at once, when the ones before have come. keyOf
// gives each event the one session that gets it, or nobody; if it is nil, all
// sessions get all events.
func (r *relay) burst(ctx context.Context, client *load.Client, f *surface, next *int, events, batch int, keyOf func(int) int) (run, error) {
	warm := max(events/warmup/batch, 1) * batch
	l := load.Load{First: *next, Events: warm + events, Warmup: warm, Window: batch, Batch: batch, Timeout: 10 * patience}
	*next += l.Events
	if keyOf == nil {
		keyOf = func(int) int { return 0 }
	} else {
		var one [1]int
		l.Owners = func(event int) []int {
			if one[0] = keyOf(event); one[0] == nobody {
				return nil
			}
			return one[:]
		}
	}
	l.Publisher = f.publisher(keyOf)
	return r.drive(ctx, client, l)
}

func (s *suite) reportFan(f Fan, b, n []cost) {
	of := func(all []cost, value func(*cost) float64) (values []float64) {
		for i := range all {
			values = append(values, value(&all[i]))
		}
		return values
	}
	name := fmt.Sprintf("%d sessions, events of %.0f bytes, %d rounds", f.Sessions, median(of(b, func(c *cost) float64 { return c.bytes })), f.Rounds)
	for _, m := range []struct {
		name, goal string
		value      func(*cost) float64
	}{
		{"`types:[\"*\"]`, one event in flight: CPU of a delivery", " (goal: 1.15)", func(c *cost) float64 { return c.single }},
		{fmt.Sprintf("`types:[\"*\"]`, %d in flight: CPU of a delivery", burstEvents), " (goal: 1.15)", func(c *cost) float64 { return c.burst }},
		{fmt.Sprintf("one of %d targets, %d in flight: CPU of a delivery", targets, burstEvents), " (goal: 1.15)", func(c *cost) float64 { return c.shared }},
		{fmt.Sprintf("a target of its own, %d in flight: CPU of an event and its one delivery", burstEvents), "", func(c *cost) float64 { return c.own }},
		{"CPU of an event that nobody asked for, the commit included", "", func(c *cost) float64 { return c.ingest }},
	} {
		mine, others := of(b, m.value), of(n, m.value)
		s.add(name, m.name+", aepws; AEP", "%.3f us; %.3f us", median(mine), median(others))
		s.add(name, "ratio of one round"+m.goal, "%s", spread(ratios(mine, others)))
	}
}

// ratios divides what was measured in the same round.
func ratios(a, b []float64) (all []float64) {
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return all
}
