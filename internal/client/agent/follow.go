package agent

import (
	"context"
	"errors"
	"time"
)

const (
	// saveEvery is how often the cursor file is written at most.
	saveEvery = time.Second
	// maxExpiries is how often a subscription may expire without an event in
	// between before that counts as a failure of the connection.
	maxExpiries = 3
)

// Options say what to follow and from where. Immutable while Follow runs.
type Options struct {
	Peer
	Filter Filter
	// Cursor is the one after which events are wanted, "" for what is new; a
	// number 0 in it asks for everything held (B51).
	Cursor string
	// CursorFile names a file that keeps the cursor of the last event from one
	// run to the next, "" for none. What it has goes before Cursor.
	CursorFile string
	Count      int64 // after how many events Follow ends, 0 for never
}

// errDone ends a connection because all that was wanted has come.
var errDone = errors.New("done")

// sinkError is an error of the sink.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

// follower is a Follow under way. One goroutine uses it.
type follower struct {
	o      Options
	sink   Sink
	stats  Stats
	outage outage

	cursor  string // of the last event handed on, or what to begin behind
	flushed string // the cursor at the last flush (G1)
	saved   string // what the cursor file has
	tried   time.Time

	// Of the session.
	s        *session
	last     int64  // number that the next one must exceed, 0 for any
	asked    string // id of the subscription.requested that is under way
	askedAt  time.Time
	expiries int    // without an event in between
	drops    int64  // events that told of others left out
	cut      string // what is wrong with the last message, if another one comes
	acks     []acknowledgement
}

// Follow hands the events of a subscription to the sink until ctx ends, Count
// is reached or the relay refuses. It connects again for ever after everything
// else. The error is nil at the end of ctx or count, a *Refusal, ErrReplaced,
// an ErrCursorFile or that of the sink. What was flushed is in the cursor file
// when it returns.
func Follow(ctx context.Context, o Options, sink Sink) (Stats, error) {
	o.Peer = o.withDefaults()
	f := &follower{o: o, sink: sink, cursor: o.Cursor}
	f.outage = outage{notice: sink.Notice, pause: o.pause}
	if o.CursorFile != "" {
		cursor, err := readCursor(o.CursorFile)
		if err != nil {
			return f.stats, err
		}
		if cursor != "" {
			f.cursor, f.saved = cursor, cursor
		}
	}
	err := f.run(ctx)
	if saveErr := f.save(); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	return f.stats, err
}

// run makes one connection after the other.
func (f *follower) run(ctx context.Context) error {
	for {
		err := f.attend(ctx)
		_, broken := errors.AsType[sinkError](err)
		switch {
		case errors.Is(err, errDone):
			return nil
		case broken, final(err):
			return err
		case ctx.Err() != nil:
			return nil
		}
		if f.outage.wait(ctx, err) != nil {
			return nil
		}
	}
}

// attend makes one connection and hands on what comes until it ends. What was
// handed on is flushed when it returns, unless the sink is broken.
func (f *follower) attend(ctx context.Context) error {
	s, err := f.o.begin(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	f.stats.Connected++
	from := "after " + f.cursor
	if f.cursor == "" {
		from = "without a cursor to resume from: events may be missing"
	}
	f.outage.over(from)
	f.s, f.last, f.expiries, f.cut, f.acks = s, numberOf(f.cursor), 0, "", nil
	err = f.subscribe()
	if err == nil {
		err = f.listen(ctx)
	}
	_, broken := errors.AsType[sinkError](err)
	if broken {
		return err
	}
	if flushErr := f.flush(); flushErr != nil {
		return flushErr
	}
	if errors.Is(err, errDone) || ctx.Err() != nil {
		s.hurry()
		if f.acknowledge() == nil {
			s.farewell(func(message) {}) // it comes again
		}
	}
	return err
}

// listen takes what comes until the connection ends.
func (f *follower) listen(ctx context.Context) error {
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	for {
		select {
		case <-f.s.box.more:
			list, ended, err := f.s.take()
			for _, m := range list {
				if takeErr := f.take(m); takeErr != nil {
					return takeErr
				}
			}
			if flushErr := f.flush(); flushErr != nil {
				return flushErr
			}
			if ended {
				return err
			}
			if err := f.acknowledge(); err != nil {
				return f.s.broken(err)
			}
		case <-save.C:
			if f.asked != "" && time.Since(f.askedAt) > f.o.open {
				return errLate
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		f.saveSoon()
	}
}

// subscribe asks for the events behind the cursor.
func (f *follower) subscribe() (err error) {
	f.askedAt = time.Now()
	if f.asked, err = f.s.ask("subscription.requested", f.o.Filter.request(f.cursor)); err != nil {
		return f.s.broken(err)
	}
	return nil
}

// acknowledge sends the acknowledgements of what was flushed (B58).
func (f *follower) acknowledge() error {
	for _, a := range f.acks {
		if err := f.s.say("event.acknowledged", a); err != nil {
			return err
		}
	}
	f.acks = f.acks[:0]
	return nil
}

// flush flushes the sink.
func (f *follower) flush() error {
	if err := f.sink.Flush(); err != nil {
		return sinkError{err}
	}
	f.flushed = f.cursor
	return nil
}

// saveSoon writes the cursor file if that was not done lately. An error is told:
// the next time the file may be written.
func (f *follower) saveSoon() {
	if f.o.CursorFile == "" || time.Since(f.tried) < saveEvery {
		return
	}
	f.tried = time.Now()
	if err := f.save(); err != nil {
		f.sink.Notice(Notice{Kind: Unsaved, Text: clean(err.Error())})
	}
}

// save writes the cursor file up to the last flush (G1).
func (f *follower) save() error {
	if f.o.CursorFile == "" || f.flushed == "" || f.flushed == f.saved {
		return nil
	}
	if err := writeCursor(f.o.CursorFile, f.flushed); err != nil {
		return err
	}
	f.saved = f.flushed
	return nil
}
