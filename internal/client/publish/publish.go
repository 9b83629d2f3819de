package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

// Defaults of Options.
const (
	// DefaultBatchLines is the contract's default of AEP_MAX_BATCH.
	DefaultBatchLines = 10_000
	// DefaultBatchBytes keeps a request well below the default of AEP_MAX_BODY.
	DefaultBatchBytes = 4 << 20
	// DefaultLineBytes is the contract's default of AEP_MAX_BODY.
	DefaultLineBytes = 16 << 20
	// DefaultLinger is how long a line waits for others.
	DefaultLinger = 200 * time.Millisecond
)

// Errors of Run and Command.
var (
	// ErrFinal tells that the relay will not take anything, as things are.
	ErrFinal = errors.New("refused")
	// ErrGaveUp tells that the relay took nothing for Options.Timeout.
	ErrGaveUp = errors.New("gave up")
	// ErrRefusedLine tells that a line was refused and Options.Strict is set.
	ErrRefusedLine = errors.New("a line is refused")
	// ErrInput tells that the input could not be read to its end.
	ErrInput = errors.New("cannot read the input")
)

// Refusal is a line that is not in.
type Refusal struct {
	Line   int64  // in the input, from 1; 0 if it is not known
	Reason string // safe for a terminal
}

// Stats is what Run has done.
type Stats struct {
	Events   int64 // lines that are known to be in
	Refused  int64 // lines that are not
	Bytes    int64 // of the events that are in
	Requests int64 // requests, or batches sent over a WebSocket
	Retries  int64 // of these, the ones that were sent before
}

// Options say how Run sends. The zero value of a field is its default.
type Options struct {
	BatchLines int           // most lines of a request
	BatchBytes int           // most bytes of a request, but for a line that is longer
	LineBytes  int           // longest line; one that is longer is refused here
	Linger     time.Duration // how long a line waits for others, by HTTP

	// Timeout ends it when the relay took nothing for so long; 0 is never.
	Timeout time.Duration
	// Strict ends it at the first line that is refused. What was read before
	// that line is in; by WebSocket some lines behind it may be too.
	Strict bool
	// Stop ends the input when it is closed: what was read is still sent.
	Stop <-chan struct{}
	// Socket sends over a WebSocket, which claims the sessions; nil is HTTP.
	Socket *Socket

	// Refused is called for each line that is not in, Notice with a sentence
	// about what delays the sending or ends a delay, Progress with how many
	// bytes of the input are done with since the last call. They may be nil
	// and are called one at a time; they hold up the sending.
	Refused  func(Refusal)
	Notice   func(string)
	Progress func(bytes int64)
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	setDefault(&o.BatchLines, DefaultBatchLines)
	setDefault(&o.BatchBytes, DefaultBatchBytes)
	setDefault(&o.LineBytes, DefaultLineBytes)
	if o.Linger <= 0 {
		o.Linger = DefaultLinger
	}
	if o.Refused == nil {
		o.Refused = func(Refusal) {}
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	return o
}

func setDefault(v *int, to int) {
	if *v <= 0 {
		*v = to
	}
}

// Run sends each line of r, and returns when all are in or refused. It ends
// early with an error that is ErrFinal, ErrGaveUp, ErrRefusedLine or ErrInput,
// or with that of ctx. The Stats are right in any case.
//
// r is read by a goroutine of its own. If Run ends early and r blocks in a
// Read, that goroutine lives until the Read returns: the caller closes r.
func Run(ctx context.Context, relay *client.Relay, r io.Reader, o Options) (Stats, error) {
	o = o.withDefaults()
	l := limits{lines: o.BatchLines, bytes: o.BatchBytes, lineBytes: o.LineBytes, linger: o.Linger}
	if o.Socket != nil {
		// A ping costs little, so nothing is gained by waiting.
		l.linger, l.lines, l.bytes = 0, min(l.lines, socketBatchLines), min(l.bytes, socketBatchBytes)
	}
	f := newFeed(l)
	defer f.stop()
	defer context.AfterFunc(ctx, f.stop)()
	if o.Stop != nil {
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-o.Stop:
				f.end()
			case <-done:
			}
		}()
	}
	go f.read(r)
	s := sender{relay: relay, o: o, feed: f, outage: outage{timeout: o.Timeout, notice: o.Notice}}
	if o.Socket != nil {
		return s.overSocket(ctx)
	}
	return s.byPost(ctx)
}

// sender is a Run under way. One goroutine uses it.
type sender struct {
	relay  *client.Relay
	o      Options
	feed   *feed
	outage outage
	stats  Stats
}

// refuse reports a line that is not in.
func (s *sender) refuse(r Refusal) {
	s.stats.Refused++
	s.o.Refused(r)
}

// strict returns the error that a refusal ends Run with, or nil.
func (s *sender) strict(r Refusal) error {
	if !s.o.Strict {
		return nil
	}
	return fmt.Errorf("%w, line %d", ErrRefusedLine, r.Line)
}

// refuseUnsent reports the lines of a batch that are not even sent.
func (s *sender) refuseUnsent(b *batch) error {
	var err error
	for _, r := range b.refused {
		s.refuse(r)
		if err == nil {
			err = s.strict(r)
		}
	}
	b.refused = nil
	return err
}

// inputError returns the error of the input's end.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInput, err)
}
