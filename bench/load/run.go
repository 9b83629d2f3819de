//go:build linux

package load

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// run is one run's accounting. Events are indexed from span.low on.
type run struct {
	// Immutable after construction.
	load        Load
	span        span
	measureFrom int // the first measured event
	total       int // events
	deadline    int64

	// Owned by the client's thread.
	missing    []int32 // deliveries that are awaited (L2)
	intended   []int64 // when it should be published
	ends       []int64 // where it ends in the publisher's bytes
	flawed     []bool  // a delivery was lost
	published  int     // events [0, published) are encoded
	written    int     // events [0, written) are written
	inFlight   int     // published events with missing deliveries
	room       bool    // an event left flight since the last look
	phaseBegin int     // the phase publishes [phaseBegin, phaseEnd)
	phaseEnd   int
	base       int64 // when the phase began
	due        int64 // when to look at the schedule
	measuring  bool
	last       int64 // the last measured delivery
	cpu        time.Duration
	gaps       map[int32]gaps // by consumer
	gapCount   int
	out        Outcome
}

// Run publishes the events of a load and waits until the consumers have them.
// It returns what it found also with an error: ErrTimeout if deliveries are
// missing at the end of Load.Timeout (they are counted as lost), ErrPublisher,
// ErrLoad, or that of ctx. After ErrTimeout and ErrLoad the client can be used
// further.
func (c *Client) Run(ctx context.Context, l Load) (Outcome, error) {
	lock()
	defer unlock()
	switch {
	case c.err != nil:
		return Outcome{}, fmt.Errorf("load: after an earlier error: %w", c.err)
	case c.opened < len(c.consumers):
		return Outcome{}, fmt.Errorf("%w: not all consumers are connected", ErrLoad)
	}
	if err := c.prepare(ctx, l); err != nil {
		return Outcome{}, err
	}
	return c.drive(ctx)
}

// Herd connects the consumers of classes and runs a load at the same time: what
// the server sends is read and accounted for as soon as a consumer is
// subscribed, and events are published from the beginning. The intended time of
// events that exist already is the beginning. Errors are those of Connect and
// Run; Load.Timeout bounds it.
func (c *Client) Herd(ctx context.Context, classes []Class, l Load) (ConnectStats, Outcome, error) {
	lock()
	defer unlock()
	if err := c.admit(classes); err != nil {
		return ConnectStats{}, Outcome{}, err
	}
	if err := c.prepare(ctx, l); err != nil {
		return ConnectStats{}, Outcome{}, err
	}
	c.firstDial = now()
	out, err := c.drive(ctx)
	return c.stats, out, err
}

// prepare opens the publisher and sets up the accounting.
func (c *Client) prepare(ctx context.Context, l Load) error {
	if err := l.check(); err != nil {
		return err
	}
	s, err := spanOf(&l, c.classes)
	if err != nil {
		return err
	}
	if l.Publisher.Encode != nil && l.Events > 0 {
		if err := c.openPublisher(ctx, l.Publisher); err != nil {
			return err
		}
	}
	readers := make([]int, len(c.classes))
	for i := range c.consumers {
		if cn := &c.consumers[i]; cn.state != stateLost {
			readers[cn.class]++
		}
	}
	missing, err := owe(&l, s, c.classes, readers)
	if err != nil {
		return err
	}
	for i := range c.consumers {
		cn := &c.consumers[i]
		cn.next = 0
		if cn.state == stateLost {
			cn.next = int32(c.classes[cn.class].owed.count())
		}
	}
	total := s.end - s.low
	r := &run{
		load: l, span: s, total: total, missing: missing, gaps: map[int32]gaps{}, due: never,
		intended:  make([]int64, total),
		ends:      make([]int64, total),
		flawed:    make([]bool, total),
		published: s.first - s.low,
		written:   s.first - s.low,
		deadline:  now() + int64(l.Timeout),
		out:       Outcome{Latency: new(Histogram), LastLatency: new(Histogram), PublishLag: new(Histogram)},
	}
	for _, n := range missing[:r.published] {
		if n > 0 {
			r.inFlight++
		}
	}
	if l.Warmup > 0 {
		r.measureFrom = r.published + l.Warmup
	}
	c.run = r
	return nil
}

