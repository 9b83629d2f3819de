package sse

import (
	"bytes"
	"errors"
)

// Bounds of a Decoder whose fields are not set: well above the events that a
// relay takes in its default configuration.
const (
	DefaultMaxLineBytes  = 16 << 20
	DefaultMaxEventBytes = 32 << 20
)

// What Decoder.Feed refuses. The decoder stays failed.
var (
	ErrLineTooLong  = errors.New("sse: line is longer than the limit")
	ErrEventTooLong = errors.New("sse: event is longer than the limit")
)

// Kind says what an Item is.
type Kind uint8

// The kinds of items.
const (
	KindEvent   Kind = iota + 1 // a dispatched event
	KindComment                 // a comment line
	KindRetry                   // a new reconnection time
)

// Item is one thing that a stream told. Its slices are borrowed until the
// callback returns.
type Item struct {
	Kind Kind
	// Type is the event's type, "message" if the stream named none.
	Type []byte
	// Data is the event's data, its lines joined by LF; of a comment, the text
	// after the colon and one space.
	Data []byte
	// ID is the stream's last event id at this event, which is sticky; IDSet
	// tells if the event's own block set it.
	ID    []byte
	IDSet bool
	// RetryMillis is the time of a KindRetry in milliseconds.
	RetryMillis int64
}

// Decoder is the client's side of a stream: it interprets it as WHATWG HTML,
// section 9.2.6, says, except that bytes which are not UTF-8 are passed on as
// they are. Lines end with LF, CR or CRLF, and each is worked off as soon as
// its first end character is there. The zero value is ready.
type Decoder struct {
	// MaxLineBytes bounds a line without its end. MaxEventBytes bounds type,
	// id and data of one event together, one byte more a data line. Zero or
	// less means the default. Set them before the first Feed.
	MaxLineBytes  int
	MaxEventBytes int

	line    []byte // beginning of a line whose end is not there yet
	started bool   // the byte order mark, if any, has been passed
	afterCR bool   // the last line ended with CR: a LF belongs to it

	typ     []byte
	data    []byte // data lines, each followed by LF
	id      []byte // id field of the open block or of an earlier one
	lastID  []byte // id at the last dispatch
	idSet   bool
	failed  error
	deliver func(Item) error // only during Feed
}

// LastEventID returns what a client sends as Last-Event-ID when it reconnects,
// empty if it sends none. It is borrowed until the next Feed.
func (d *Decoder) LastEventID() []byte { return d.lastID }

// Feed consumes all of in, which is borrowed until return, and calls deliver
// for each item that became complete, in order. It stops with ErrLineTooLong,
// ErrEventTooLong or the error that deliver returned, and returns the same
// error forever. What the stream has begun but not finished is kept; at its end
// it is to be dropped with the decoder.
func (d *Decoder) Feed(in []byte, deliver func(Item) error) error {
	if d.failed == nil {
		d.deliver = deliver
		d.failed = d.feed(in)
		d.deliver = nil
	}
	return d.failed
}

func (d *Decoder) feed(in []byte) error {
	// The next LF is looked for once, not once a line: a stream whose lines
	// end with CR would cost the square of its length.
	lf := bytes.IndexByte(in, '\n')
	for start := 0; start < len(in); {
		if d.afterCR {
			d.afterCR = false
			if in[start] == '\n' {
				start++
				lf = nextLF(in, start, lf)
				continue
			}
		}
		end := len(in)
		if lf >= 0 {
			end = lf
		}
		if cr := bytes.IndexByte(in[start:end], '\r'); cr >= 0 {
			end = start + cr
		}
		if len(d.line)+end-start > d.maxLine() {
			return ErrLineTooLong
		}
		if end == len(in) {
			d.line = append(d.line, in[start:]...)
			return nil
		}
		d.afterCR = in[end] == '\r'
		if err := d.endLine(in[start:end]); err != nil {
			return err
		}
		start = end + 1
		lf = nextLF(in, start, lf)
	}
	return nil
}

// nextLF returns the first LF at or after start, given the one found last.
func nextLF(in []byte, start, lf int) int {
	if lf < 0 || lf >= start {
		return lf
	}
	if i := bytes.IndexByte(in[start:], '\n'); i >= 0 {
		return start + i
	}
	return -1
}

// endLine works off the line that ends with rest.
func (d *Decoder) endLine(rest []byte) error {
	line := rest
	if len(d.line) > 0 {
		d.line = append(d.line, rest...)
		line, d.line = d.line, d.line[:0]
	}
	if !d.started {
		d.started = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	switch {
	case len(line) == 0:
		return d.dispatch()
	case line[0] == ':':
		return d.deliver(Item{Kind: KindComment, Data: bytes.TrimPrefix(line[1:], []byte(" "))})
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	return d.field(name, bytes.TrimPrefix(value, []byte(" ")))
}

// field processes one field; unknown ones are ignored.
func (d *Decoder) field(name, value []byte) error {
	switch string(name) {
	case "retry":
		if millis, ok := parseDigits(value); ok {
			return d.deliver(Item{Kind: KindRetry, RetryMillis: millis})
		}
		return nil
	case "event", "data", "id":
		if len(d.typ)+len(d.data)+len(d.id)+len(value)+1 > d.maxEvent() {
			return ErrEventTooLong
		}
	}
	switch string(name) {
	case "event":
		d.typ = append(d.typ[:0], value...)
	case "data":
		d.data = append(append(d.data, value...), '\n')
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			d.id, d.idSet = append(d.id[:0], value...), true
		}
	}
	return nil
}

// dispatch ends the block: an event if it had data.
func (d *Decoder) dispatch() error {
	d.lastID = append(d.lastID[:0], d.id...)
	if len(d.typ) == 0 {
		d.typ = append(d.typ, "message"...)
	}
	item := Item{Kind: KindEvent, Type: d.typ, ID: d.lastID, IDSet: d.idSet}
	data := d.data
	d.typ, d.data, d.idSet = d.typ[:0], d.data[:0], false
	if len(data) == 0 {
		return nil
	}
	item.Data = data[:len(data)-1]
	return d.deliver(item)
}

func (d *Decoder) maxLine() int {
	if d.MaxLineBytes <= 0 {
		return DefaultMaxLineBytes
	}
	return d.MaxLineBytes
}

func (d *Decoder) maxEvent() int {
	if d.MaxEventBytes <= 0 {
		return DefaultMaxEventBytes
	}
	return d.MaxEventBytes
}
