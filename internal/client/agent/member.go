package agent

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/jsontext"
)

// members walks the members of a JSON object. The text is valid: a Scanner has
// read it. Names are as spelled, without quotes; a name that is written with
// escapes is none that is looked for here, since no relay writes it so.
type members struct {
	text        []byte
	at          int
	name, value []byte // borrowed from the text
}

// membersOf returns a walk over the object that a valid text is.
func membersOf(text []byte) members {
	return members{text: text, at: bytes.IndexByte(text, '{') + 1}
}

// next goes to the next member.
func (m *members) next() bool {
	for m.at < len(m.text) && m.text[m.at] != '"' {
		if m.text[m.at] == '}' {
			return false
		}
		m.at++ // a comma, or white space
	}
	if m.at >= len(m.text) {
		return false
	}
	end := jsontext.StringEnd(m.text, m.at)
	m.name = m.text[m.at+1 : end-1]
	start := end
	for m.text[start] == ':' || m.text[start] <= ' ' {
		start++
	}
	m.at = valueEnd(m.text, start)
	m.value = m.text[start:m.at]
	return true
}

// valueEnd returns the offset after the valid value that begins at i.
func valueEnd(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = jsontext.StringEnd(text, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + min(depth+1, 1) // of a scalar, the object's own end
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// Delivery is what the relay says of one delivery (B57, B58, B60).
type Delivery struct {
	Mode           aepws.Mode
	Sequence       int64  // the event's number
	Cursor         string // of the event
	SubscriptionID string
	Attempt        int   // from 2 on, if it was sent before
	Dropped        int64 // events that were skipped just before
}

// deliveryOf reads the delivery of an event that a Scanner has read into e.
func deliveryOf(text []byte, e *aepws.Envelope) (d Delivery, err error) {
	var raw []byte
	for m := membersOf(text); m.next(); {
		if string(m.name) == "delivery" {
			raw = m.value
		}
	}
	if raw == nil {
		return d, fmt.Errorf("the event has no delivery")
	}
	var in struct {
		Sequence       int64  `json:"sequence"`
		Cursor         string `json:"cursor"`
		SubscriptionID string `json:"subscription_id"`
		Attempt        int    `json:"attempt"`
		Dropped        int64  `json:"dropped"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return d, fmt.Errorf("delivery: %w", err)
	}
	_, sequence, err := aepws.ParseCursor([]byte(in.Cursor))
	switch {
	case err != nil:
		return d, fmt.Errorf("delivery.cursor: %w", err)
	case in.Sequence != sequence || sequence < 1:
		return d, fmt.Errorf("delivery.sequence is not the number in delivery.cursor")
	}
	return Delivery{
		Mode: aepws.Effective(e.Mode, e.Mode), Sequence: sequence, Cursor: in.Cursor,
		SubscriptionID: in.SubscriptionID, Attempt: in.Attempt, Dropped: max(in.Dropped, 0),
	}, nil
}