// drive runs the phases until all is delivered.
func (c *Client) drive(ctx context.Context) (Outcome, error) {
	r := c.run
	defer func() { c.run = nil }()
	if r.inFlight > 0 {
		r.begin() // reading what is there is the load
		c.readAll()
	} else {
		c.readAll()
		c.fail(c.readAgain())
		r.begin()
	}
	err := c.err
	for err == nil {
		if c.dialled < len(c.consumers) {
			if err = c.dialMore(); err != nil {
				break
			}
		}
		c.pace()
		if r.phaseDone() && c.opened == len(c.consumers) {
			if r.measuring {
				break
			}
			r.begin()
			continue
		}
		t := now()
		if t > r.deadline {
			err = fmt.Errorf("%w: %d of %d events published and %d of them in flight after %v",
				ErrTimeout, r.published, r.total, r.inFlight, r.load.Timeout)
			break
		}
		err = c.turn(ctx, min(maxWait, time.Duration(min(r.deadline, r.due)-t)))
	}
	r.endMeasure()
	if err == nil {
		err = c.sweep(ctx)
	}
	return c.finish(), err
}

// readAll accounts for what came before the run, and has every socket read
// to its end: epoll told of the bytes when nobody wanted them (L4).
func (c *Client) readAll() {
	t := now()
	for i := range c.consumers {
		if cn := &c.consumers[i]; cn.state == stateOpen {
			if cn.hello != nil {
				c.takeHello(cn, int32(i), t)
			} else {
				c.again = append(c.again, unix.EpollEvent{Fd: int32(i), Events: ended})
			}
		}
	}
}

// begin begins the next phase: the warm-up, if there is one, then the measured
// part.
func (r *run) begin() {
	r.phaseBegin, r.phaseEnd = r.published, r.total
	if r.published < r.measureFrom {
		r.phaseEnd = r.measureFrom
	} else {
		r.measuring = true
		if r.load.OnMeasure != nil {
			r.load.OnMeasure(true)
		}
		r.cpu = threadCPU()
	}
	r.base = now()
	if r.phaseBegin == r.span.first-r.span.low { // the first phase
		for i := range r.phaseBegin {
			r.intended[i] = r.base
		}
	}
}

// phaseDone reports whether all events of the phase are published, written and
// delivered.
func (r *run) phaseDone() bool {
	return r.published == r.phaseEnd && r.written == r.published && r.inFlight == 0
}

// endMeasure ends the measured part.
func (r *run) endMeasure() {
	if !r.measuring {
		return
	}
	r.out.ClientCPU = threadCPU() - r.cpu
	if r.load.OnMeasure != nil {
		r.load.OnMeasure(false)
	}
}

// sweep reads what is there behind the last delivery: it can only be faults.
func (c *Client) sweep(ctx context.Context) error {
	for range 100 {
		events := c.run.out.Bytes
		if err := c.turn(ctx, 0); err != nil {
			return err
		}
		if events == c.run.out.Bytes {
			break
		}
	}
	return nil
}

// finish counts what never came and returns the outcome.
func (c *Client) finish() Outcome {
	r := c.run
	for i := range c.consumers {
		cn := &c.consumers[i]
		due := c.classes[cn.class].owed.below(r.span.low + r.published)
		r.out.Lost += int64(max(0, due-int(cn.next)))
	}
	r.out.Deliveries = r.out.Latency.Count()
	r.out.Events = int64(max(0, r.published-r.measureFrom))
	if r.out.Events > 0 && r.last > 0 {
		r.out.Wall = time.Duration(r.last - r.intended[r.measureFrom])
	}
	return r.out
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
