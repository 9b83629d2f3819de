package aepws

import "github.com/sluice-relay/sluice/codec/jsontext"

import "bytes"

const (
	// MaxDepth is the deepest nesting of objects and arrays (B15). One word
	// holds the kinds of all open containers.
	MaxDepth = 64
	// maxTextBytes keeps offsets in 32 bits.
	maxTextBytes = 1 << 30
	// keepBytes is the scratch that outlives one message.
	keepBytes = 64 << 10
)

// Scanner admits messages. It holds reusable scratch: one Scanner per loop,
// never two goroutines at once. The zero Scanner is ready and takes every
// well-formed domain type.
type Scanner struct {
	// Types, when not nil, has the domain types that are taken
	// (AEPWS_STRICT_TYPES, B24).
	Types *Registry

	text   []byte
	open   uint64 // one bit for each open container, set for an object
	fields [fieldCount]span
	names  jsontext.NameSet // top-level members beside the known ones
	twice  []Fault          // members that occur twice

	// Where delivery stands among the members: the end of the value before it,
	// 0 for none, and the start of the name after it, 0 for none.
	beforeDelivery, afterDelivery int
	lastEnd                       int // end of the last member's value

	decoded []byte // scratch of unescaped strings

	failOffset int
	failReason string
}

// span is a member's raw value in the text. No value ends at 0.
type span struct{ start, end uint32 }

// Scan admits one message: text is borrowed until the next Scan, and e until
// then holds slices of it. The error is a *MessageFault when text is not one
// JSON object (B15); e is then empty. Else e holds the event and its faults
// (B17 to B24). A message without a fault costs no allocation once the scratch
// has grown.
func (s *Scanner) Scan(text []byte, e *Envelope) error {
	*e = Envelope{Faults: e.Faults[:0]}
	s.reset()
	start := -1
	if len(text) > maxTextBytes {
		s.fail(0, "text is too long")
	} else {
		s.text = text
		start = s.scanText()
	}
	if start < 0 {
		return &MessageFault{Offset: s.failOffset, Reason: s.failReason}
	}
	e.text, e.start, e.lastEnd = text, start, s.lastEnd
	s.envelope(e)
	return nil
}

func (s *Scanner) reset() {
	s.text, s.fields = nil, [fieldCount]span{}
	s.beforeDelivery, s.afterDelivery, s.lastEnd = 0, 0, 0
	s.twice = s.twice[:0]
	s.names.Shrink()
	if cap(s.decoded) > keepBytes {
		s.decoded = nil
	}
	s.decoded = s.decoded[:0]
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

// scanText scans the whole text and returns the offset of its object.
func (s *Scanner) scanText() int {
	b := s.text
	start := skipSpace(b, 0)
	if start == len(b) {
		return s.fail(start, "empty text")
	}
	if b[start] != '{' {
		return s.fail(start, "not an object")
	}
	i := s.scanMembers(start)
	if i < 0 {
		return -1
	}
	if i = skipSpace(b, i); i < len(b) {
		return s.fail(i, "text goes on after its object")
	}
	return start
}

// scanMembers scans the outermost object, whose brace is at i, and notes where
// the members of an envelope are. It returns the offset after it.
func (s *Scanner) scanMembers(i int) int {
	b := s.text
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	delivery := false // the last member was delivery
	for {
		name, f := i, fieldOther
		if i, f = s.scanTopName(i); i < 0 {
			return -1
		}
		if delivery {
			s.afterDelivery = name
		}
		if delivery = f == fieldDelivery; delivery {
			s.beforeDelivery = s.lastEnd
		}
		value := i
		if i = s.scanValue(i, 1); i < 0 {
			return -1
		}
		if f != fieldOther {
			s.fields[f] = span{uint32(value), uint32(i)}
		}
		s.lastEnd = i
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

// scanTopName scans the name of a top-level member and its colon. It returns
// the offset of the value and which member it is; one that was there before
// is a fault (B17).
func (s *Scanner) scanTopName(i int) (int, field) {
	start := i
	i, escaped := s.scanName(i)
	if i < 0 {
		return -1, fieldOther
	}
	name := s.text[start+1 : i-1]
	if escaped {
		name = s.unescaped(name)
	}
	f := fieldOf(name)
	switch {
	case f != fieldOther && s.fields[f].end != 0:
		s.foundTwice(twiceReasons[f])
		f = fieldOther
	case f == fieldOther && !s.names.Add(name):
		s.foundTwice("a member beside the known ones occurs twice")
	}
	return s.scanColon(i), f
}

func (s *Scanner) foundTwice(text string) {
	if len(s.twice) < MaxFaults {
		s.twice = append(s.twice, Fault{Code: InvalidEnvelope, Text: text})
	}
}

// unescaped returns the decoded form of the inside of a valid string. It lies
// in p or in scratch, and stays until the next Scan.
func (s *Scanner) unescaped(p []byte) []byte {
	if bytes.IndexByte(p, '\\') < 0 {
		return p
	}
	start := len(s.decoded)
	s.decoded = jsontext.AppendUnescaped(s.decoded, p)
	return s.decoded[start:len(s.decoded):len(s.decoded)]
}

// scanValue scans the value at i without recursion. outer is the number of
// containers open around it. It returns the offset after the value.
func (s *Scanner) scanValue(i, outer int) int {
	b := s.text
	for depth := outer; ; {
		if i < len(b) && (b[i] == '{' || b[i] == '[') {
			bracket := b[i]
			if depth == MaxDepth {
				return s.fail(i, "nested too deep")
			}
			bit := uint64(1) << (depth & 63)
			s.open &^= bit
			if bracket == '{' {
				s.open |= bit
			}
			depth++
			i = skipSpace(b, i+1)
			if i == len(b) || b[i] != bracket+2 { // the closing one, in ASCII
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
// then a comma and whatever leads to the next value, or nothing when the
// number of open containers is down to outer. It returns the offset and the
// number of containers open there.
func (s *Scanner) scanAfter(i, depth, outer int) (int, int) {
	b := s.text
	for depth > outer {
		i = skipSpace(b, i)
		object := s.open>>((depth-1)&63)&1 != 0
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
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}
