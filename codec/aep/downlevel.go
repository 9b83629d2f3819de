package aep

import (
	"bytes"
	"strconv"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// Downlevel appends the event in text at level to (LevelNone or LevelMetadata,
// or its own level if that is lower) to dst. Unlike AppendDownlevel it admits
// the event first, and returns the error of Scan or Event if it is not valid.
// Text is borrowed until return. Any goroutine.
func Downlevel(dst, text []byte, to Level) ([]byte, error) {
	var s Scanner
	if err := s.Scan(text); err != nil {
		return dst, err
	}
	e, err := s.Event()
	if err != nil {
		return dst, err
	}
	return e.AppendDownlevel(dst, to), nil
}

// AppendDownlevel appends a copy of the event at level to, which is LevelNone
// or LevelMetadata, to dst: `capture` is set, `data` is removed (R243, R245) or
// pruned (R246 to R251), and all other members keep the text of their values
// (R196). The level is never raised (R252). It never fails: payloads of an odd
// shape lose members (R253). Labels that are put in may make the copy longer
// than the original, by at most 20 bytes an element and each id once more. Any
// goroutine; dst is the caller's.
func (e *Event) AppendDownlevel(dst []byte, to Level) []byte {
	to = min(to, e.Capture(), LevelMetadata)
	d := downleveler{event: e}
	if to == LevelMetadata {
		d.table = captureFields[e.Type()]
	}
	return d.appendEvent(dst, to)
}

// downleveler holds what the walk over one event needs. Its walk goes no
// deeper than the longest path of a table; what lies below is copied or
// skipped without recursion.
type downleveler struct {
	event      *Event
	table      *fieldTable // nil if data is to be removed whole
	data       []byte      // raw payload
	promptDone bool
}

func (d *downleveler) appendEvent(dst []byte, to Level) []byte {
	dst = append(dst, '{')
	start := len(dst)
	captureDone := false
	var kept piece
	text := d.event.Text()
	for m := membersOf(text); m.next(); {
		isCapture := rawEqual(m.name, "capture")
		if !isCapture && !rawEqual(m.name, "data") {
			kept.keep(&m)
			continue
		}
		dst = kept.flush(dst, text, start)
		switch {
		case isCapture:
			dst = appendCapture(dst, start, to)
			captureDone = true
		case d.table != nil:
			dst = appendName(dst, start, m.name)
			d.data = m.value
			dst = d.appendObject(dst, m.value, d.table.root(), 0)
		}
	}
	dst = kept.flush(dst, text, start)
	if !captureDone {
		dst = appendCapture(dst, start, to)
	}
	return append(dst, '}')
}

func appendCapture(dst []byte, start int, to Level) []byte {
	dst = appendName(dst, start, []byte(`"capture"`))
	dst = append(dst, '"')
	dst = append(dst, to.String()...)
	return append(dst, '"')
}

// appendName appends a raw name and a colon, after a comma unless it is the
// first member; start is where the members of the object begin.
func appendName(dst []byte, start int, name []byte) []byte {
	if len(dst) > start {
		dst = append(dst, ',')
	}
	dst = append(dst, name...)
	return append(dst, ':')
}

// appendObject appends a raw object pruned by the rules of r; index is its
// 1-based index if it is an element of an array.
func (d *downleveler) appendObject(dst, raw []byte, r fieldRange, index int) []byte {
	dst = append(dst, '{')
	start := len(dst)
	// A label is set once, present or not (R250).
	label := r.length > 0 && r.step(".", "label").rule() == fieldLabel
	var scratch [64]byte
	var kept piece
	for m := membersOf(raw); m.next(); {
		name := inner(m.name)
		if bytes.IndexByte(name, '\\') >= 0 {
			name = jsontext.AppendUnescaped(scratch[:0], name)
		}
		child := r.member(viewString(name))
		if child.plain() {
			kept.keep(&m)
			continue
		}
		dst = kept.flush(dst, raw, start)
		switch {
		case label && child.rule() == fieldLabel && string(name) == "label":
			dst = appendLabel(appendName(dst, start, m.name), raw, index)
			label = false
		case d.keeps(child, m.value):
			dst = appendName(dst, start, m.name)
			dst = d.appendValue(dst, m.value, child)
		}
	}
	dst = kept.flush(dst, raw, start)
	if label {
		dst = appendLabel(appendName(dst, start, []byte(`"label"`)), raw, index)
	}
	return append(dst, '}')
}

// keeps reports whether a member or element stays in: its level allows it, and
// its shape is one under which the table can find what must go (R246, R248).
func (d *downleveler) keeps(r fieldRange, value []byte) bool {
	switch r.rule() {
	case fieldDrop, fieldLabel:
		// A label that is left here is a second one, or only joins to the path.
		return false
	case fieldPrompt:
		// A second prompt is dropped: each would cost the whole sentence.
		return kindOf(value) == '"' && !d.promptDone
	case fieldNumbers:
		return kindOf(value) == '{'
	}
	object, array := r.below()
	return (!object || kindOf(value) == '{') && (!array || kindOf(value) == '[')
}

func (d *downleveler) appendValue(dst, value []byte, r fieldRange) []byte {
	switch r.rule() {
	case fieldPrompt:
		d.promptDone = true
		return d.appendPrompt(dst)
	case fieldNumbers:
		return appendNumbers(dst, value)
	}
	switch object, array := r.below(); {
	case object:
		return d.appendObject(dst, value, r, 1)
	case array:
		return d.appendArray(dst, value, r.element())
	}
	return append(dst, value...)
}

// appendArray appends a raw array; r is the range of its elements.
func (d *downleveler) appendArray(dst, raw []byte, r fieldRange) []byte {
	dst = append(dst, '[')
	index := 0 // counts what stays in, so that a second pass finds the same
	for e := elementsOf(raw); e.next(); {
		if !d.keeps(r, e.value) {
			continue
		}
		if index > 0 {
			dst = append(dst, ',')
		}
		index++
		if object, _ := r.below(); object {
			dst = d.appendObject(dst, e.value, r, index)
		} else {
			dst = d.appendValue(dst, e.value, r)
		}
	}
	return append(dst, ']')
}

// appendPrompt appends the sentence of R249 from raw and decoded parts.
func (d *downleveler) appendPrompt(dst []byte) []byte {
	dst = appendQuoted(dst, d.event.Agent())
	dst = append(dst[:len(dst)-1], " requests "...)
	if kind := memberOf(d.data, "kind"); kindOf(kind) == '"' {
		dst = append(dst, inner(kind)...)
	} else {
		dst = append(dst, "attention"...)
	}
	if subject, ok := d.event.Subject(); ok {
		dst = append(dst, ": "...)
		quote := len(dst)
		dst = appendQuoted(dst, subject)
		dst = append(dst[:quote], dst[quote+1:]...)
		return dst
	}
	return append(dst, '"')
}

// appendLabel appends the label of an element: its id if that is a string or a
// number, as spelled, else its 1-based index (R250).
func appendLabel(dst, element []byte, index int) []byte {
	id := memberOf(element, "id")
	switch {
	case kindOf(id) == '"':
		return append(dst, id...)
	case isNumber(id):
		dst = append(append(dst, '"'), id...)
	default:
		dst = strconv.AppendInt(append(dst, '"'), int64(index), 10)
	}
	return append(dst, '"')
}

// appendNumbers appends the members of a raw object whose value is a number or
// a boolean (R251).
func appendNumbers(dst, raw []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for m := membersOf(raw); m.next(); {
		k := kindOf(m.value)
		if k == 't' || k == 'f' || isNumber(m.value) {
			dst = appendName(dst, start, m.name)
			dst = append(dst, m.value...)
		}
	}
	return append(dst, '}')
}
