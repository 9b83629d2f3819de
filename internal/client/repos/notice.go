package repos

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/client/render"
)

// Sink takes what Follow has to tell. Its methods are called by one goroutine.
// An error of Frame or Flush ends Follow with that error.
type Sink interface {
	// Frame takes one message and what was read of it: of a kind that is known,
	// #info and errors included, or of an unknown type, which has a Type alone
	// and perhaps a Seq. Both are borrowed until return.
	Frame(message []byte, f *firehose.Frame) error
	// Notice takes what is no frame, between the frames in its place.
	Notice(n Notice)
	// Flush is called when nothing more is there at the moment, and before the
	// cursor is saved.
	Flush() error
}

// Event says what a Notice is about.
type Event uint8

// The events that a Notice tells of.
const (
	// Unreachable: there is no connection yet. It comes again only when the
	// reason changes.
	Unreachable Event = iota + 1
	// Lost: a connection has ended.
	Lost
	// Connected: there is a connection, after an Unreachable or Lost. Seq is the
	// cursor that was asked for, -1 for none.
	Connected
	// Outdated: frames behind the cursor are not held any more (F20, F22).
	Outdated
	// Told: an #info of another name.
	Told
	// Malformed: a message cannot be read, and was left out (F58, F59).
	Malformed
	// NotRising: the number Seq is not above Last, the frame was left out (F60).
	NotRising
	// Unsaved: the cursor file cannot be written at the moment.
	Unsaved
)

// Notice is one thing that a reader should know. Text is fit for a terminal.
type Notice struct {
	Event     Event
	Text      string
	Seq, Last int64
}

// String returns the notice in words that do not change.
func (n Notice) String() string {
	switch n.Event {
	case Unreachable:
		return "no connection: " + n.Text + "; trying again"
	case Lost:
		return "connection lost: " + n.Text + "; connecting again"
	case Connected:
		if n.Seq < 0 {
			return "connected; there was no number to resume from, so frames may be missing"
		}
		return "connected, after number " + strconv.FormatInt(n.Seq, 10)
	case Outdated:
		return "frames after the cursor are gone: " + n.Text
	case Told:
		return "the relay says " + n.Text
	case Malformed:
		return "left out a message that cannot be read: " + n.Text
	case NotRising:
		return fmt.Sprintf("left out number %d, which came after %d", n.Seq, n.Last)
	case Unsaved:
		return "the cursor cannot be saved: " + n.Text
	}
	return "notice " + strconv.Itoa(int(n.Event))
}

// Stats counts what Follow did.
type Stats struct {
	Frames    int64 // with a number, of a known kind, handed on
	Malformed int64 // messages that could not be read
	NotRising int64 // frames whose number did not rise
	Connected int64 // connections that were made
}

// maxClean bounds what is repeated of a text from elsewhere, in bytes.
const maxClean = 300

// clean returns a text from elsewhere on one line, shortened and without
// anything that a terminal would act on (T3).
func clean(text string) string { return render.Escape(shorten(strings.TrimSpace(text), maxClean)) }

// shorten cuts a text between two characters and marks the cut.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}
