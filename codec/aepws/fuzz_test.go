package aepws

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzScan: Scan takes what encoding/json takes as one object of at most 64
// levels, an admitted event has the envelope's members, and its stored form
// with a delivery has the same members in the same order (B15, B57).
func FuzzScan(f *testing.F) {
	for _, row := range rows(f, "envelopes.txt", 3) {
		f.Add([]byte(row[1]))
	}
	f.Add([]byte(event(`,"delivery":{"retry":{"a":[1.50]},"mode":"replayable"},"x":[{}]`)))
	f.Add([]byte(`{"delivery":{"retry":1},"a":{` + `"b":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		var s Scanner
		var e Envelope
		err := s.Scan(text, &e)
		trimmed := bytes.Trim(text, " \t\r\n")
		good := utf8.Valid(text) && json.Valid(text) && trimmed[0] == '{' && depthOf(text) <= MaxDepth
		if (err == nil) != good {
			t.Fatalf("%q: %v, want good %v", text, err, good)
		}
		if !bytes.Equal(before, text) {
			t.Fatal("E1: the input has changed")
		}
		if err != nil {
			return
		}
		members := stdMembers(t, text)
		names := map[string]bool{}
		for _, m := range members {
			names[m.name] = true
		}
		twice := slices.ContainsFunc(e.Faults, func(f Fault) bool { return strings.Contains(f.Text, "twice") })
		if halves := bytes.Contains(bytes.ToLower(text), []byte(`\ud`)); !halves && twice != (len(names) < len(members)) {
			t.Fatalf("B17: %s: %v", text, e.Faults)
		}
		if answer := NewAuthor("r", NewIDs()).AppendFaults(nil, "", testNow, &e); len(answer) > 0 && !json.Valid(answer) {
			t.Fatalf("E5: %s", answer)
		}
		readAll(t, &s, &e)
		if len(e.Faults) == 0 {
			checkDelivered(t, &s, &e, members)
		}
	})
}

// readAll reads a payload as every control type: none may panic.
func readAll(t *testing.T, s *Scanner, e *Envelope) {
	if len(e.Payload) == 0 || e.Payload[0] != '{' {
		return
	}
	var open OpenRequest
	var filter FilterRequest
	var ack AckRequest
	var reject RejectRequest
	s.ReadOpen(e, &open)
	if s.ReadFilter(e, "", testNow, &filter) == nil && !json.Valid([]byte(filter.Filter.Canonical())) {
		t.Fatalf("E5: %s", filter.Filter.Canonical())
	}
	s.ReadAck(e, &ack)
	s.ReadReject(e, &reject)
	_, _ = s.ReadCancel(e)
	_ = s.ReadClosed(e)
	_, _ = s.ReadError(e)
}

// checkDelivered compares what a subscriber gets with what was published.
func checkDelivered(t *testing.T, s *Scanner, e *Envelope, members []stdMember) {
	attributes := e.Attributes("te")
	stored := StoredForm(nil, e)
	delivered := AppendDelivery(nil, stored, &full)
	var want []stdMember
	for _, m := range members {
		if m.name != "delivery" {
			want = append(want, m)
		}
	}
	got := stdMembers(t, delivered)
	last := got[len(got)-1]
	if !slices.Equal(got[:len(got)-1], want) || last.name != "delivery" {
		t.Fatalf("B57: %s", delivered)
	}
	var d struct {
		Mode, Cursor string
		Sequence     int64
	}
	if json.Unmarshal([]byte(last.raw), &d) != nil || d.Mode != "at_least_once" || d.Sequence != 42 || d.Cursor != `e"\1:42` {
		t.Fatalf("B57: %s", last.raw)
	}
	if a, err := s.ReadStored(stored, "te"); err != nil || a != attributes {
		t.Fatalf("%s: %+v, %v, want %+v", stored, a, err, attributes)
	}
	if original := AppendOriginal(nil, stored, e.Mode); !json.Valid(original) {
		t.Fatalf("B58: %s", original)
	}
}

// FuzzReadStored: no damage to a file makes it panic, and what it takes is a
// valid event with a delivery.
func FuzzReadStored(f *testing.F) {
	for _, extra := range []string{"", `,"delivery":{"retry":{"a":[1]}}`, `,"target":"\u0061"`} {
		_, e := admitted(f, event(extra))
		f.Add(StoredForm(nil, e))
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		var s Scanner
		if _, err := s.ReadStored(stored, ""); err != nil {
			return
		}
		if delivered := AppendDelivery(nil, stored, &full); !json.Valid(delivered) {
			t.Fatalf("%q", delivered)
		}
		for mode := range modeCount {
			if original := AppendOriginal(nil, stored, mode); !json.Valid(original) {
				t.Fatalf("%q", original)
			}
		}
	})
}

