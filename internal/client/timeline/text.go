package timeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/internal/client/render"
)

// TextOptions say how the text of a timeline looks.
type TextOptions struct {
	render.Options
	// All tells each event. Otherwise, of more than fewAlike events of one type
	// in a row, the first and the last are told and the rest counted.
	All bool
}

const (
	// fewAlike is how many events of one type in a row are told.
	fewAlike = 4
	// timeColumns is the width of the time of day.
	timeColumns = len("15:04:05.000")
	// dateTime is how the ends of a session are told.
	dateTime = "2006-01-02 15:04:05.000"
)

// AppendText appends the timeline as lines of text, safe for a terminal.
func (t *Timeline) AppendText(dst []byte, o TextOptions) []byte {
	if o.Location == nil {
		o.Location = time.UTC
	}
	w := &writer{dst: dst, o: o, date: t.Start.In(o.Location).Format(time.DateOnly)}
	w.head(t)
	w.nodes(t.Children, 0)
	w.foot(t)
	return w.dst
}

// writer writes the lines of one timeline.
type writer struct {
	dst  []byte
	o    TextOptions
	date string // that the last time belongs to
}

// line writes a line with a pen.
func (w *writer) line(draw func(p *render.Pen)) {
	p := render.NewPen(w.dst, w.o.Width, w.o.Color)
	draw(p)
	w.dst = append(p.End(), '\n')
}

func (w *writer) head(t *Timeline) {
	w.line(func(p *render.Pen) {
		p.Put(render.Plain, "session")
		p.Word(render.Cyan, t.Session)
		p.Word(render.Plain, "of "+strings.Join(t.Agents, ", "))
	})
	w.line(func(p *render.Pen) {
		words := []string{plural(t.Events, "event")}
		if !t.Start.IsZero() {
			words = append(words, t.Start.In(w.o.Location).Format(dateTime)+" to "+
				t.End.In(w.o.Location).Format(dateTime), render.FormatMillis(t.End.Sub(t.Start).Milliseconds()))
		}
		if t.Ended {
			words = append(words, "ended")
		} else {
			words = append(words, "still open")
		}
		p.Put(render.Plain, strings.Join(words, ", "))
	})
}

// foot writes what there was in all, and what is left out.
func (w *writer) foot(t *Timeline) {
	var words []string
	for _, k := range []struct {
		kind Kind
		noun string
	}{
		{KindRun, "run"},
		{KindStep, "step"},
		{KindTool, "tool call"},
		{KindAttention, "question"},
		{KindDelegation, "delegation"},
		{KindCommand, "command"},
		{KindRestart, "restart"},
		{KindGap, "gap"},
	} {
		if text := total(t.Totals[k.kind], k.noun); text != "" {
			words = append(words, text)
		}
	}
	if t.Errors > 0 {
		words = append(words, plural(t.Errors, "error"))
	}
	if t.Repeated > 0 {
		words = append(words, plural(t.Repeated, "repetition")+" passed over")
	}
	if t.LeftOut > 0 {
		words = append(words, plural(t.LeftOut, "event")+" left out, there are too many")
	}
	if len(words) > 0 {
		w.line(func(p *render.Pen) { p.Put(render.Plain, strings.Join(words, ", ")) })
	}
}

