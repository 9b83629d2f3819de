package repos

import (
	"errors"
	"math/bits"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
)

// maxTold is how many bad frames of each kind are told one by one. Of more,
// those are told whose count is a power of two.
const maxTold = 20

// takeBatch takes some messages, and flushes.
func (f *follower) takeBatch(b *batch) error {
	start := 0
	for _, m := range b.list {
		if f.cut != "" { // it was not the last of its connection, so not cut
			f.malformed(f.cut)
			f.cut = ""
		}
		text := b.data[start:m.end]
		start = m.end
		if m.faulty != "" {
			f.malformed(m.faulty)
			continue
		}
		if err := f.take(text); err != nil {
			return err
		}
	}
	if len(b.list) == 0 {
		return nil
	}
	return f.flush()
}

// take reads one message and hands it on.
func (f *follower) take(text []byte) error {
	err := f.scanner.Scan(text, &f.frame)
	frame := &f.frame
	switch {
	case err == nil, errors.Is(err, firehose.ErrUnknownType):
	case errors.Is(err, dagcbor.ErrTruncated):
		// The library gives a message out as whole if the connection is cut in
		// it. Which it was is seen when another one comes, or none.
		f.cut = reason(err)
		return nil
	default:
		f.malformed(reason(err))
		if frame.Seq > f.last && firehose.ReactionTo(err) == firehose.SkipFrame {
			f.last, f.begun = frame.Seq, true
			f.cursor, f.hasCursor = frame.Seq, true
		}
		return nil
	}
	switch frame.Kind() {
	case firehose.KindInfo:
		return f.info(text)
	case firehose.KindError:
		return f.failed(text)
	}
	if frame.Seq == 0 { // of an unknown type
		return f.hand(text)
	}
	if frame.Seq <= f.last {
		if f.stats.NotRising++; told(f.stats.NotRising) {
			f.sink.Notice(Notice{Event: NotRising, Seq: frame.Seq, Last: f.last})
		}
		return nil
	}
	if err := f.hand(text); err != nil {
		return err
	}
	f.last, f.begun = frame.Seq, true
	f.cursor, f.hasCursor = frame.Seq, true
	if frame.Kind() != firehose.KindUnknown {
		if f.stats.Frames++; f.stats.Frames == f.o.Count {
			return errDone
		}
	}
	return nil
}

func (f *follower) hand(text []byte) error {
	if err := f.sink.Frame(text, &f.frame); err != nil {
		return sinkError{err}
	}
	return nil
}

// info takes an #info (F20, F22).
func (f *follower) info(text []byte) error {
	name, message := string(f.frame.Name), clean(string(f.frame.Message))
	if name == firehose.OutdatedCursor {
		f.sink.Notice(Notice{Event: Outdated, Text: joined(name, message)})
		if !f.begun {
			f.last = 0 // a relay that lost its state may have begun anew (F26)
		}
	} else {
		f.sink.Notice(Notice{Event: Told, Text: joined(clean(name), message)})
	}
	return f.hand(text)
}

// failed takes an error frame, which is the end of the connection (F49).
func (f *follower) failed(text []byte) error {
	e := &streamError{name: string(f.frame.Name), message: string(f.frame.Message)}
	if err := f.hand(text); err != nil {
		return err
	}
	if e.name == firehose.FutureCursor {
		return &Refusal{Name: e.name, Text: joined(clean(e.message), "the cursor is of another stream, or of one that lost its state")}
	}
	return e
}

// reason is a scanner's error without its reaction, which is not followed here:
// a message that cannot be read says nothing about the next one.
func reason(err error) string {
	if scan, ok := errors.AsType[*firehose.ScanError](err); ok {
		err = scan.Err
	}
	return clean(err.Error())
}

func (f *follower) malformed(text string) {
	if f.stats.Malformed++; told(f.stats.Malformed) {
		f.sink.Notice(Notice{Event: Malformed, Text: text})
	}
}

// told reports whether the n-th bad frame of its kind is told.
func told(n int64) bool { return n <= maxTold || bits.OnesCount64(uint64(n)) == 1 }
