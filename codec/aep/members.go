package aep

import "github.com/sluice-relay/sluice/codec/jsontext"

// IsObject reports whether the last scanned text is an object. It is false
// after a scan that failed.
func (s *Scanner) IsObject() bool { return s.object }

// Type returns the decoded `type` member of the scanned object when it is a
// string; of repeated members the last counts. The result is borrowed until
// the next call on the Scanner.
func (s *Scanner) Type() (typ []byte, ok bool) { return s.stringMember("type") }

// StringMember returns a copy of the decoded value of the named top-level
// member when it is a string; of repeated members the last counts (R340).
func (s *Scanner) StringMember(name string) (string, bool) {
	value, ok := s.stringMember(name)
	return string(value), ok
}

// RawMember returns the JSON text of the value of the named top-level member,
// as it was sent; of repeated members the last counts. After Event has
// compacted a text with line breaks it is the compacted one. The result is
// borrowed until the next Scan.
func (s *Scanner) RawMember(name string) ([]byte, bool) {
	m := s.find(name)
	if m == nil {
		return nil, false
	}
	return s.raw(m), true
}

func (s *Scanner) stringMember(name string) ([]byte, bool) {
	m := s.find(name)
	if m == nil || s.text[m.value] != '"' {
		return nil, false
	}
	inner := s.text[m.value+1 : m.valueEnd-1]
	if !m.valueEscaped {
		return inner, true
	}
	s.decoded = jsontext.AppendUnescaped(s.decoded[:0], inner)
	return s.decoded, true
}

// find returns the last member whose decoded name is name, or nil.
func (s *Scanner) find(name string) *member {
	for i := len(s.members) - 1; i >= 0; i-- {
		m := &s.members[i]
		raw := s.text[m.name:m.nameEnd]
		if m.nameEscaped {
			s.decoded = jsontext.AppendUnescaped(s.decoded[:0], raw)
			raw = s.decoded
		}
		if string(raw) == name {
			return m
		}
	}
	return nil
}

func (s *Scanner) raw(m *member) []byte { return s.text[m.value:m.valueEnd] }

// compact removes the insignificant white space of the scanned object (R194)
// into scratch, and makes the scanner refer to that.
func (s *Scanner) compact() {
	out := s.draft.compacted[:0]
	out = append(out, '{')
	for i := range s.members {
		m := &s.members[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		name := uint32(len(out))
		out = append(out, s.text[m.name:m.nameEnd]...)
		out = append(out, '"', ':')
		value := uint32(len(out))
		out = appendCompact(out, s.raw(m))
		m.name, m.nameEnd = name, name+m.nameEnd-m.name
		m.value, m.valueEnd = value, uint32(len(out))
	}
	out = append(out, '}')
	s.draft.compacted = out
	s.text, s.start, s.end = out, 0, len(out)
}

// appendCompact appends the valid JSON text p without the white space between
// its tokens.
func appendCompact(dst, p []byte) []byte {
	for i := 0; i < len(p); {
		if p[i] == '"' {
			end := jsontext.StringEnd(p, i)
			dst = append(dst, p[i:end]...)
			i = end
			continue
		}
		run := i
		for i < len(p) && p[i] != '"' && p[i] > ' ' {
			i++
		}
		dst = append(dst, p[run:i]...)
		i = skipSpace(p, i)
	}
	return dst
}
