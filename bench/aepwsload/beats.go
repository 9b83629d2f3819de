package aepwsload

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

// Beats is a number of idle sessions, and for how many heartbeats they are
// watched.
type Beats struct {
	Sessions int
	Interval time.Duration
	Count    int
}

// tick is how often somebody publishes beside the idle sessions, which gives the
// client its time.
const tick = time.Second

// beats measures what heartbeats cost the relay (B37 and B39 of the contract),
// beside as many sessions that asked for none.
func (s *suite) beats(ctx context.Context) error {
	b := s.o.Beats
	var share [2]float64
	var beats int64
	for i, hello := range []string{`{"type":"session.opened","payload":{"version":"0.1"}}`, quiet} {
		b := b
		if i == 1 {
			b.Count = 1
		}
		err := s.p.with(func(r *relay) error {
			o, err := r.idle(ctx, b, hello)
			if err != nil {
				return err
			}
			share[i] = 100 * o.cpu.Seconds() / o.wall.Seconds()
			// Each session was told that it is ready. The end of the time is that of an
			// interval for some sessions.
			got := o.Other - int64(b.Sessions)
			least, most := int64((b.Count-1)*b.Sessions), int64((b.Count+1)*b.Sessions)
			if i == 1 {
				least, most = 0, 0
			} else {
				beats = got
			}
			if got < least || got > most {
				return fmt.Errorf("%w: %d heartbeats, not %d to %d", errWrong, got, least, most)
			}
			return nil
		}, fmt.Sprint("AEPWS_HEARTBEAT_MS=", b.Interval.Milliseconds()))
		if err != nil {
			return err
		}
		s.say("%d idle sessions, %s: %.2f %% of a core", b.Sessions, [2]string{"heartbeats", "none"}[i], share[i])
	}
	name := fmt.Sprintf("%d idle sessions, %v", b.Sessions, time.Duration(b.Count)*b.Interval)
	s.add(name, fmt.Sprintf("a ping, its pong and a `session.heartbeat` every %v: CPU of the relay (goal: 2 %%)", b.Interval), "%.2f %% of a core", share[0])
	s.add(name, "the same without heartbeats", "%.2f %% of a core", share[1])
	s.add(name, "CPU of one ping, its pong and one heartbeat", "%.1f us",
		(share[0]-share[1])/100*(time.Duration(b.Count)*b.Interval).Seconds()*1e6/float64(beats))
	return nil
}

// idle watches sessions that get nothing but heartbeats. Those that did not
// answer three pings would be closed, and then the run fails.
func (r *relay) idle(ctx context.Context, b Beats, hello string) (run, error) {
	client, err := load.New(load.Options{Addr: r.Addr, Timeout: patience})
	if err != nil {
		return run{}, err
	}
	defer client.Close()
	class := load.Class{
		Name: binding.name, Count: b.Sessions, Kind: load.WebSocket, Request: binding.request,
		After: message(hello), Ready: binding.opened, Select: func(int) bool { return false },
	}
	if _, err := client.Connect(ctx, []load.Class{class}); err != nil {
		return run{}, err
	}
	if err := r.rest(ctx); err != nil {
		return run{}, err
	}
	length := time.Duration(b.Count) * b.Interval
	// The last event is published one tick before the end of its own.
	events := int(length/tick) + 1
	return r.drive(ctx, client, load.Load{
		Publisher: binding.publisher(func(int) int { return nobody }),
		Events:    events, Rate: float64(time.Second) / float64(tick), Timeout: length + patience,
	})
}
