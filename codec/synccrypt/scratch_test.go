package synccrypt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestScratchIsBounded: memory that one large call needed does not stay.
func TestScratchIsBounded(t *testing.T) {
	id := identity(t, goodPhrase)
	s := new(scratch)
	var many strings.Builder
	for i := range 15_000 {
		fmt.Fprintf(&many, `"%d":0,`, 99_999-i)
	}
	p := Payload{SchemaVersion: 1, Table: "todo", ID: "1", HLC: someHLC, Row: []byte(`{` + many.String() + `"":0}`)}
	if _, err := id.seal(nil, s, &p, "a", someTime, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.parse([]byte(`{"x":"` + strings.Repeat("x", MaxEnvelopeBytes) + `"}`)); !errors.Is(err, ErrEnvelope) {
		t.Fatal(err)
	}
	s.aad = make([]byte, 2*keepBytes)
	if cap(s.bytes) <= keepBytes || cap(s.text) <= keepBytes || cap(s.canon.sorted) <= keepBytes || cap(s.canon.members) <= keepBytes/64 {
		t.Fatal("nothing was large")
	}
	s.put()
	if cap(s.bytes) > keepBytes || cap(s.text) > keepBytes || cap(s.aad) > keepBytes || cap(s.canon.sorted) > keepBytes || cap(s.canon.members) > keepBytes/64 {
		t.Error("large memory stays")
	}
	if s.canon.src != nil || s.canon.out != nil {
		t.Error("it holds what was given (K3)")
	}
	if names, _ := s.names.Kept(); names > 1024 {
		t.Errorf("room for %d names stays", names)
	}
}
