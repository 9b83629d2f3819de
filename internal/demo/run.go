package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/demo/fleet"
)

// Bounds of what waits (D1).
const (
	queueCount   = 64
	heldCount    = 256
	commandCount = 64
)

const (
	// maxLag is how far the events may be behind their time before the clock is
	// set forward: what comes then comes at its pace, and not in a burst.
	maxLag = 500 * time.Millisecond

	// endTimeout is how long the last events may take (D3).
	endTimeout = 5 * time.Second

	statusInterval = 5 * time.Second
)

// ErrRefused tells that the relay does not let this client publish, and that
// trying again is of no use.
var ErrRefused = errors.New("the relay refuses")

// ErrNothing tells that the relay took none of the events.
var ErrNothing = errors.New("no event got in")

// Options says what is played where.
type Options struct {
	Relay *client.Relay
	Fleet fleet.Config // without Start and Control, which Run sets
	// Duration is how long it is played, 0 for until the context ends.
	Duration time.Duration
	// HTTP sends by POST, over one connection. Commands then have no way to the
	// agents (R145).
	HTTP bool
	// Status gets a line about itself at the start, and every Interval, which
	// is 5 s unless set.
	Status   io.Writer
	Interval time.Duration

	last time.Duration // endTimeout unless a test sets it
}

// player is one Run.
type player struct {
	// Immutable after construction.
	opts     Options
	out      sender
	commands chan fleetCommand
	fatal    chan error    // the first is kept
	ending   chan struct{} // closed when only the last events remain
	begun    time.Time

	// Owned by Run's goroutine, but for fleet.Name.
	fleet   *fleet.Fleet
	skipped time.Duration
	late    *fleet.Event // that found no room before the end

	// Atomic.
	counts counts
}

// counts is what senders tell.
type counts struct {
	connected  atomic.Int64
	reconnects atomic.Int64
	accepted   atomic.Int64 // the relay told that they are in
	refused    atomic.Int64
	lastError  atomic.Pointer[string] // that no status line told
	why        atomic.Pointer[string] // the last error, told or not
}

// problem keeps the last thing that went wrong, for the status line.
func (c *counts) problem(err error) {
	text := clean(plain(err))
	c.lastError.Store(&text)
	c.why.Store(&text)
}

// fleetCommand is a command on its way to an agent.
type fleetCommand struct {
	agent int
	text  []byte
}

// sender takes events of all agents.
type sender interface {
	// queue returns where events of an agent go in. It is closed to end.
	queue(agent int) chan<- fleet.Event
	// run sends until all queues are closed and empty, or ctx ends.
	run(ctx context.Context)
	close()
}

// Run plays the fleet until ctx ends or the duration is over, ends all sessions
// and returns nil; or it returns ErrRefused, ErrNothing, or an error of the
// configuration.
func Run(ctx context.Context, o Options) error {
	if o.Interval <= 0 {
		o.Interval = statusInterval
	}
	if o.last <= 0 {
		o.last = endTimeout
	}
	o.Fleet.Start = time.Now()
	// Without a token the relay takes no commands (R390).
	o.Fleet.Control = !o.HTTP && o.Relay.Token != ""
	f, err := fleet.New(o.Fleet)
	if err != nil {
		return err
	}
	p := &player{
		opts: o, fleet: f, begun: o.Fleet.Start,
		commands: make(chan fleetCommand, commandCount), fatal: make(chan error, 1), ending: make(chan struct{}),
	}
	if o.HTTP {
		p.out = newPoster(p)
	} else {
		p.out = newLinks(p)
	}
	return p.run(ctx)
}

func (p *player) run(ctx context.Context) error {
	p.greet()
	// The senders outlive ctx by the time of the last events.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(ended)
		p.out.run(work)
	})
	err := p.play(ctx)
	close(p.ending)
	if err == nil {
		last := time.AfterFunc(p.opts.last, stop)
		defer last.Stop()
		if err = p.finish(work); err == nil {
			p.out.close()
		}
	}
	if err != nil {
		stop()
	}
	for {
		select {
		case <-p.commands: // whose session has ended
		case err = <-p.fatal:
		case <-ended:
			running.Wait()
			p.status(true)
			if err == nil {
				err = p.nothing()
			}
			return err
		}
	}
}

// refuse ends the run with ErrRefused.
func (p *player) refuse(err error) {
	select {
	case p.fatal <- err:
	default:
	}
}

// nothing returns ErrNothing if the relay took none of what there was.
func (p *player) nothing() error {
	why := p.counts.why.Load()
	switch {
	case p.counts.accepted.Load() > 0, why == nil && p.fleet.Stats().Events == 0:
		return nil
	case why == nil:
		return fmt.Errorf("%w: %w", ErrNothing, errSilent)
	}
	return fmt.Errorf("%w: %s", ErrNothing, *why)
}

// elapsed is the fleet's time.
func (p *player) elapsed() time.Duration { return time.Since(p.begun) - p.skipped }

// play publishes until ctx ends, the duration is over or the relay refuses.
func (p *player) play(ctx context.Context) error {
	if p.opts.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.opts.Duration)
		defer cancel()
	}
	status := time.NewTicker(p.opts.Interval)
	defer status.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, ok := p.fleet.Due()
		now := timer.C
		if ok {
			timer.Reset(due - p.elapsed())
		} else {
			now = nil // all are paused
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.fatal:
			return err
		case <-status.C:
			p.status(false)
		case c := <-p.commands:
			p.fleet.Command(p.elapsed(), c.agent, c.text)
		case <-now:
			if late := p.elapsed() - due; late > maxLag {
				p.skipped += late
				p.fleet.Skip(late)
			}
			if e, ok := p.fleet.Next(); ok {
				if err := p.deliver(ctx, e, status.C); err != nil || p.late != nil {
					return err
				}
			}
		}
	}
}

// deliver hands an event to its sender. It waits as long as that takes, since
// the fleet has to stand still meanwhile; an event that finds no room before ctx
// ends is kept for finish.
func (p *player) deliver(ctx context.Context, e fleet.Event, status <-chan time.Time) error {
	for {
		select {
		case p.out.queue(e.Agent) <- e:
			return nil
		case <-ctx.Done():
			p.late = &e
			return nil
		case err := <-p.fatal:
			return err
		case <-status:
			p.status(false)
		case c := <-p.commands:
			p.fleet.Command(p.elapsed(), c.agent, c.text)
		}
	}
}

// finish has the fleet end all it began.
func (p *player) finish(ctx context.Context) error {
	if p.late != nil {
		if err := p.deliver(ctx, *p.late, nil); err != nil {
			return err
		}
	}
	p.fleet.Finish()
	for ctx.Err() == nil {
		e, ok := p.fleet.Next()
		if !ok {
			break
		}
		if err := p.deliver(ctx, e, nil); err != nil {
			return err
		}
	}
	return nil
}
