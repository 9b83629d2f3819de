package agent

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/client/render"
)

// Least widths of the columns.
const (
	numberColumns = 8
	timeColumns   = len("2026-01-02T15:04:05.000Z")
	typeColumns   = 20
)

const (
	// maxWord is how much a line shows of one text, in bytes.
	maxWord = 256
	// maxPayload is the longest payload that is read for a line; of a longer
	// one the size is shown.
	maxPayload = 64 << 10
)

// Line appends one line about an event to dst, without a line end: number, time,
// type, who sent it to whom, what it belongs to, and the first members of the
// payload. Location in o is not used: times are in UTC. It never fails, and the
// line is safe for a terminal (G3). Any goroutine that has e.
func Line(dst []byte, e *Event, o render.Options) []byte {
	p := render.NewPen(dst, o.Width, o.Color)
	put := func(style render.Style, text string) {
		if text != "" {
			p.Word(style, shorten(text, maxWord))
		}
	}
	column := func(style render.Style, text string, columns int) {
		start := p.Columns()
		if start > 0 {
			start++
		}
		if text == "" {
			text = "-"
		}
		put(style, text)
		p.Pad(start + columns)
	}
	x := e.Envelope
	number, at := "", ""
	if e.Delivery.Sequence > 0 {
		number = strconv.FormatInt(e.Delivery.Sequence, 10)
	}
	if !x.CreatedAt.IsZero() {
		at = timeText(x.CreatedAt)
	}
	column(render.Bold, number, numberColumns)
	column(render.Dim, at, timeColumns)
	column(typeStyle(x), string(x.Type), typeColumns)
	put(render.Cyan, string(x.Source))
	if len(x.Target) > 0 {
		put(render.Dim, "->")
		put(render.Cyan, string(x.Target))
	}
	for _, of := range []struct {
		name  string
		value []byte
	}{
		{"topic", x.Topic},
		{"session", x.SessionID},
		{"conversation", x.ConversationID},
		{"task", x.TaskID},
	} {
		if len(of.value) > 0 {
			put(render.Magenta, of.name+"="+string(of.value))
		}
	}
	if e.Delivery.Attempt > 1 {
		put(render.Yellow, "attempt="+strconv.Itoa(e.Delivery.Attempt))
	}
	put(render.Plain, summary(x.Payload))
	return p.End()
}

// typeStyle tells failures apart.
func typeStyle(x *aepws.Envelope) render.Style {
	for _, end := range []string{".failed", ".rejected", ".timed_out", ".error", ".dead_lettered"} {
		if bytes.HasSuffix(x.Type, []byte(end)) {
			return render.Red
		}
	}
	return render.Green
}

// summary tells the first members of a payload, or a bare value.
func summary(payload []byte) string {
	if len(payload) > maxPayload {
		return counted64(int64(len(payload)), "byte") + " of payload"
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return ""
	}
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any:
		return render.Event{Data: v}.Summary()
	}
	return string(payload)
}
