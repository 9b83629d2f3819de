package aep

import "fmt"

const (
	// maxDepth is the deepest nesting of objects and arrays (R80).
	maxDepth = 1000
	// maxTextBytes keeps every offset, decoded copies included, in 32 bits.
	maxTextBytes = 1 << 30
	// Scratch beyond these sizes is given back at the next Scan, so that one
	// huge text does not cost memory for the life of a loop.
	keepMembers = 1024
	keepBytes   = 64 << 10
)

// Scanner checks JSON texts and makes events of them. It holds reusable
// scratch: one Scanner per loop, never two goroutines at once. The zero
// Scanner is ready.
type Scanner struct {
	// The scanned text and where its one value lies; set by Scan.
	text       []byte
	start, end int
	object     bool
	members    []member

	// Where and why the scan failed.
	failOffset int
	failReason string

	// One bit for each open container, set for an object.
	open [maxDepth/64 + 1]uint64

	// Scratch of Type, and of Event (see envelope.go).
	decoded []byte
	draft   draft
}

// member is one top-level member: spans in Scanner.text. The name's span lies
// inside its quotes, the value's is its whole raw text.
type member struct {
	name, nameEnd   uint32
	value, valueEnd uint32
	nameEscaped     bool
	valueEscaped    bool // strings only
}

// SyntaxError says that a text is not exactly one JSON text in UTF-8 of at
// most 1,000 levels. On the wire it is invalid-json or bad-json (R70 checks 5
// and 7, R80).
type SyntaxError struct {
	Offset int    // in bytes from the start of the text
	Reason string // free text, without any of the input
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at offset %d", e.Reason, e.Offset)
}

// Scan checks that text is exactly one JSON text (RFC 8259), white space
// around it allowed, in valid UTF-8, nested at most 1,000 levels deep. It goes
// over the text once, looks inside every value, and does not allocate once
// its scratch has grown. When the value is an object its members are recorded
// for the methods below. The error is a *SyntaxError.
//
// The text is borrowed until the next Scan, and is never modified. Lone
// surrogate escapes and repeated member names are legal here.
func (s *Scanner) Scan(text []byte) error {
	s.reset()
	i := -1
	if len(text) > maxTextBytes {
		s.fail(0, "text is too long")
	} else {
		s.text = text
		i = s.scanText()
	}
	if i < 0 {
		s.members, s.object, s.text = s.members[:0], false, nil
		return &SyntaxError{Offset: s.failOffset, Reason: s.failReason}
	}
	return nil
}

func (s *Scanner) reset() {
	s.text, s.start, s.end, s.object = nil, 0, 0, false
	if cap(s.members) > keepMembers {
		s.members = nil
	}
	s.members = s.members[:0]
	if cap(s.decoded) > keepBytes {
		s.decoded = nil
	}
	s.draft.shrink()
}

// fail records the first fault and returns -1, which all steps pass on.
func (s *Scanner) fail(offset int, reason string) int {
	s.failOffset, s.failReason = offset, reason
	return -1
}

// unexpected fails at i, with another reason at the end of the text.
func (s *Scanner) unexpected(i int, reason string) int {
	if i >= len(s.text) {
		reason = "unexpected end of text"
	}
	return s.fail(i, reason)
}

// scanText scans the whole text.
func (s *Scanner) scanText() int {
	b := s.text
	i := skipSpace(b, 0)
	s.start = i
	if i == len(b) {
		return s.fail(i, "empty text")
	}
	if b[i] == '{' {
		s.object = true
		i = s.scanMembers(i)
	} else {
		i = s.scanValue(i, 0)
	}
	if i < 0 {
		return -1
	}
	s.end = i
	if i = skipSpace(b, i); i < len(b) {
		return s.fail(i, "text goes on after its value")
	}
	return i
}

// scanMembers scans the outermost object, whose brace is at i, and records
// its members. It returns the offset after it.
func (s *Scanner) scanMembers(i int) int {
	b := s.text
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		m := member{name: uint32(i + 1)}
		if i, m.nameEscaped = s.scanName(i); i < 0 {
			return -1
		}
		m.nameEnd = uint32(i - 1)
		if i = s.scanColon(i); i < 0 {
			return -1
		}
		m.value = uint32(i)
		if i < len(b) && b[i] == '"' {
			i, m.valueEscaped = s.scanString(i)
		} else {
			i = s.scanValue(i, 1)
		}
		if i < 0 {
			return -1
		}
		m.valueEnd = uint32(i)
		s.members = append(s.members, m)
		i = skipSpace(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i = skipSpace(b, i+1)
		case i < len(b) && b[i] == '}':
			return i + 1
		default:
			return s.unexpected(i, "expected a comma or a closing brace")
		}
	}
}

// scanValue scans the value at i without recursion. outer is the number of
// containers open around it. It returns the offset after the value.
func (s *Scanner) scanValue(i, outer int) int {
	b := s.text
	for depth := outer; ; {
		if i < len(b) && (b[i] == '{' || b[i] == '[') {
			bracket := b[i]
			if depth == maxDepth {
				return s.fail(i, "nested too deep")
			}
			s.setOpen(depth, bracket == '{')
			depth++
			i = skipSpace(b, i+1)
			closing := bracket + 2 // in ASCII, for both kinds
			if i == len(b) || b[i] != closing {
				if bracket == '{' {
					i = s.scanKey(i)
				}
				if i < 0 {
					return -1
				}
				continue
			}
		} else if i = s.scanScalar(i); i < 0 {
			return -1
		}
		if i, depth = s.scanAfter(i, depth, outer); i < 0 || depth == outer {
			return i
		}
	}
}

// scanAfter scans what follows a value inside containers: closing brackets,
// then either a comma and whatever leads to the next value, or nothing, when
// the number of open containers is down to outer. It returns the offset and
// the number of containers open there.
func (s *Scanner) scanAfter(i, depth, outer int) (int, int) {
	b := s.text
	for depth > outer {
		i = skipSpace(b, i)
		object := s.isOpenObject(depth - 1)
		switch {
		case i < len(b) && b[i] == ',':
			i = skipSpace(b, i+1)
			if object {
				i = s.scanKey(i)
			}
			return i, depth
		case i < len(b) && object && b[i] == '}',
			i < len(b) && !object && b[i] == ']':
			i++
			depth--
		default:
			return s.unexpected(i, "expected a comma or a closing bracket"), 0
		}
	}
	return i, depth
}

func (s *Scanner) setOpen(depth int, object bool) {
	bit := uint64(1) << (depth & 63)
	if object {
		s.open[depth>>6] |= bit
	} else {
		s.open[depth>>6] &^= bit
	}
}

func (s *Scanner) isOpenObject(depth int) bool {
	return s.open[depth>>6]&(1<<(depth&63)) != 0
}

// scanKey scans a member name and its colon, and returns the offset of the
// value.
func (s *Scanner) scanKey(i int) int {
	if i, _ = s.scanName(i); i < 0 {
		return -1
	}
	return s.scanColon(i)
}

func (s *Scanner) scanName(i int) (int, bool) {
	if i < len(s.text) && s.text[i] == '"' {
		return s.scanString(i)
	}
	return s.unexpected(i, "expected a member name"), false
}

func (s *Scanner) scanColon(i int) int {
	i = skipSpace(s.text, i)
	if i < len(s.text) && s.text[i] == ':' {
		return skipSpace(s.text, i+1)
	}
	return s.unexpected(i, "expected a colon")
}

// skipSpace returns the offset of the first byte from i on that is no JSON
// white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' &&
		(b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
