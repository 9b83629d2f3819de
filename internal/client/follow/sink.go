package follow

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Sink takes what Follow has to tell. Its methods are called by one goroutine.
// An error of Event or Flush ends Follow with that error.
type Sink interface {
	// Event takes the JSON text of one event. It is borrowed until return.
	Event(text []byte) error
	// Notice takes what is no event, between the events in its place.
	Notice(n Notice)
	// Flush is called when nothing more is there at the moment, and before
	// positions are saved.
	Flush() error
}

// Kind says what a Notice is about.
type Kind uint8

// The kinds of notices.
const (
	// Unreachable: there is no connection yet. Text has the reason. It comes
	// again only when the reason changes.
	Unreachable Kind = iota + 1
	// Lost: a connection has ended. Text has the reason.
	Lost
	// Connected: there is a connection, after an Unreachable or Lost.
	Connected
	// Restarted: the relay is another than before, or was started again, and
	// has forgotten what it held (R55). Text has other words for it if a state
	// file leaves open which.
	Restarted
	// Gap: events of Session before the position Epoch, Seq are gone (R166,
	// R170, R423).
	Gap
	// Shed: the relay has left out Count events of severity debug or info,
	// since the reader was too slow (R420, R424a).
	Shed
	// Closing: the relay announces the end of the connection. Text has its
	// reason.
	Closing
	// Forgotten: there are more sessions than positions are kept for; the
	// positions of those longest without an event are dropped.
	Forgotten
	// Incomplete: the relay holds too much to be searched for sessions that
	// began while there was no connection. Some may be missing.
	Incomplete
	// Malformed: the relay has sent something that is no event.
	Malformed
	// Unsaved: the state file cannot be written at the moment. Text has the
	// reason.
	Unsaved
)

// Notice is one thing that a reader should know. Its texts are made fit for a
// terminal.
type Notice struct {
	Kind       Kind
	Text       string
	Session    string // of a Gap, as the relay spells it
	Epoch, Seq int64  // of a Gap
	Count      int64  // of a Shed
}

// String returns the notice in words that do not change.
func (n Notice) String() string {
	switch n.Kind {
	case Unreachable:
		return "no connection: " + n.Text + "; trying again"
	case Lost:
		return "connection lost: " + n.Text + "; connecting again"
	case Connected:
		return "connected"
	case Restarted:
		return cmp.Or(n.Text, "the relay was restarted") + ": events that it had and that were not read before are lost"
	case Gap:
		return fmt.Sprintf("gap in session %s: events before %d:%d are gone", strconv.Quote(n.Session), n.Epoch, n.Seq)
	case Shed:
		return fmt.Sprintf("the relay left out %d events of severity debug or info: reading is too slow", n.Count)
	case Closing:
		return "the relay ends the connection: " + n.Text
	case Forgotten:
		return fmt.Sprintf("more than %d sessions: positions of the oldest are forgotten, they may come again or be missing"+
			" after a reconnect", maxSessions)
	case Incomplete:
		return "the relay holds too much to look for new sessions: some that began without a connection may be missing"
	case Malformed:
		return "the relay sent something that is no event: " + n.Text
	case Unsaved:
		return "the state cannot be saved: " + n.Text
	}
	return "notice " + strconv.Itoa(int(n.Kind))
}

// maxClean bounds what is repeated of a text from elsewhere.
const maxClean = 300

// clean returns a text from elsewhere on one line without anything that a
// terminal would act on.
func clean(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxClean {
		text = strings.ToValidUTF8(text[:maxClean], "") + "..."
	}
	quoted := strconv.Quote(strings.Join(strings.Fields(text), " "))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
