package aepws

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 123_000_000, time.UTC)

// event returns a domain event; extra is put before its end, for example
// `,"target":"t"`.
func event(extra string) string {
	return `{"aep_version":"0.1","id":"evt_1","type":"task.progress","source":"agent:a",` +
		`"created_at":"2026-03-01T12:00:00Z","payload":{"n":1}` + extra + `}`
}

// control returns a control event of a type.
func control(k Kind, payload string) string {
	return `{"id":"c1","type":"` + k.String() + `","payload":` + payload + `}`
}

// scanned admits a text that is one object.
func scanned(t testing.TB, text string) (*Scanner, *Envelope) {
	t.Helper()
	s, e := &Scanner{}, &Envelope{}
	if err := s.Scan([]byte(text), e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s, e
}

// admitted admits a text without faults.
func admitted(t testing.TB, text string) (*Scanner, *Envelope) {
	t.Helper()
	s, e := scanned(t, text)
	if len(e.Faults) > 0 {
		t.Fatalf("%s: %v", text, e.Faults)
	}
	return s, e
}

// rows reads the rows of a file in testdata: fields between tabs; empty lines
// and those that begin with # are left out.
func rows(t testing.TB, name string, fields int) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) != fields {
			t.Fatalf("%s:%d: %d fields, want %d", name, i+1, len(row), fields)
		}
		all = append(all, row)
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return all
}

// stdMember is a member as encoding/json reads it.
type stdMember struct {
	name string
	raw  string
}

// stdMembers walks the members of a valid object.
func stdMembers(t testing.TB, text []byte) []stdMember {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var members []stdMember
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		members = append(members, stdMember{name.(string), string(raw)})
	}
	return members
}

// depthOf returns the deepest nesting of a valid text.
func depthOf(text []byte) int {
	d := json.NewDecoder(bytes.NewReader(text))
	depth, deepest := 0, 0
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}
