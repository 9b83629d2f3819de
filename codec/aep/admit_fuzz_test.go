package aep

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/jsontext"
)

func addSeeds(f *testing.F) {
	for _, v := range readEnvelopeVectors(f) {
		f.Add([]byte(v.text))
	}
	for _, value := range badValues {
		f.Add([]byte(value))
		f.Add([]byte(`{"a":[` + value + `]}`))
	}
	f.Add([]byte(fullEvent))
	f.Add([]byte("{\n \"a\" : [ 1 , {\"b\\u0022\" : \"\\ud83d\\ude00\"} ] }\r\n"))
}

// stdMember is a top-level member as encoding/json sees it.
type stdMember struct {
	name string
	raw  json.RawMessage
}

// stdMembers walks the members of a valid object.
func stdMembers(t *testing.T, text []byte) []stdMember {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var members []stdMember
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		members = append(members, stdMember{name.(string), raw})
	}
	return members
}

// FuzzScan compares with encoding/json: validity, names and values.
func FuzzScan(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		var s Scanner
		err := s.Scan(text)
		if !bytes.Equal(before, text) {
			t.Fatal("input modified")
		}
		var broken *SyntaxError
		if errors.As(err, &broken) && broken.Reason == "nested too deep" {
			return
		}
		if want := json.Valid(text) && utf8.Valid(text); (err == nil) != want {
			t.Fatalf("%q: %v, want valid %v", text, err, want)
		}
		if err != nil || !s.IsObject() {
			return
		}
		want := stdMembers(t, text)
		if len(want) != len(s.members) {
			t.Fatalf("%d members, want %d", len(s.members), len(want))
		}
		for i, m := range want {
			checkMember(t, &s, &s.members[i], m)
		}
	})
}

func checkMember(t *testing.T, s *Scanner, got *member, want stdMember) {
	t.Helper()
	name := s.text[got.name:got.nameEnd]
	if escaped := bytes.IndexByte(name, '\\') >= 0; escaped != got.nameEscaped {
		t.Fatalf("name %q: escaped %v", name, got.nameEscaped)
	}
	if decoded := jsontext.AppendUnescaped(nil, name); string(decoded) != want.name {
		t.Fatalf("name %q, want %q", decoded, want.name)
	}
	raw := s.raw(got)
	if !bytes.Equal(raw, want.raw) {
		t.Fatalf("value %q, want %q", raw, want.raw)
	}
	if raw[0] != '"' {
		return
	}
	if escaped := bytes.IndexByte(raw, '\\') >= 0; escaped != got.valueEscaped {
		t.Fatalf("value %q: escaped %v", raw, got.valueEscaped)
	}
	var value string
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	if decoded := jsontext.AppendUnescaped(nil, raw[1:len(raw)-1]); string(decoded) != value {
		t.Fatalf("value %q, want %q", decoded, value)
	}
}

// FuzzEvent: an admitted event keeps its text (R194), its attributes are those
// that encoding/json finds, and it is admitted again from its own text.
func FuzzEvent(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		var s Scanner
		if s.Scan(text) != nil {
			return
		}
		e, err := s.Event()
		if !bytes.Equal(before, text) {
			t.Fatal("input modified")
		}
		if err != nil {
			var broken *EnvelopeError
			if !errors.As(err, &broken) {
				t.Fatal(err)
			}
			return
		}
		want := bytes.Trim(text, " \t\r\n")
		if bytes.ContainsAny(want, "\r\n") {
			var compacted bytes.Buffer
			if err := json.Compact(&compacted, want); err != nil {
				t.Fatal(err)
			}
			want = compacted.Bytes()
		}
		if !bytes.Equal(e.Text(), want) {
			t.Fatalf("text %q, want %q", e.Text(), want)
		}
		checkFrame(t, e)
		for _, m := range stdMembers(t, want) {
			checkAttribute(t, e, m)
		}
		if _, err := admit(string(e.Text())); err != nil {
			t.Fatalf("%q is refused the second time: %v", e.Text(), err)
		}
	})
}

func checkAttribute(t *testing.T, e *Event, m stdMember) {
	t.Helper()
	v, ok := e.Lookup(m.name)
	switch m.name {
	case "time", "seq", "aep", "data", "traceparent":
		if ok {
			t.Fatalf("%s is visible", m.name)
		}
		return
	}
	want := string(m.raw)
	if m.raw[0] == '"' {
		if err := json.Unmarshal(m.raw, &want); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(v.AppendString(nil)); !ok || got != want {
		t.Fatalf("%s is %q, want %q", m.name, got, want)
	}
}
