package aepwsload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/internal/faults"
)

// Program is how the relay is run.
type Program struct {
	// Relay starts a relay with further settings, as NAME=value.
	Relay func(env ...string) (*faults.Process, error)
}

// patience bounds the wait for an answer, and for a relay to come to rest.
const patience = 60 * time.Second

// errWrong tells of an outcome from which no figure may come (B1, B2, B3).
var errWrong = errors.New("aepwsload: the relay did not deliver what it owes")

// relay is a relay in a process of its own, on a data directory of its own.
type relay struct {
	*faults.Process
	dir string
}

// start starts a relay with both surfaces, whose bounds are beyond what is
// measured, unless env says otherwise.
func (p Program) start(env ...string) (*relay, error) {
	dir, err := os.MkdirTemp("", "aepwsload")
	if err != nil {
		return nil, err
	}
	settings := []string{
		"SLUICE_DATA=" + dir, "SLUICE_SURFACES=aep,aepws", "AEP_MAX_SESSIONS=20000",
		"AEPWS_MAX_CONNECTIONS=15000", "AEPWS_RETENTION_EVENTS=100000000", "AEPWS_RETENTION_BYTES=1099511627776",
	}
	// What the surroundings say of the binding does not count.
	for _, name := range []string{
		"PATH", "TOKEN", "ALLOW_OPEN", "MAX_MESSAGE_BYTES", "HEARTBEAT_MS", "OPEN_TIMEOUT_MS",
		"RETENTION_MS", "STRICT_TYPES", "EXTRA_TYPES", "FRAGMENTS",
	} {
		settings = append(settings, "AEPWS_"+name+"=")
	}
	proc, err := p.Relay(append(settings, env...)...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &relay{proc, dir}, nil
}

// stop ends the relay; an error line in its log is an error.
func (r *relay) stop() error {
	err := r.Stop()
	if lines := r.Problems(); len(lines) > 0 {
		err = errors.Join(err, fmt.Errorf("aepwsload: the relay logs: %s", lines[0]))
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// with runs f on a fresh relay.
func (p Program) with(f func(*relay) error, env ...string) error {
	r, err := p.start(env...)
	if err != nil {
		return err
	}
	return errors.Join(f(r), r.stop())
}

// withTwo runs f on two fresh relays.
func (p Program) withTwo(f func(a, b *relay) error) error {
	return p.with(func(a *relay) error {
		return p.with(func(b *relay) error { return f(a, b) })
	})
}

const (
	restLook = 50 * time.Millisecond
	restCPU  = restLook / 20 // 5 percent
)

// rest waits until the relay has done what was asked of it before, such as to
// open or close ten thousand connections, and collects its garbage.
func (r *relay) rest(ctx context.Context) error {
	if err := r.Collect(); err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		used, err := cpuOf(r.PID(), func() error {
			select {
			case <-time.After(restLook):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil || used <= restCPU {
			return err
		}
	}
	return errors.New("aepwsload: the relay does not come to rest")
}

// cpuOf runs f and returns the CPU time that a process used meanwhile.
func cpuOf(pid int, f func() error) (time.Duration, error) {
	before, err := load.CPUTime(pid)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := load.CPUTime(pid)
	return after - before, err
}

// run is what one load did.
type run struct {
	load.Outcome
	cpu  time.Duration // of the relay
	wall time.Duration // between the same two moments
}

// perEvent is the relay's CPU time of an event, in microseconds.
func (o *run) perEvent() float64 { return o.cpu.Seconds() * 1e6 / float64(o.Events) }

// perDelivery is that of a delivery.
func (o *run) perDelivery() float64 { return o.cpu.Seconds() * 1e6 / float64(o.Deliveries) }

// drive puts a load on the relay, and fails unless each delivery came (B1).
func (r *relay) drive(ctx context.Context, c *load.Client, l load.Load) (run, error) {
	var o run
	var clock error
	var began time.Time
	l.OnMeasure = func(begin bool) {
		used, err := load.CPUTime(r.PID())
		if clock = errors.Join(clock, err); begin {
			o.cpu, began = -used, time.Now()
			return
		}
		o.cpu += used
		o.wall = time.Since(began)
	}
	var err error
	if o.Outcome, err = c.Run(ctx, l); err != nil {
		return o, err
	}
	if wrong := o.Lost + o.Repeated + o.Disordered + o.Foreign + o.Corrupt + o.ConnsLost; wrong > 0 {
		return o, fmt.Errorf("%w: %d lost, %d repeated, %d out of order, %d foreign, %d corrupt, %d connections lost", errWrong,
			o.Lost, o.Repeated, o.Disordered, o.Foreign, o.Corrupt, o.ConnsLost)
	}
	return o, clock
}
