package aepws

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

// TestMessageFaults is B13 and B15: what is not one JSON object ends the
// connection.
func TestMessageFaults(t *testing.T) {
	nested := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	f := func(rule, text, reason string, offset int) {
		t.Helper()
		var s Scanner
		e := Envelope{ID: []byte("left over"), Faults: make([]Fault, 1)}
		err := s.Scan([]byte(text), &e)
		var fault *MessageFault
		if !errors.As(err, &fault) || fault.Reason != reason || fault.Offset != offset {
			t.Errorf("%s: %.80q: %v, want %s at offset %d", rule, text, err, reason, offset)
		}
		if len(e.Faults) > 0 || e.ID != nil {
			t.Errorf("%s: %.80q: %+v", rule, text, e)
		}
	}
	f("case 11", `{"a":1}{"b":2}`, "text goes on after its object", 7)
	f("case 12", `[]`, "not an object", 0)
	for _, scalar := range []string{"1", `"x"`, "null", "true", "\ufeff{}"} {
		f("B15", scalar, "not an object", 0)
	}
	f("B15", "", "empty text", 0)
	f("B15", " \r\n\t", "empty text", 4)
	f("B15", "{}x", "text goes on after its object", 2)
	f("B15", nested(MaxDepth+1), "nested too deep", 4+MaxDepth)
	f("B15", `{"a":`+strings.Repeat(`{"a":`, 70), "nested too deep", 5*MaxDepth)
	f("B15", `{"a":1,}`, "expected a member name", 7)
	f("B15", `{"a" 1}`, "expected a colon", 5)
	f("B15", `{"a":1 "b":2}`, "expected a comma or a closing brace", 7)
	f("B15", `{"a":[1 2]}`, "expected a comma or a closing bracket", 8)
	f("B15", `{"a":[1}`, "expected a comma or a closing bracket", 7)
	f("B15", `{"a":{"b":1]}`, "expected a comma or a closing bracket", 11)
	f("B15", `{"a":01}`, "invalid number", 5)
	f("B15", `{"a":1.}`, "invalid number", 5)
	f("B15", `{"a":-}`, "invalid number", 5)
	f("B15", `{"a":1e+}`, "invalid number", 5)
	f("B15", `{"a":tru}`, "expected a value", 5)
	f("B15", `{"a":NaN}`, "expected a value", 5)
	f("B15", `{"a":'x'}`, "expected a value", 5)
	f("B15", `{"a":"\x"}`, "invalid escape in a string", 6)
	f("B15", `{"a":"\u12g4"}`, "invalid escape in a string", 6)
	f("B15", "{\"a\":\"\n\"}", "control character in a string", 6)
	f("B15", `{"a`, "unexpected end of text in a string", 3)
	f("B15", `{"a":"\`, "unexpected end of text in a string", 7)
	f("B13", "{\"a\":\"\xff\"}", "invalid UTF-8", 6)
	f("B13", "{\"a\":\"\xed\xa0\x80\"}", "invalid UTF-8", 6)
	f("B13", "{\"a\":\"\xc3\"}", "invalid UTF-8", 6)

	var s Scanner
	var e Envelope
	for _, good := range []string{nested(MaxDepth), " \r\n\t{} \r\n\t", `{"a":"\ud800é\u0000"}`, `{"a":[{},[],-0.5E+1,true,false,null]}`} {
		if err := s.Scan([]byte(good), &e); err != nil {
			t.Errorf("B15: %s: %v", good, err)
		}
	}
}

// TestCutMessages: no beginning of an event is an event, and none panics.
func TestCutMessages(t *testing.T) {
	text := event(`,"delivery":{"mode":"replayable","retry":[1.5e3,"\u00e9é"]},"authorization":{"token":"x"}`)
	var s Scanner
	var e Envelope
	for n := range len(text) {
		if err := s.Scan([]byte(text[:n]), &e); err == nil {
			t.Errorf("%s: admitted", text[:n])
		}
	}
	if err := s.Scan([]byte(text), &e); err != nil || len(e.Faults) > 0 {
		t.Errorf("%v, %v", err, e.Faults)
	}
}

// TestManyMembers: names are compared in linear time, and the scratch of one
// wide message is given back (E2).
func TestManyMembers(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `,"m%d":0`, i)
	}
	wide := event(b.String())
	s, e := admitted(t, wide)
	if err := s.Scan([]byte(event(b.String()+`,"m77777":1`)), e); err != nil || len(e.Faults) != 1 {
		t.Fatalf("%v, %v", err, e.Faults)
	}
	long := event(`,"metadata":"` + strings.Repeat(`\n`, 1<<20) + `","\n` + strings.Repeat("x", 1<<20) + `":1`)
	for _, text := range []string{long, event("")} {
		if err := s.Scan([]byte(text), e); err != nil || len(e.Faults) > 0 {
			t.Fatalf("%v, %v", err, e.Faults)
		}
	}
	names, slots := s.names.Kept()
	if cap(s.decoded) > keepBytes || names > jsontext.KeepNames || slots > 4*jsontext.KeepNames {
		t.Errorf("scratch of %d bytes, %d names, %d slots stays", cap(s.decoded), names, slots)
	}
}
