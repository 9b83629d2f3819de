package device

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// maxPageEvents bounds the envelopes of a page, far above any limit that is
	// asked for. The store takes no more.
	maxPageEvents = devicestore.MaxPageEvents
	// maxPageDepth is the nesting that a page may have.
	maxPageDepth = 72
	// maxCursorChars bounds a cursor (S32 has up to 19 digits).
	maxCursorChars = 256
)

// page is one answer to a pull. The envelopes are parts of its body, as sent:
// that they are JSON objects is for who opens them to find out.
type page struct {
	events [][]byte
	next   string
}

// splitPage splits the body of a page, which the page then owns. Only the
// outer object is checked: it needs events and nextCursor once each. Cost is
// linear in the body. The error is a *fault, of a cursor or of the page.
func splitPage(body []byte) (page, error) {
	s := splitter{b: body}
	p, err := s.page()
	if err != nil {
		return page{}, err
	}
	return p, nil
}

// splitter walks over JSON text. It finds where values end and leaves most of
// what is inside them unchecked.
type splitter struct {
	b []byte
	i int
}

func (s *splitter) fail(what string) error {
	return &fault{reasonBadPage, fmt.Sprintf("%s at byte %d", what, s.i)}
}

// page reads the whole body.
func (s *splitter) page() (p page, err error) {
	var haveEvents, haveNext bool
	if !s.take('{') {
		return p, s.fail("no object")
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return p, s.fail("no comma")
		}
		name, err := s.value()
		if err != nil {
			return p, err
		}
		if name[0] != '"' || !s.take(':') {
			return p, s.fail("no member")
		}
		switch string(name) {
		case `"events"`:
			if haveEvents {
				return p, s.fail("events a second time")
			}
			haveEvents = true
			if p.events, err = s.array(); err != nil {
				return p, err
			}
		case `"nextCursor"`:
			if haveNext {
				return p, s.fail("nextCursor a second time")
			}
			haveNext = true
			text, err := s.value()
			if err != nil {
				return p, err
			}
			if p.next, err = readCursor(text); err != nil {
				return p, err
			}
		default:
			if _, err := s.value(); err != nil {
				return p, err
			}
		}
	}
	s.blank()
	if s.i != len(s.b) || !haveEvents || !haveNext {
		return p, s.fail("no page of events and nextCursor")
	}
	return p, nil
}

// readCursor reads a cursor's JSON string: 1 to 256 visible ASCII characters.
func readCursor(text []byte) (string, error) {
	var cursor string
	if len(text) > 6*maxCursorChars+2 || json.Unmarshal(text, &cursor) != nil {
		return "", &fault{reasonBadCursor, "it is no string of 1 to 256 characters"}
	}
	if len(cursor) == 0 || len(cursor) > maxCursorChars {
		return "", &fault{reasonBadCursor, "it is no string of 1 to 256 characters"}
	}
	for i := range len(cursor) {
		if cursor[i] <= ' ' || cursor[i] > '~' {
			return "", &fault{reasonBadCursor, "it has a character that is not visible ASCII"}
		}
	}
	return cursor, nil
}

// array reads an array and returns its values.
func (s *splitter) array() (values [][]byte, err error) {
	if !s.take('[') {
		return nil, s.fail("no array")
	}
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') {
			return nil, s.fail("no comma")
		}
		v, err := s.value()
		if err != nil {
			return nil, err
		}
		if len(values) == maxPageEvents {
			return nil, s.fail("too many events")
		}
		values = append(values, v)
	}
	return values, nil
}

// blank skips white space.
func (s *splitter) blank() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\r' || s.b[s.i] == '\t') {
		s.i++
	}
}

// take goes over white space and c, if that comes next.
func (s *splitter) take(c byte) bool {
	s.blank()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// value goes over one value and returns it, which is never empty.
func (s *splitter) value() ([]byte, error) {
	s.blank()
	start, depth := s.i, 0
	for s.i < len(s.b) && (depth > 0 || !s.ends()) {
		switch s.b[s.i] {
		case '"':
			if !s.text() {
				return nil, s.fail("a string without an end")
			}
			if depth == 0 {
				return s.b[start:s.i], nil
			}
			continue
		case '{', '[':
			if depth++; depth > maxPageDepth {
				return nil, s.fail("nested too deep")
			}
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return s.b[start:s.i], nil
			}
		}
		s.i++
	}
	if depth != 0 || s.i == start {
		return nil, s.fail("no value")
	}
	return s.b[start:s.i], nil
}

// ends tells whether a number or a word outside of all brackets ends here.
func (s *splitter) ends() bool {
	switch s.b[s.i] {
	case ',', ':', ']', '}', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// text goes over the string at s.i.
func (s *splitter) text() bool {
	for s.i++; s.i < len(s.b); {
		quote := bytes.IndexByte(s.b[s.i:], '"')
		if quote < 0 {
			return false
		}
		// A quote after an odd number of backslashes belongs to the string.
		end, slashes := s.i+quote, 0
		for end-slashes > s.i && s.b[end-slashes-1] == '\\' {
			slashes++
		}
		s.i = end + 1
		if slashes%2 == 0 {
			return true
		}
	}
	return false
}
