package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
)

const (
	// DefaultSource is the source of lines without one.
	DefaultSource = "sluice-agent-emit"

	// Lines that may be without an acknowledgement at a time: so many, or one
	// more than these bytes. A relay takes hundreds into one commit.
	windowLines = 512
	windowBytes = 4 << 20
	// markTimeout is how long a relay may owe an acknowledgement while it
	// acknowledges nothing.
	markTimeout = 30 * time.Second
	// A line that the relay cannot take at the moment is sent lineTries times,
	// over half a minute and more.
	lineTries = 10
	firstWait = 100 * time.Millisecond
	maxWait   = 10 * time.Second
	// recentLines is how many lines of mode best_effort are remembered, so that
	// a refusal finds its line.
	recentLines = 1024
)

// ErrInput tells that the input could not be read to its end.
var ErrInput = errors.New("cannot read the input")

// PublishOptions say how lines are published. Immutable while Publish runs.
type PublishOptions struct {
	Peer
	Source string     // of lines without one; "" is DefaultSource
	Mode   aepws.Mode // of lines without a delivery; ModeAbsent: none
	// Stop ends the input when it is closed: what was read is still sent.
	Stop <-chan struct{}
	// Refused is called for each line that is not in; the reason is fit for a
	// terminal. Notice is called with what delays the sending. Both are called
	// one at a time, and hold up the sending.
	Refused func(line int64, reason string)
	Notice  func(Notice)

	mark time.Duration // markTimeout, for tests
}

// PublishStats counts what Publish did.
type PublishStats struct {
	Acknowledged int64 // lines that are in, and on the relay's medium (B55)
	BestEffort   int64 // lines that were sent and get no answer
	Unsure       int64 // of these, those whose connection was lost
	Refused      int64 // lines that are not in
	Bytes        int64 // of what was sent, once a line
	Retries      int64 // lines that were sent before
}

// flight is one line that is sent until it has an answer.
type flight struct {
	line  int64
	id    string
	text  []byte
	marks bool // the relay answers it (B55)
	sent  bool // at least once
	tries int  // answers that it may be taken later
}

// publisher is a Publish under way. One goroutine uses it.
type publisher struct {
	o      PublishOptions
	stats  PublishStats
	outage outage
	filler filler

	lines   <-chan line
	drained bool  // nothing more will come
	input   error // of the input

	queue []*flight // to be sent, the oldest first
	out   []*flight // sent, without an answer, the oldest first
	bytes int       // of out
	later time.Time // nothing is sent before
	// careful has one line under way at a time, to find the one that is too
	// long for the relay (B14), until those that were under way are through.
	careful bool

	// Of the session.
	s      *session
	heard  time.Time // when something was answered, or nothing was owed
	unsure int64     // lines of mode best_effort that were sent over it
	recent map[string]int64
	order  []string // ids in recent, the oldest first
}

// Publish sends each line of r, and returns when all that get an acknowledgement
// have it or are refused. It ends early with a *Refusal, ErrReplaced, an
// ErrInput or the error of ctx. The stats are right in any case.
//
// r is read by a goroutine of its own. If Publish ends early and r blocks in a
// Read, that goroutine lives until the Read returns.
func Publish(ctx context.Context, r io.Reader, o PublishOptions) (PublishStats, error) {
	o.Peer = o.withDefaults()
	if o.Source == "" {
		o.Source = DefaultSource
	}
	if o.mark == 0 {
		o.mark = markTimeout
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan line)
	go readLines(reading, r, lines)
	p := &publisher{o: o, lines: lines, outage: outage{notice: o.Notice, pause: o.pause}}
	p.filler = filler{source: o.Source, mode: o.Mode, ids: aepws.NewIDs()}
	for first := true; ; first = false {
		if !first && !p.await(ctx) {
			return p.stats, p.result(ctx)
		}
		done, err := p.connection(ctx)
		switch {
		case done:
			return p.stats, p.result(ctx)
		case ctx.Err() != nil:
			return p.stats, ctx.Err()
		case final(err):
			return p.stats, err
		}
		if err := p.outage.wait(ctx, err); err != nil {
			return p.stats, err
		}
	}
}

// await waits until there is something to be sent, so that nobody waits for a
// relay that is of no use any more. It reports whether there is.
func (p *publisher) await(ctx context.Context) bool {
	for len(p.queue)+len(p.out) == 0 && !p.drained {
		select {
		case l, open := <-p.lines:
			p.accept(l, open)
		case <-p.o.Stop:
			p.drained = true
		case <-ctx.Done():
			return false
		}
	}
	return len(p.queue)+len(p.out) > 0
}

// result is the error of a Publish whose lines all have their answers, or which
// was ended.
func (p *publisher) result(ctx context.Context) error {
	switch {
	case p.input != nil:
		return fmt.Errorf("%w: %w", ErrInput, p.input)
	case p.drained:
		return nil
	}
	return ctx.Err()
}

// readLines gives out the lines of an input until it ends or nobody wants more.
func readLines(ctx context.Context, r io.Reader, lines chan<- line) {
	defer close(lines)
	in := newLineReader(r, maxLineBytes)
	for {
		l, err := in.next()
		if errors.Is(err, io.EOF) {
			return
		}
		l.err = err
		select {
		case lines <- l:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// connection sends over one connection as long as it lives. Done tells that
// nothing is left to be sent, or answered.
func (p *publisher) connection(ctx context.Context) (done bool, err error) {
	s, err := p.o.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.end()
	p.outage.over("")
	p.s, p.heard, p.unsure = s, time.Now(), 0
	p.recent, p.order = map[string]int64{}, nil
	p.requeue()
	done, err = p.drive(ctx)
	if done {
		// What is before it in the connection has been looked at then.
		if s.farewell(p.listen) {
			p.unsure = 0
		}
	}
	if p.unsure > 0 {
		p.stats.Unsure += p.unsure
		p.o.Notice(Notice{Kind: Unsure, Count: p.unsure})
	}
	if closed, ok := errors.AsType[*closedError](err); ok && closed.code == websocket.StatusMessageTooBig {
		p.tooBig()
	}
	return done, err
}

// requeue puts what has no answer back in front of the queue, in its order.
func (p *publisher) requeue() {
	if n := len(p.out); n > 0 {
		p.o.Notice(Notice{Kind: Again, Count: int64(n)})
	}
	p.queue = append(p.out, p.queue...)
	p.sort()
	p.out, p.bytes = nil, 0
}

// sort brings the queue into the order of the input.
func (p *publisher) sort() {
	slices.SortFunc(p.queue, func(a, b *flight) int { return cmp.Compare(a.line, b.line) })
}

// tooBig finds the line for which the relay closed the connection: alone under
// way it was that one, unless one went ahead that gets no answer.
func (p *publisher) tooBig() {
	if p.careful && len(p.out) == 1 && p.unsure == 0 {
		p.refuse(p.settle(0), "longer than the relay takes")
	}
	p.careful = true
}
