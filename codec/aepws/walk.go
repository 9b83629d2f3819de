package aepws

import "github.com/sluice-relay/sluice/codec/jsontext"

// The types of this file walk JSON that Scan has accepted, and check nothing
// again.

// members iterates over the members of an object.
type members struct {
	text  []byte
	at    int
	name  []byte // raw, without its quotes
	value []byte // raw
}

// membersOf starts at the object whose brace is the first byte of raw.
func membersOf(raw []byte) members { return members{text: raw, at: 0} }

// next steps to the next member and reports whether there is one.
func (m *members) next() bool {
	i := skipSpace(m.text, m.at)
	if m.text[i] == '}' {
		return false
	}
	i = skipSpace(m.text, i+1) // past the brace or the comma
	if m.text[i] == '}' {
		m.at = i
		return false
	}
	end := jsontext.StringEnd(m.text, i)
	m.name = m.text[i+1 : end-1]
	i = skipSpace(m.text, end)
	i = skipSpace(m.text, i+1) // past the colon
	m.at = valueEnd(m.text, i)
	m.value = m.text[i:m.at]
	return true
}

// elements iterates over the elements of an array.
type elements struct {
	text  []byte
	at    int
	value []byte // raw
}

func elementsOf(raw []byte) elements { return elements{text: raw, at: 0} }

// next steps to the next element and reports whether there is one.
func (e *elements) next() bool {
	i := skipSpace(e.text, e.at)
	if e.text[i] == ']' {
		return false
	}
	i = skipSpace(e.text, i+1)
	if e.text[i] == ']' {
		e.at = i
		return false
	}
	e.at = valueEnd(e.text, i)
	e.value = e.text[i:e.at]
	return true
}

// valueEnd returns the offset after the value at i.
func valueEnd(p []byte, i int) int {
	switch p[i] {
	case '"':
		return jsontext.StringEnd(p, i)
	case '{', '[':
		return containerEnd(p, i)
	}
	for i < len(p) && p[i] > ' ' && p[i] != ',' && p[i] != '}' && p[i] != ']' {
		i++
	}
	return i
}

func containerEnd(p []byte, i int) int {
	for depth := 0; ; {
		switch p[i] {
		case '"':
			i = jsontext.StringEnd(p, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// content returns the decoded content of a raw value if it is a string. It
// lies in raw or in scratch, and stays until the next Scan.
func (s *Scanner) content(raw []byte) (content []byte, ok bool) {
	if raw[0] != '"' {
		return nil, false
	}
	return s.unescaped(raw[1 : len(raw)-1]), true
}

// find returns the raw value of a member of an object, the last one of that
// name, or nil.
func (s *Scanner) find(object []byte, name string) (value []byte) {
	for m := membersOf(object); m.next(); {
		if string(s.unescaped(m.name)) == name {
			value = m.value
		}
	}
	return value
}
