package agent

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// Event is one event as the relay delivered it.
type Event struct {
	// Text is the whole message, Envelope what a Scanner has read of it. Both
	// are borrowed until return.
	Text     []byte
	Envelope *aepws.Envelope
	// Delivery is zero for a dead letter, which has none (B58).
	Delivery Delivery
}

// Sink takes what Follow has to tell. Its methods are called by one goroutine.
// An error of Event or Flush ends Follow with that error.
type Sink interface {
	// Event takes one event, borrowed until return.
	Event(e *Event) error
	// Notice takes what is no event, between the events in its place.
	Notice(n Notice)
	// Flush is called when nothing more is there at the moment, and before
	// events are acknowledged and the cursor is saved.
	Flush() error
}

// Kind says what a Notice is about.
type Kind uint8

// The kinds of notices.
const (
	// Unreachable: there is no session yet. It comes again only when the reason
	// changes.
	Unreachable Kind = iota + 1
	// Lost: a connection has ended.
	Lost
	// Connected: there is a session, after an Unreachable or Lost. Text says
	// from where it goes on, if that matters.
	Connected
	// Again: Count lines without an acknowledgement are sent again (B56).
	Again
	// Unsure: Count lines of mode best_effort were sent over a connection that
	// was lost.
	Unsure
	// Gap: events behind the cursor are missing, Text says why (B51).
	Gap
	// Replayed: a replay of Count events is over, what follows is live (B52).
	Replayed
	// Dropped: the relay left out Count events (B60).
	Dropped
	// Redelivered: the relay sends an event again (B58).
	Redelivered
	// NotRising: an event that was there already was left out.
	NotRising
	// Expired: the subscription has ended, and is made anew (B54, B60).
	Expired
	// Told: something else that the relay says.
	Told
	// Malformed: a message cannot be read, and was left out.
	Malformed
	// Unsaved: the cursor file cannot be written at the moment.
	Unsaved
)

// Notice is one thing that a reader should know. Text is fit for a terminal.
type Notice struct {
	Kind  Kind
	Text  string
	Count int64
}

// String returns the notice in words that do not change.
func (n Notice) String() string {
	switch n.Kind {
	case Unreachable:
		return "no connection: " + n.Text + "; trying again"
	case Lost:
		return "connection lost: " + n.Text + "; connecting again"
	case Connected:
		if n.Text == "" {
			return "connected"
		}
		return "connected, " + n.Text
	case Again:
		return counted64(n.Count, "line") + " not acknowledged, sent again"
	case Unsure:
		return counted64(n.Count, "line") + " of mode best_effort may not have arrived"
	case Gap:
		return "events after the cursor are missing: " + n.Text
	case Replayed:
		return counted64(n.Count, "event") + " replayed, live from here"
	case Dropped:
		return "the relay left out " + counted64(n.Count, "event") + ": too slow for it"
	case Redelivered:
		return "the relay sends again: " + n.Text
	case NotRising:
		return "left out an event that was there already: " + n.Text
	case Expired:
		return "the subscription has expired: " + n.Text + "; subscribing again"
	case Told:
		return "the relay says " + n.Text
	case Malformed:
		return "left out a message that cannot be read: " + n.Text
	case Unsaved:
		return "the cursor cannot be saved: " + n.Text
	}
	return "notice " + strconv.Itoa(int(n.Kind))
}

func counted64(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Stats counts what Follow did.
type Stats struct {
	Events      int64 // handed on
	Malformed   int64 // messages that could not be read
	NotRising   int64 // events that were there already, and were left out
	Redelivered int64 // event.redelivered of the relay
	Dropped     int64 // events that the relay says it left out (B60)
	Gaps        int64 // replays that were not complete
	Connected   int64 // sessions that were opened
}

// maxTold is how many things of one kind are told one by one. Of more, those
// are told whose count is a power of two.
const maxTold = 20

// told reports whether the n-th thing of its kind is told.
func told(n int64) bool { return n <= maxTold || bits.OnesCount64(uint64(n)) == 1 }
