package repos

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client"
)

const (
	// The first wait is 0.5 to 1 s, the longest 15 to 30 s.
	minDelay = time.Second
	maxDelay = 30 * time.Second
	// stable is how long a connection without a frame must have lasted for its
	// end to be a first failure again.
	stable = time.Minute
	// saveEvery is how often the cursor file is written at most.
	saveEvery = time.Second
)

// Options say what to follow and from where. Immutable while Follow runs.
type Options struct {
	Relay *client.Relay // its Token is sent, so it should have none of another surface
	// Cursor is the number after which frames are wanted (F19 to F24), if
	// HasCursor is set; 0 asks for everything held.
	Cursor    int64
	HasCursor bool
	// CursorFile names a file that keeps the number of the last frame from one
	// run to the next, "" for none. What it has goes before Cursor.
	CursorFile string
	Exclude    []string // kinds of frames to leave out (F4)
	// Count is after how many frames with a number Follow ends, 0 for never.
	Count int64
	// MaxFrameBytes is the longest frame that is read; 0 is
	// firehose.MaxFrameBytes.
	MaxFrameBytes int

	// pause waits between two attempts, and ping is pingEvery; tests have no
	// time for them.
	pause func(context.Context, time.Duration) error
	ping  time.Duration
}

// errDone ends a connection because all that was wanted has come.
var errDone = errors.New("done")

// sinkError is an error of the sink.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

// follower is a Follow under way. One goroutine uses it.
type follower struct {
	o       Options
	sink    Sink
	stats   Stats
	scanner firehose.Scanner
	frame   firehose.Frame

	cursor    int64 // of the last frame handed on
	hasCursor bool
	flushed   int64 // the cursor at the last flush; -1 for none (T1)
	saved     int64 // what the cursor file has; -1 for nothing
	tried     time.Time

	// Of the connection.
	last     int64 // number that the next one must exceed
	begun    bool  // a frame with a number has come
	cut      string
	up       bool
	failures int
	down     bool   // it was told that there is no connection
	why      string // what was told about that
}

// Follow hands the frames of a stream to the sink until ctx ends, Count is
// reached or the relay refuses. It connects again for ever after everything
// else. The error is nil at the end of ctx or count, a *Refusal, an
// ErrCursorFile or that of the sink. What was flushed is in the cursor file
// when it returns.
func Follow(ctx context.Context, o Options, sink Sink) (Stats, error) {
	if o.MaxFrameBytes == 0 {
		o.MaxFrameBytes = firehose.MaxFrameBytes
	}
	if o.pause == nil {
		o.pause = client.Pause
	}
	if o.ping == 0 {
		o.ping = pingEvery
	}
	f := &follower{o: o, sink: sink, cursor: o.Cursor, hasCursor: o.HasCursor, flushed: -1, saved: -1}
	f.scanner.MaxFrameBytes = o.MaxFrameBytes
	if o.CursorFile != "" {
		n, found, err := readCursor(o.CursorFile)
		if err != nil {
			return f.stats, err
		}
		if found {
			f.cursor, f.hasCursor, f.saved = n, true, n
		}
	}
	err := f.run(ctx)
	if _, broken := errors.AsType[sinkError](err); !broken {
		err = errors.Join(err, f.flush())
	}
	if saveErr := f.save(); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	return f.stats, err
}

// run makes one connection after the other.
func (f *follower) run(ctx context.Context) error {
	for {
		begun := time.Now()
		err := f.attend(ctx)
		_, refused := errors.AsType[*Refusal](err)
		_, broken := errors.AsType[sinkError](err)
		switch {
		case errors.Is(err, errDone):
			return nil
		case refused || broken:
			return err
		case ctx.Err() != nil:
			return nil
		}
		if f.begun || f.up && time.Since(begun) >= stable {
			f.failures = 0
		}
		f.tellDown(err)
		wait := client.Jitter(f.failures, minDelay, maxDelay)
		f.failures++
		if busy, ok := errors.AsType[*busyError](err); ok && busy.after > 0 {
			// Not earlier than asked, and not all at the same moment.
			wait = busy.after + client.Jitter(0, min(busy.after, minDelay), minDelay)/2
		}
		if f.o.pause(ctx, wait) != nil {
			return nil
		}
	}
}

// tellDown tells why there is no connection, unless that was told already.
func (f *follower) tellDown(err error) {
	event := Unreachable
	if f.up {
		event = Lost
	}
	text := clean(err.Error())
	if !f.up && f.down && text == f.why {
		return
	}
	f.down, f.why = true, text
	f.sink.Notice(Notice{Event: event, Text: text})
}

// attend makes one connection and hands on what comes until it ends.
func (f *follower) attend(parent context.Context) error {
	f.up, f.begun, f.cut, f.last = false, false, "", 0
	conn, err := f.dial(parent)
	if err != nil {
		return err
	}
	f.up = true
	f.stats.Connected++
	if f.hasCursor {
		f.last = f.cursor
	}
	if f.down {
		n := Notice{Event: Connected, Seq: -1}
		if f.hasCursor {
			n.Seq = f.cursor
		}
		f.sink.Notice(n)
		f.down, f.why = false, ""
	}
	ctx, cancel := context.WithCancelCause(parent)
	var wg sync.WaitGroup
	defer func() {
		cancel(nil)
		_ = conn.CloseNow() // nothing is owed to the relay
		wg.Wait()
	}()
	r := &reader{conn: conn, box: newInbox(), most: f.o.MaxFrameBytes}
	wg.Go(func() { r.box.end(r.run(ctx)) })
	wg.Go(func() { r.watch(ctx, f.o.ping, cancel) })
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	for {
		select {
		case <-r.box.more:
			b, ended, err := r.box.take()
			if takeErr := f.takeBatch(b); takeErr != nil {
				return takeErr
			}
			if ended {
				return err
			}
		case <-save.C:
		case <-parent.Done():
			return parent.Err()
		}
		if err := f.saveSoon(); err != nil {
			return err
		}
	}
}

// flush flushes the sink.
func (f *follower) flush() error {
	if err := f.sink.Flush(); err != nil {
		return sinkError{err}
	}
	if f.hasCursor {
		f.flushed = f.cursor
	}
	return nil
}

// saveSoon writes the cursor file if that was not done lately. Only an error of
// the sink is returned: the next time the file may be written.
func (f *follower) saveSoon() error {
	if f.o.CursorFile == "" || time.Since(f.tried) < saveEvery {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.tried = time.Now()
	if err := f.save(); err != nil {
		f.sink.Notice(Notice{Event: Unsaved, Text: clean(err.Error())})
	}
	return nil
}

// save writes the cursor file up to the last flush (T1).
func (f *follower) save() error {
	if f.o.CursorFile == "" || f.flushed < 0 || f.flushed == f.saved {
		return nil
	}
	if err := writeCursor(f.o.CursorFile, f.flushed); err != nil {
		return err
	}
	f.saved = f.flushed
	return nil
}