// total tells of one kind: 3 runs (1 failed, 2 finished).
func total(byStatus map[Status]int, noun string) string {
	var count int
	var parts []string
	for status, n := range byStatus {
		count += n
		if status != StatusNone {
			parts = append(parts, strconv.Itoa(n)+" "+statusWords(status))
		}
	}
	if count == 0 {
		return ""
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return plural(count, noun)
	}
	return fmt.Sprintf("%s (%s)", plural(count, noun), strings.Join(parts, ", "))
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// nodes writes the nodes of one parent.
func (w *writer) nodes(nodes []*Node, depth int) {
	for at := 0; at < len(nodes); {
		n := nodes[at]
		alike := 1
		for at+alike < len(nodes) && !w.o.All && n.alike(nodes[at+alike]) {
			alike++
		}
		if alike <= fewAlike {
			w.node(n, depth)
			at++
			continue
		}
		w.node(n, depth)
		w.line(func(p *render.Pen) {
			p.Pad(timeColumns + 2*depth)
			p.Word(render.Dim, fmt.Sprintf("… %d more %s", alike-2, n.Name))
		})
		w.node(nodes[at+alike-1], depth)
		at += alike
	}
}

// alike tells whether two events may be told together.
func (n *Node) alike(m *Node) bool {
	return n.Kind == KindEvent && m.Kind == KindEvent && n.Name == m.Name && n.Severity == m.Severity &&
		len(n.Children)+len(m.Children) == 0 && (n.Severity == "" || n.Severity == "debug")
}

// node writes a node and what is in it.
func (w *writer) node(n *Node, depth int) {
	if n.Kind == KindGap || n.Kind == KindRestart {
		w.line(func(p *render.Pen) { w.marker(p, n, depth) })
		return
	}
	w.day(n)
	w.line(func(p *render.Pen) {
		if n.Start.IsZero() {
			p.Put(render.Dim, "-")
		} else {
			p.Put(render.Dim, n.Start.In(w.o.Location).Format("15:04:05.000"))
		}
		p.Pad(timeColumns + 2*depth)
		if n.Kind == KindEvent {
			eventLine(p, n)
		} else {
			thingLine(p, n)
		}
	})
	w.nodes(n.Children, depth+1)
}

// day writes a line when the date changes.
func (w *writer) day(n *Node) {
	if n.Start.IsZero() {
		return
	}
	if date := n.Start.In(w.o.Location).Format(time.DateOnly); date != w.date {
		w.date = date
		w.line(func(p *render.Pen) { p.Put(render.Dim, "-- "+date+" --") })
	}
}

func (w *writer) marker(p *render.Pen, n *Node, depth int) {
	p.Pad(timeColumns + 2*depth)
	if n.Kind == KindRestart {
		p.Word(render.Magenta, "--- restart: epoch "+strconv.FormatInt(n.Epoch, 10)+" ---")
		return
	}
	said := ""
	if n.Announced && n.Missing > 0 {
		said = ", as the relay has said"
	}
	p.Word(render.Yellow, "--- gap: "+n.Name+said+" ---")
}

func eventLine(p *render.Pen, n *Node) {
	severity, _ := aep.ParseSeverity(n.Severity)
	_, style := render.Mark(severity)
	if n.Severity == "" {
		style = render.Plain
	}
	p.Word(style, n.Name)
	p.Word(render.Plain, n.Detail)
}

// thingLine writes: kind, name, status and duration, outcome, detail. The
// outcome comes first, since on a narrow terminal it is what must not be cut.
func thingLine(p *render.Pen, n *Node) {
	p.Word(render.Plain, string(n.Kind))
	p.Word(render.Bold, n.Name)
	if words := statusWords(n.Status); words != "" {
		p.Word(statusStyle(n.Status), words)
	}
	if n.DurationMillis != nil {
		p.Word(render.Plain, render.FormatMillis(*n.DurationMillis))
	}
	if n.StartMissing {
		p.Word(render.Yellow, "(start not seen)")
	}
	if n.Outcome != "" {
		p.Word(render.Dim, "->")
		p.Word(render.Plain, n.Outcome)
	}
	if n.Detail != "" {
		p.Word(render.Dim, "|")
		p.Word(render.Plain, n.Detail)
	}
	if n.Kind == KindAttention && n.Status == StatusOpen {
		p.Word(render.Dim, "id="+n.ID) // what an answer has to name
	}
}

// statusWords returns how a status is told.
func statusWords(s Status) string {
	switch s {
	case StatusOpen:
		return "still open"
	case StatusUnended:
		return "no end seen"
	}
	return string(s)
}

func statusStyle(s Status) render.Style {
	switch s {
	case StatusFinished, StatusAnswered, StatusResolved, StatusAccepted:
		return render.Green
	case StatusFailed, StatusRejected:
		return render.Red
	case StatusOpen:
		return render.Cyan
	}
	return render.Yellow
}
