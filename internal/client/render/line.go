package render

import (
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
)

// Options say how a line looks. The zero value is plain text without a cut, in
// UTC.
type Options struct {
	// Color writes SGR sequences.
	Color bool
	// Width cuts a line to so many columns and ends it with an ellipsis then;
	// 0 for no cut.
	Width int
	// Location is where the time of day is told, nil for UTC.
	Location *time.Location
}

// Least widths of the columns before the summary. Longer names move the rest
// to the right and are not shortened: they are what the next command needs.
const (
	timeColumns    = len("15:04:05.000")
	sessionColumns = 12
	agentColumns   = 12
	typeColumns    = 20
)

// Line appends one line about an event to dst, without a line end: time of
// day, severity (D I N W E C), session, agent, type, run and step, and the
// summary. text is the event's JSON, borrowed until return; what is no JSON
// object is shown as it is. It never fails and the line is safe for a terminal
// (N1 to N4). Any goroutine.
func Line(dst, text []byte, o Options) []byte {
	p := NewPen(dst, o.Width, o.Color)
	e, ok := Parse(text)
	if !ok {
		p.Put(Alarm, "not an event:")
		p.Word(Plain, strings.TrimSpace(string(text)))
		return p.End()
	}
	p.Put(Dim, clock(e, o.Location))
	p.Pad(timeColumns)
	mark, style := Mark(e.Severity)
	p.Word(style, mark)
	column := func(style Style, text string, columns int) {
		start := p.Columns() + 1
		p.Word(style, dash(text))
		p.Pad(start + columns)
	}
	column(Cyan, e.Session, sessionColumns)
	column(Magenta, e.Agent, agentColumns)
	if style == Plain || style == Dim {
		style = Bold
	}
	summary := e.Summary()
	if e.Run+e.Step+summary == "" {
		p.Word(style, dash(e.Type)) // no spaces at the end of a line
		return p.End()
	}
	column(style, e.Type, typeColumns)
	p.Word(Dim, slash(e.Run, e.Step))
	p.Word(Plain, summary)
	return p.End()
}

// clock returns the time of day, or of a time that is none what stands there.
func clock(e Event, location *time.Location) string {
	if e.Time.IsZero() {
		text := []rune(e.TimeText[:min(len(e.TimeText), 4*timeColumns)])
		return dash(string(text[:min(len(text), timeColumns)]))
	}
	if location == nil {
		location = time.UTC
	}
	return e.Time.In(location).Format("15:04:05.000")
}

// Mark returns the letter and the style of a severity.
func Mark(s aep.Severity) (string, Style) {
	switch s {
	case aep.SeverityDebug:
		return "D", Dim
	case aep.SeverityNotice:
		return "N", Green
	case aep.SeverityWarning:
		return "W", Yellow
	case aep.SeverityError:
		return "E", Red
	case aep.SeverityCritical:
		return "C", Alarm
	}
	return "I", Plain
}
