package aepwsload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

// Replay is a number of events that one subscriber reads again, beside others that
// get live ones at a rate.
type Replay struct {
	Events int
	Live   int // subscribers
	Rate   float64
	Length time.Duration // of one look at the live ones
}

const (
	bulkType   = "bulk.item"
	fillWindow = 256
)

// looks are what live subscribers saw beside one kind of neighbour, in
// milliseconds, a value a round.
type looks struct{ p50, p99 []float64 }

func (l *looks) take(o *run) {
	l.p50 = append(l.p50, milli(o.Latency.Quantile(0.5)))
	l.p99 = append(l.p99, milli(o.Latency.Quantile(0.99)))
}

// The neighbours of live subscribers: nobody, replays of the same relay, and
// those of another relay, which share with them nothing but the machine.
const (
	besideNobody = iota
	besideReplays
	besideAnother
	neighbours
)

// replays measures replays alone, and what they do to live subscribers.
func (s *suite) replays(ctx context.Context) error {
	o := s.o.Replay
	var alone, beside, cpu []float64
	var live [neighbours]looks
	err := s.p.withTwo(func(r, another *relay) error {
		if err := errors.Join(r.fill(o.Events), another.fill(o.Events)); err != nil {
			return err
		}
		client, err := r.liveClient(ctx, o)
		if err != nil {
			return err
		}
		defer client.Close()
		next := 0
		for round := range s.o.Rounds {
			rate, micros, err := r.replayCost(ctx, o.Events)
			if err != nil {
				return err
			}
			alone, cpu = append(alone, rate), append(cpu, micros)
			for turn := range neighbours {
				by := (turn + round) % neighbours
				var out run
				look := func() (err error) {
					out, err = r.live(ctx, client, o, &next)
					return err
				}
				var rates []float64
				switch by {
				case besideNobody:
					err = look()
				case besideReplays:
					rates, err = r.again(o.Events, look)
				case besideAnother:
					_, err = another.again(o.Events, look)
				}
				if err != nil {
					return err
				}
				live[by].take(&out)
				beside = append(beside, rates...)
			}
			s.say("replay, round %d: %.0f events/s; live p50, p99: %.2f, %.2f ms; beside replays %.2f, %.2f ms; beside another's %.2f, %.2f ms", round+1, rate,
				live[0].p50[round], live[0].p99[round], live[1].p50[round], live[1].p99[round], live[2].p50[round], live[2].p99[round])
		}
		return nil
	})
	if err != nil {
		return err
	}
	name := fmt.Sprintf("replay of %d events of %d bytes to one subscriber", o.Events, eventBytes)
	s.add(name, "events/s; CPU of the relay for one", "%.0f; %.2f us", median(alone), median(cpu))
	s.add(name, "events/s beside the live ones, one replay after another", "%.0f", median(beside))
	name = fmt.Sprintf("%d live subscribers, %.0f events/s", o.Live, o.Rate)
	for by, what := range [neighbours]string{"alone", "beside replays", "beside replays of another relay"} {
		s.add(name, "latency, the commit included, "+what+": p50, p99", "%.2f ms, %.2f ms", median(live[by].p50), median(live[by].p99))
	}
	s.add(name, "beside replays, to beside another relay's: p50", "%s", spread(ratios(live[besideReplays].p50, live[besideAnother].p50)))
	s.add(name, "the same: p99", "%s", spread(ratios(live[besideReplays].p99, live[besideAnother].p99)))
	return nil
}

// liveClient connects the live subscribers.
func (r *relay) liveClient(ctx context.Context, o Replay) (*load.Client, error) {
	client, err := load.New(load.Options{Addr: r.Addr, Timeout: patience})
	if err != nil {
		return nil, err
	}
	class := binding.class(o.Live, false, 0)
	class.After = append(message(quiet), message(requested(`"types":["message.*"]`))...)
	if _, err := client.Connect(ctx, []load.Class{class}); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// replayCost is what one replay alone does, and the relay's CPU time for an event
// of it, in microseconds.
func (r *relay) replayCost(ctx context.Context, events int) (perSecond, micros float64, err error) {
	if err := r.rest(ctx); err != nil {
		return 0, 0, err
	}
	used, err := cpuOf(r.PID(), func() (err error) {
		perSecond, err = r.replay(events)
		return err
	})
	return perSecond, used.Seconds() * 1e6 / float64(events), err
}

// fill publishes the events that are read again, in order.
func (r *relay) fill(n int) error {
	p, err := newPublisher(r.Addr, bulkType, 0, 0, false)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	for p.acked < n {
		if err := p.publish(min(fillWindow, n-p.acked), once()); err != nil {
			return err
		}
	}
	return nil
}

// once returns a function that is true the first time.
func once() func() bool {
	called := false
	return func() bool {
		before := called
		called = true
		return !before
	}
}

// live publishes at a rate for a time and returns what the live subscribers saw.
func (r *relay) live(ctx context.Context, client *load.Client, o Replay, next *int) (run, error) {
	events := int(o.Rate * o.Length.Seconds())
	warm := events / 10
	l := load.Load{
		Publisher: binding.publisher(func(int) int { return 0 }),
		First:     *next, Events: warm + events, Warmup: warm, Rate: o.Rate, Timeout: o.Length + patience,
	}
	*next += l.Events
	return r.drive(ctx, client, l)
}

// again replays, one replay after another, until f returns.
func (r *relay) again(events int, f func() error) (rates []float64, err error) {
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			rate, err := r.replay(events)
			if err != nil {
				done <- err
				return
			}
			rates = append(rates, rate)
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
		}
	}()
	err = f()
	close(stop)
	return rates, errors.Join(<-done, err)
}

// replay subscribes from before the first event and reads all that was filled in,
// and returns events a second. They come in order, each once, with rising
// numbers, and the relay counts as many (B51 and B52 of the contract).
func (r *relay) replay(events int) (perSecond float64, err error) {
	k, err := dial(r.Addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = k.Close() }()
	began := time.Now()
	if _, err := k.Write(message(requested(`"types":["bulk.*"],"from_cursor":"none:0","delivery_mode":"best_effort"`))); err != nil {
		return 0, err
	}
	if err := k.expect(binding.subscribed); err != nil {
		return 0, err
	}
	if !bytes.Contains(k.text, []byte(`"complete"`)) {
		return 0, fmt.Errorf("%w: the replay is not complete: %.400q", errWrong, k.text)
	}
	last := int64(0)
	want := []byte("bench-0000000000")
	for n := range events {
		text, err := k.next()
		if err != nil {
			return 0, fmt.Errorf("event %d of the replay: %w", n, err)
		}
		digits(want[len("bench-"):], n)
		seq := number(text, "sequence")
		if !bytes.Equal(member(text, "id"), want) || seq <= last {
			return 0, fmt.Errorf("%w: event %d of the replay, after number %d: %.600q", errWrong, n, last, text)
		}
		last = seq
	}
	took := time.Since(began).Seconds()
	if err := k.expect(`"event.replayed"`); err != nil {
		return 0, err
	}
	if n := number(k.text, "events_replayed"); n != int64(events) {
		return 0, fmt.Errorf("%w: %d of %d events replayed, says the relay", errWrong, n, events)
	}
	return float64(events) / took, nil
}

// milli is a time in milliseconds.
func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