// slowMatch is B49 read aloud.
func slowMatch(pattern, typ string) bool {
	if pattern == "*" {
		return true
	}
	p, s := strings.Split(pattern, "."), strings.Split(typ, ".")
	if p[len(p)-1] == "*" {
		if len(s) < len(p) {
			return false
		}
		s = s[:len(p)-1]
		p = p[:len(p)-1]
	}
	return slices.EqualFunc(p, s, func(want, got string) bool { return want == "*" || want == got })
}

// FuzzPattern compares with the slow reference, and holds the keys to E4.
func FuzzPattern(f *testing.F) {
	for _, row := range rows(f, "patterns.txt", 3) {
		for typ := range strings.FieldsSeq(row[1] + " " + row[2]) {
			f.Add(row[0], row[0], typ)
		}
	}
	f.Add("a.*.c", "*", "a.b.c")
	f.Fuzz(func(t *testing.T, one, other, typ string) {
		if !ValidType(typ) || !utf8.ValidString(one) || !utf8.ValidString(other) {
			return
		}
		payload, err := json.Marshal(map[string][]string{"types": {one, other}})
		if err != nil {
			t.Fatal(err)
		}
		r, fault := readFilter(t, string(payload), "")
		if legal := legalPattern(one) && legalPattern(other) && len(one) <= 512 && len(other) <= 512; (fault == nil) != legal {
			t.Fatalf("%s: %v", payload, fault)
		}
		if fault != nil {
			return
		}
		a := Attributes{Type: typ}
		want := slowMatch(one, typ) || slowMatch(other, typ)
		if got := r.Filter.Match(&a); got != want {
			t.Fatalf("%s and %s: %v, want %v", payload, typ, got, want)
		}
		if want && !found(r.Filter, &a) {
			t.Fatalf("E4: %s is not found for %s", payload, typ)
		}
		again := filterOf(t, `{"types":["`+strings.Join(canonicalTypes(t, r.Filter), `","`)+`"]}`)
		if again.Canonical() != r.Filter.Canonical() {
			t.Fatalf("E4: %s, again %s", r.Filter.Canonical(), again.Canonical())
		}
	})
}

// canonicalTypes returns the types of a canonical text, escaped for another.
func canonicalTypes(t *testing.T, f *Filter) []string {
	var c struct{ Types []string }
	if err := json.Unmarshal([]byte(f.Canonical()), &c); err != nil {
		t.Fatalf("E5: %s: %v", f.Canonical(), err)
	}
	for i, typ := range c.Types {
		quoted := appendQuoted(nil, typ)
		c.Types[i] = string(quoted[1 : len(quoted)-1])
	}
	return c.Types
}

// FuzzCursor: what is parsed comes back when it is written.
func FuzzCursor(f *testing.F) {
	f.Add("a:b:7")
	f.Add("x:007")
	f.Fuzz(func(t *testing.T, text string) {
		id, n, err := ParseCursor([]byte(text))
		if err != nil {
			return
		}
		again, m, err := ParseCursor(AppendCursor(nil, string(id), n))
		if err != nil || !bytes.Equal(again, id) || m != n || n < 0 {
			t.Fatalf("%q: %q %d, again %q %d %v", text, id, n, again, m, err)
		}
	})
}
