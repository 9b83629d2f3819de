package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// maxLineBytes is the longest line that is read. A longer one is refused here,
// whatever the relay takes.
const maxLineBytes = 16 << 20

// line is one line of the input that is not empty.
type line struct {
	number int64
	text   []byte // without white space around it; the taker's
	long   bool   // longer than maxLineBytes; text is nil
	err    error  // of the input, after the last line
}

// lineReader cuts an input into lines. One goroutine.
type lineReader struct {
	in     *bufio.Reader
	number int64
	most   int
}

func newLineReader(r io.Reader, most int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 64<<10), most: most}
}

// next returns the next line; io.EOF at the end.
func (r *lineReader) next() (l line, err error) {
	for {
		text, long, err := r.read()
		r.number++
		if text = bytes.TrimSpace(text); len(text) > 0 || long {
			l = line{number: r.number, text: text, long: long || len(text) > r.most}
			if l.long {
				l.text = nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return line{}, err // the line is cut
			}
			return l, nil
		}
		if err != nil {
			return line{}, err
		}
	}
}

// read reads up to the end of a line, of which it keeps most bytes.
func (r *lineReader) read() (text []byte, long bool, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		if len(text)+len(part) > r.most+1 {
			long, text = true, nil
		} else if !long {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, long, err
		}
	}
}

// filler completes the envelopes of lines. One goroutine.
type filler struct {
	source  string // for lines without one
	mode    aepws.Mode
	ids     *aepws.IDs
	scanner aepws.Scanner
	env     aepws.Envelope
}

// errControl is the fault of a line that would be obeyed, not published (B28).
var errControl = errors.New("events of the relay's own families (session, subscription, event, capabilities) cannot be published")

// fill returns the event of a line, with what it leaves out: version fields, id,
// source, time, and the mode, if there is one to give. acknowledged tells that
// the relay will answer it (B55). The text is the caller's or shares the line's.
// The error is for people, and says why the line cannot be published.
func (f *filler) fill(text []byte, now time.Time) (event []byte, id string, acknowledged bool, err error) {
	if err := f.scanner.Scan(text, &f.env); err != nil {
		return nil, "", false, err
	}
	if event = f.complete(text, now); len(event) != len(text) {
		if err := f.scanner.Scan(event, &f.env); err != nil {
			return nil, "", false, err
		}
	}
	e := &f.env
	switch {
	case e.Kind.Control():
		return nil, "", false, errControl
	case len(e.Faults) > 0:
		return nil, "", false, fmt.Errorf("%s: %s", e.Faults[0].Code, e.Faults[0].Text)
	}
	return event, string(e.ID), e.Mode != aepws.BestEffort, nil
}

// complete puts what is missing in front of the members that are there.
func (f *filler) complete(text []byte, now time.Time) []byte {
	var version, id, from, created, delivery bool
	count := 0
	for m := membersOf(text); m.next(); count++ {
		switch string(m.name) {
		case "aep_version", "spec_version":
			version = true
		case "id":
			id = true
		case "source":
			from = true
		case "created_at":
			created = true
		case "delivery":
			delivery = true
		}
	}
	add := append(make([]byte, 0, len(text)+256), '{')
	member := func(name string, value any) {
		if len(add) > 1 {
			add = append(add, ',')
		}
		raw, _ := json.Marshal(value) // of a string, or an object of one
		add = append(append(append(append(add, '"'), name...), '"', ':'), raw...)
	}
	if !version {
		member("aep_version", aepws.Version)
		member("spec_version", aepws.Version)
	}
	if !id {
		member("id", string(f.ids.AppendEvent(nil, now)))
	}
	if !from {
		member("source", f.source)
	}
	if !created {
		member("created_at", timeText(now))
	}
	if !delivery && f.mode != aepws.ModeAbsent {
		member("delivery", map[string]string{"mode": f.mode.String()})
	}
	if len(add) == 1 {
		return text
	}
	if count > 0 {
		add = append(add, ',')
	}
	return append(add, text[bytes.IndexByte(text, '{')+1:]...)
}
