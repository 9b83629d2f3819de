package aep

import (
	"bytes"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

const (
	// maxNameBytes is the longest member name (R111).
	maxNameBytes = 20
	// maxSessionBytes is the longest session, decoded (R109).
	maxSessionBytes = 1024
	// maxEchoBytes is how much of the input a refusal repeats.
	maxEchoBytes = 40
)

// EnvelopeError says that a JSON text is not an event: it breaks a rule of the
// envelope. On the wire it is invalid-event (contract, section 5).
type EnvelopeError struct {
	Rule   string // the broken rule, such as "R102"
	Detail string // free text, repeats little of the input
}

func (e *EnvelopeError) Error() string { return e.Detail + " (" + e.Rule + ")" }

func refuse(rule, detail string) *EnvelopeError {
	return &EnvelopeError{Rule: rule, Detail: detail}
}

// admit checks one member and takes it into the draft.
func (s *Scanner) admit(m *member) *EnvelopeError {
	place := s.place(m.name, m.nameEnd, m.nameEscaped)
	name := s.at(place)
	c := coreOf(viewString(name))
	if c == coreNone && !validName(name) {
		return refuse("R111", "member name "+quote(name)+
			" is not 1 to 20 of a-z and 0-9")
	}
	if s.text[m.value] == 'n' {
		return refuse("R113", "member "+quote(name)+" is null")
	}
	if c == coreNone {
		return s.admitExtension(m, name, place)
	}
	if s.draft.seen&(1<<c) != 0 {
		return refuse("R114", "member "+quote(name)+" occurs twice")
	}
	s.draft.seen |= 1 << c
	return s.admitCore(m, c)
}

// admitCore checks the value of a core attribute.
func (s *Scanner) admitCore(m *member, c core) *EnvelopeError {
	e := &s.draft.event
	switch c {
	case coreSeq, coreEpoch:
		return s.admitPosition(m, c)
	case coreData:
		e.hasData = true
		if s.text[m.value] != '{' {
			return refuse("R110", "data is not an object")
		}
		return nil
	}
	value, p := s.stringValue(m)
	ok := len(value) > 0
	switch c {
	case coreAEP:
		if string(value) != "0.1" {
			return refuse("R101", `aep is not the string "0.1"`)
		}
	case coreID, coreType, coreTime, coreSource, coreAgent:
		if !ok {
			return refuse("R102", coreNames[c]+" is not a non-empty string")
		}
	case coreSeverity:
		if e.severity, ok = ParseSeverity(value); !ok {
			return refuse("R110", "severity "+s.echo(m)+" is not known")
		}
	case coreCapture:
		if e.capture, ok = ParseLevel(value); !ok {
			return refuse("R110", "capture "+s.echo(m)+" is not known")
		}
	case coreTraceparent:
		if !validTraceparent(value) {
			return refuse("R110", "traceparent is not 2-32-16-2 lower-case hex digits")
		}
	default: // subject, session, run, step, cause
		if !ok {
			return refuse("R109", coreNames[c]+" is not a non-empty string")
		}
	}
	switch {
	case c == coreType && !validType(value):
		return refuse("R103", "type "+quote(value)+
			" does not fit the grammar of event types")
	case c == coreType:
		e.class = ClassOf(viewString(value))
		e.core[c] = p
	case c == coreSession && len(value) > maxSessionBytes:
		return refuse("R109", "session is longer than 1024 bytes")
	case c < coreEpoch:
		e.core[c] = p
	}
	return nil
}

// admitPosition checks seq or epoch (R108). It keeps the epoch's spelling.
func (s *Scanner) admitPosition(m *member, c core) *EnvelopeError {
	e := &s.draft.event
	raw := s.raw(m)
	n, ok := parsePlain(raw)
	if !ok && (raw[0] == '-' || jsontext.IsDigit(raw[0])) {
		var exact Integer
		if exact, ok = ParseInteger(raw); ok {
			n, ok = exact.Int64()
		}
	}
	if !ok || n < 0 {
		return refuse("R108", coreNames[c]+" "+s.echo(m)+
			" is not an integer from 0 to 2^63-1")
	}
	if c == coreSeq {
		e.seq, e.hasSeq = n, true
		return nil
	}
	e.epoch = n
	e.core[c] = span{m.value + s.draft.shift, m.valueEnd - m.value}
	return nil
}

// admitExtension checks an extension attribute (R112, R114).
func (s *Scanner) admitExtension(m *member, name []byte, place span) *EnvelopeError {
	d := &s.draft
	a := attr{name: place.offset, nameLength: uint8(place.length)}
	value := span{m.value + d.shift, m.valueEnd - m.value}
	ok := true
	switch c := s.text[m.value]; c {
	case '"':
		a.kind = KindString
		_, value = s.stringValue(m)
	case 't', 'f':
		a.kind = KindBool
	case '{', '[':
		ok = false
	default:
		a.kind = KindInteger
		if _, ok = parsePlain(s.raw(m)); !ok {
			_, ok = ParseInteger(s.raw(m))
		}
	}
	if !ok {
		return refuse("R112", "member "+quote(name)+
			" is not a string, an integer or a boolean")
	}
	a.value, a.valueLength = value.offset, value.length
	if !s.addName(name) {
		return refuse("R114", "member "+quote(name)+" occurs twice")
	}
	d.attrs = append(d.attrs, a)
	return nil
}

// addName takes the name of the next extension attribute and reports whether
// it is new.
func (s *Scanner) addName(name []byte) bool {
	d := &s.draft
	same := func(i int) bool {
		return bytes.Equal(s.attrName(i), name)
	}
	if len(d.attrs) < fewAttrs {
		for i := range d.attrs {
			if same(i) {
				return false
			}
		}
		return true
	}
	if d.index == nil {
		d.index = newNameIndex(len(s.members))
		for i := range d.attrs {
			d.index.insert(hashName(viewString(s.attrName(i))), i)
		}
	}
	hash := hashName(viewString(name))
	if _, found := d.index.find(hash, same); found {
		return false
	}
	d.index.insert(hash, len(d.attrs))
	return true
}

func (s *Scanner) attrName(i int) []byte {
	a := &s.draft.attrs[i]
	return s.at(span{a.name, uint32(a.nameLength)})
}

// checkPresence checks which attributes are there: R101, R102, and R104 to
// R107 by type.
func (d *draft) checkPresence() *EnvelopeError {
	if !d.has(coreAEP) {
		return refuse("R101", "aep is missing")
	}
	for _, c := range [...]core{coreID, coreType, coreTime, coreSource, coreAgent} {
		if !d.has(c) {
			return refuse("R102", coreNames[c]+" is missing")
		}
	}
	switch d.event.class {
	case ClassLiveness:
		for _, c := range [...]core{coreSession, coreRun, coreStep, coreSeq} {
			if d.has(c) {
				return refuse("R104", "an agent event has no "+coreNames[c])
			}
		}
		return nil
	case ClassCommand:
		return d.checkForeign("R105", "a command")
	case ClassForeign:
		return d.checkForeign("R106", "attention.routed")
	}
	for _, c := range [...]core{coreSession, coreSeq} {
		if !d.has(c) {
			return refuse("R107", coreNames[c]+" is missing")
		}
	}
	return nil
}

// checkForeign checks an event about a session that its emitter does not own.
func (d *draft) checkForeign(rule, what string) *EnvelopeError {
	if !d.has(coreSession) {
		return refuse(rule, what+" needs a session")
	}
	if d.has(coreSeq) {
		return refuse(rule, what+" has no seq")
	}
	return nil
}

func (d *draft) has(c core) bool { return d.seen&(1<<c) != 0 }

func validName(name []byte) bool {
	if len(name) == 0 || len(name) > maxNameBytes {
		return false
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || jsontext.IsDigit(c)) {
			return false
		}
	}
	return true
}

// validTraceparent implements R110: groups of 2, 32, 16 and 2 lower-case
// hexadecimal digits.
func validTraceparent(p []byte) bool {
	if len(p) != 55 {
		return false
	}
	if p[2] != '-' || p[35] != '-' || p[52] != '-' {
		return false
	}
	dashes := 0
	for _, c := range p {
		if c == '-' {
			dashes++
		} else if !jsontext.IsDigit(c) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return dashes == 3
}

// echo returns the raw value of a member for a refusal.
func (s *Scanner) echo(m *member) string { return quote(s.raw(m)) }

// quote returns the start of p, quoted so that it is safe in any log line.
func quote(p []byte) string {
	if len(p) <= maxEchoBytes {
		return strconv.Quote(string(p))
	}
	cut := maxEchoBytes
	for cut > maxEchoBytes-utf8.UTFMax && !utf8.RuneStart(p[cut]) {
		cut--
	}
	return strconv.Quote(string(p[:cut])) + "..."
}

// viewString returns p as a string without a copy, for calls that keep
// nothing.
func viewString(p []byte) string {
	return unsafe.String(unsafe.SliceData(p), len(p))
}
