package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
)

// maxTries is how often in a row a replay that is to end may bring nothing.
const maxTries = 5

// follower is one run of Follow. Its goroutine owns all fields; the goroutines
// that read use only o and now, which do not change.
type follower struct {
	o    Options
	sink Sink
	now  func() time.Time
	// named has the sessions that the filter demands, nil if it does not; hides
	// tells that it demands more.
	named []string
	hides bool

	tracks    *tracks
	memory    *memory
	backoff   backoff
	scan      aep.Scanner
	buf       []byte
	fromLimit int

	connection int    // counts connections
	resumed    bool   // there was a connection before, maybe of another run
	boot       string // the relay's last boot id
	recalled   bool   // boot is the state file's
	blank      bool   // the relay held nothing when this began
	// heard is when the connection told something last. lostAt is that of a
	// connection that was lost, until all that was missed has been fetched.
	// restarted: since then the relay has begun anew.
	heard     time.Time
	lostAt    time.Time
	restarted bool

	// While one connection catches up.
	searching bool
	late      bool // sessions that are found may lack their beginning
	// complete: sessions that are met now began since this began, or are wanted
	// whole, or the relay has just shown all of them that it holds. What is below
	// their first event then comes later, and is owed too.
	complete  bool
	held      [][]byte
	heldBytes int
	loose     bool // too much has waited: live events do not any more

	up            bool // the relay has accepted the present request
	down          bool // and there was an attempt before that it did not
	why           string
	progress      bool
	unflushed     bool
	dirty         bool // the state file is not what it should be
	saidForgotten bool
}

// sinkError is an error of the sink.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

// guard wraps the sink so that its errors are told from others.
type guard struct{ Sink }

func (g guard) Event(text []byte) error {
	if err := g.Sink.Event(text); err != nil {
		return sinkError{err}
	}
	return nil
}

func (g guard) Flush() error {
	if err := g.Sink.Flush(); err != nil {
		return sinkError{err}
	}
	return nil
}

// Follow hands the events of a relay to sink until ctx ends, or with Once until
// the replay has ended, and then returns nil. Connections that are lost, and
// relays that cannot be reached, are tried again for ever. Errors: of the sink,
// as they are; ErrOptions; ErrState; ErrTooLong; a *Refusal; with Once
// ErrGaveUp.
func Follow(ctx context.Context, o Options, sink Sink) error {
	filter, err := o.resolve()
	if err != nil {
		return err
	}
	hides, window := hides(o.Filter), maxAbove
	if hides {
		window = maxAboveHidden
	}
	memory := newMemory(o.Remember)
	f := &follower{
		o: o, sink: guard{sink}, now: time.Now, named: filter.Sessions(), hides: hides,
		tracks: newTracks(window, memory.put), memory: memory, fromLimit: maxFrom,
		heard: time.Now(),
	}
	if err := f.begin(); err != nil {
		return err
	}
	err = f.run(ctx)
	if wrapped, ok := errors.AsType[sinkError](err); ok {
		return wrapped.error // what was not taken must come again
	}
	return errors.Join(err, f.end())
}

// begin takes over the state file and the positions asked for.
func (f *follower) begin() error {
	if f.o.State != "" {
		s, found, err := readState(f.o.State)
		if err != nil {
			return err
		}
		if found {
			f.load(&s)
		}
	}
	for _, p := range f.o.From {
		if f.tracks.bySession[p.Session] == nil {
			f.tracks.start(p.Session, point{p.Epoch, p.Seq}, 0)
		}
	}
	return f.save() // or it would be known too late that it cannot be written
}

// end flushes and saves what was taken.
func (f *follower) end() error {
	err := f.flush()
	if err == nil {
		err = f.save()
	}
	if wrapped, ok := errors.AsType[sinkError](err); ok {
		return wrapped.error
	}
	return err
}

// run connects until there is nothing more to do.
func (f *follower) run(ctx context.Context) error {
	again := false // the last attempt was to a relay that is another now
	for tries := 0; ; {
		f.up, f.progress = false, false
		began := f.now()
		err := f.attend(ctx)
		if f.up && f.lostAt.IsZero() {
			f.lostAt = f.heard
		}
		_, broken := errors.AsType[sinkError](err)
		_, refused := errors.AsType[*Refusal](err)
		switch {
		case ctx.Err() != nil && !broken, err == nil:
			return nil
		case broken || refused, errors.Is(err, ErrTooLong), errors.Is(err, ErrOptions):
			return err
		case errors.Is(err, errTooMany):
			continue // with fewer
		case errors.Is(err, errAnother) && !again:
			again = true
			continue // from the beginning
		}
		again = false
		if tries++; f.progress {
			tries = 0
		}
		if f.o.Once && tries >= maxTries {
			if f.up {
				return fmt.Errorf("%w: %w", ErrGaveUp, err)
			}
			return gaveUp(err)
		}
		if f.up {
			f.backoff.lasted(f.now().Sub(began))
		}
		f.lost(err)
		if err := f.saveSoon(); err != nil {
			return err
		}
		var after time.Duration
		if busy, ok := errors.AsType[*busyError](err); ok {
			after = busy.after
		}
		if f.o.pause(ctx, f.backoff.next(after)) != nil {
			return nil
		}
	}
}

// lost tells that there is no connection.
func (f *follower) lost(err error) {
	why := clean(err.Error())
	switch {
	case f.up:
		f.notice(Notice{Kind: Lost, Text: why})
	case why != f.why:
		f.notice(Notice{Kind: Unreachable, Text: why})
	}
	f.down, f.why = true, why
}

func (f *follower) notice(n Notice) { f.sink.Notice(n) }

// flush flushes the sink if it has taken anything since.
func (f *follower) flush() error {
	if !f.unflushed {
		return nil
	}
	f.unflushed = false
	return f.sink.Flush()
}

// saveSoon saves if there is anything new. A state file that cannot be written
// is tried again later.
func (f *follower) saveSoon() error {
	if !f.dirty {
		return nil
	}
	err := f.save()
	if errors.Is(err, ErrState) {
		f.notice(Notice{Kind: Unsaved, Text: clean(err.Error())})
		return nil
	}
	return err
}
