package aep

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeHello(t *testing.T) {
	raw := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(s)
	}
	for _, c := range []struct {
		rule, text string
		want       Hello
	}{
		{"R306", `{"type":"hello"}`, Hello{Role: RoleBoth}},
		{"R306", `{"versions":["0.2","0.1"]}`, Hello{VersionOK: true, Role: RoleBoth}},
		{"R306", `{"versions":[1,null,["0.1"],"\u0030.1"]}`, Hello{VersionOK: true, Role: RoleBoth}},
		{"R306", `{"versions":["0.2",["0.1"]]}`, Hello{Role: RoleBoth}},
		{"R306", `{"versions":"0.1"}`, Hello{Role: RoleBoth}},
		{"R306", `{"versions":{"0.1":"0.1"}}`, Hello{Role: RoleBoth}},
		{"R306 names have a case", `{"Versions":["0.1"],"ROLE":"emitter"}`, Hello{Role: RoleBoth}},
		{"R311", `{"role":"consumer"}`, Hello{Role: RoleConsumer}},
		{"R311", `{"role":"emit\u0074er"}`, Hello{Role: RoleEmitter}},
		{"R311", `{"role":"king"}`, Hello{Role: RoleBoth}},
		{"R311", `{"role":5}`, Hello{Role: RoleBoth}},
		{"R311", `{"role":["consumer"]}`, Hello{Role: RoleBoth}},
		{"R118", `{"\u0072ole":"consumer"}`, Hello{Role: RoleConsumer}},
		{"R311", `{"identity":null}`, Hello{Role: RoleBoth}},
		{"R311", `{"identity":"me"}`, Hello{Role: RoleBoth}},
		{"R312", `{"identity":{"agent":"a","instance":"i", "x":1.0}}`, Hello{Role: RoleBoth, Identity: raw(`{"agent":"a","instance":"i", "x":1.0}`), Agent: "a", Instance: "i"}},
		{"R381", `{"identity":{"agent":5,"instance":""}}`, Hello{Role: RoleBoth, Identity: raw(`{"agent":5,"instance":""}`)}},
		{"R381", `{"identity":{"agent":"\u00e9\n"}}`, Hello{Role: RoleBoth, Identity: raw(`{"agent":"\u00e9\n"}`), Agent: "é\n"}},
		{"R395 undeclared", `{"capabilities":{}}`, Hello{Role: RoleBoth}},
		{"R395 undeclared", `{"capabilities":5}`, Hello{Role: RoleBoth}},
		{"R395 undeclared", `{"capabilities":{"control":null,"emits":null}}`, Hello{Role: RoleBoth}},
		{"R395 undeclared", `{"capabilities":{"control":{}}}`, Hello{Role: RoleBoth, Control: raw(`{}`)}},
		{"R395 undeclared", `{"capabilities":{"control":{"accepts":null}}}`, Hello{Role: RoleBoth, Control: raw(`{"accepts":null}`)}},
		{"R395 undeclared", `{"capabilities":{"control":"yes"}}`, Hello{Role: RoleBoth, Control: raw(`"yes"`)}},
		{"R395", `{"capabilities":{"control":{"accepts":["a","\u0062"]},"emits":["x.*"]}}`, Hello{Role: RoleBoth, Control: raw(`{"accepts":["a","\u0062"]}`), Emits: raw(`["x.*"]`), Accepts: []string{"a", "b"}, AcceptsDeclared: true}},
		{"R395 empty", `{"capabilities":{"control":{"accepts":[]}}}`, Hello{Role: RoleBoth, Control: raw(`{"accepts":[]}`), Accepts: []string{}, AcceptsDeclared: true}},
		{"W6", `{"capabilities":{"control":{"accepts":"control.cancel"}}}`, Hello{Role: RoleBoth, Control: raw(`{"accepts":"control.cancel"}`), AcceptsDeclared: true}},
		{"W6", `{"capabilities":{"control":{"accepts":["a",5]}}}`, Hello{Role: RoleBoth, Control: raw(`{"accepts":["a",5]}`), AcceptsDeclared: true}},
		{"W6", `{"capabilities":{"control":{"accepts":{"0":"a"}}}}`, Hello{Role: RoleBoth, Control: raw(`{"accepts":{"0":"a"}}`), AcceptsDeclared: true}},
		{"surrogates elsewhere", `{"x":"\ud800","\udc00":1,"role":"consumer"}`, Hello{Role: RoleConsumer}},
		{"last wins", `{"role":"consumer","role":"emitter"}`, Hello{Role: RoleEmitter}},
		{"white space", "\n{ \"role\" : \"consumer\" , \"capabilities\" : { \"emits\" : [ 1 ] } }\t", Hello{Role: RoleConsumer, Emits: raw(`[ 1 ]`)}},
	} {
		got, err := DecodeHello([]byte(c.text))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s:\n got %+v, %v\nwant %+v", c.rule, c.text, got, err, c.want)
		}
	}
	for _, text := range []string{``, `null`, `[]`, `"hello"`, `5`, `{`} {
		if _, err := DecodeHello([]byte(text)); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHelloLimits: control and emits may have 4 KiB each (R312).
func TestHelloLimits(t *testing.T) {
	for _, c := range []struct {
		control, emits int
		err            error
	}{
		{4096, 4096, nil}, {4097, 10, ErrHelloTooLarge}, {10, 4097, ErrHelloTooLarge},
	} {
		text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
		hello := `{"capabilities":{"control":` + text(c.control) + `,"emits":` + text(c.emits) + `}}`
		if _, err := DecodeHello([]byte(hello)); !errors.Is(err, c.err) {
			t.Errorf("R312: %d and %d bytes: %v", c.control, c.emits, err)
		}
	}
}

func TestDecodeSubscribe(t *testing.T) {
	for _, c := range []struct {
		text string
		want Subscribe
	}{
		{`{"type":"subscribe"}`, Subscribe{}},
		{`{"id":"1","filter":{"a":1.0},"from":[ {} ],"capture":"full"}`, Subscribe{[]byte(`"1"`), []byte(`{"a":1.0}`), []byte(`[ {} ]`), []byte(`"full"`)}},
		{`{"id":null,"filter":null,"from":null,"capture":null}`, Subscribe{IDRaw: []byte(`null`), From: []byte(`null`)}},
		{`{"ID":1,"Filter":{},"id":1e0}`, Subscribe{IDRaw: []byte(`1e0`)}},
		{`{"i\u0064":1,"id":{"a":[true]}}`, Subscribe{IDRaw: []byte(`{"a":[true]}`)}},
		{`{"from":"all","filter":"x"}`, Subscribe{From: []byte(`"all"`), Filter: []byte(`"x"`)}},
	} {
		text := []byte(c.text)
		got, err := DecodeSubscribe(text)
		for i := range text {
			text[i] = 'x' // the result owns its bytes
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %q, %v\nwant %q", c.text, got, err, c.want)
		}
	}
	if _, err := DecodeSubscribe([]byte(`[]`)); !errors.Is(err, ErrFrame) {
		t.Errorf("got %v", err)
	}
}

// TestDecodeDeep: the deepest text that Scan accepts is decoded.
func TestDecodeDeep(t *testing.T) {
	deep := strings.Repeat(`[`, maxDepth-1) + strings.Repeat(`]`, maxDepth-1)
	text := []byte(`{"filter":` + deep + `,"x":` + deep + `,"id":1}`)
	var s Scanner
	if err := s.Scan(text); err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSubscribe(text)
	if err != nil || string(got.Filter) != deep || string(got.IDRaw) != "1" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSubscriptionID(t *testing.T) {
	classes := [][]string{ // one class, one identity (R323)
		{`"1"`, `"\u0031"`},
		{`1`, `1.0`, `10e-1`, `0.1E+1`, `1e0`},
		{`-1`, `-1.00`},
		{`0`, `-0`, `0.0e5`},
		{`1.5`, `15e-1`, `1.50`, `0.015e2`},
		{`1e400`, `10e399`},
		{`1e-99999999999999999999999`, `0.1e-99999999999999999999998`},
		{`"1e0"`},
		{`"n1e0"`},
		{`""`},
		{`"s"`},
		{`100`, `1e2`},
		{"\"\xef\xbf\xbd\"", `"\ud800"`},
	}
	seen := map[string]int{"": -1} // the key of an absent id
	for i, class := range classes {
		for _, raw := range class {
			key, err := ParseSubscriptionID([]byte(raw))
			if err != nil {
				t.Errorf("R323: %s: %v", raw, err)
				continue
			}
			if other, ok := seen[key]; ok && other != i {
				t.Errorf("R323: %s is as class %d", raw, other)
			}
			seen[key] = i
		}
	}
	if len(seen) != len(classes)+1 {
		t.Errorf("R323: %d keys for %d values", len(seen), len(classes))
	}
	if key, err := ParseSubscriptionID(nil); key != "" || err != nil {
		t.Errorf("R323: absent: %q, %v", key, err)
	}
	long := `"` + strings.Repeat("x", 254) + `"`
	if _, err := ParseSubscriptionID([]byte(long)); err != nil {
		t.Errorf("R321: 256 bytes: %v", err)
	}
	for _, raw := range []string{``, `null`, `true`, `false`, `{}`, `[]`, `[1]`, `"`, `"\"`, `01`, `1 2`, `"x` + long[1:]} {
		if key, err := ParseSubscriptionID([]byte(raw)); !errors.Is(err, ErrSubscriptionID) {
			t.Errorf("R323: %s: %q, %v", raw, key, err)
		}
	}
}

func TestParseCeiling(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want Ceiling
		ok   bool
	}{
		{`"none"`, CeilingAt(LevelNone), true},
		{`"metadata"`, CeilingAt(LevelMetadata), true},
		{`"redacted"`, CeilingAt(LevelRedacted), true},
		{` "full" `, CeilingAt(LevelFull), true},
		{`"f\u0075ll"`, CeilingAt(LevelFull), true},
		{`null`, NoCeiling, true},
		{`""`, 0, false},
		{`"Full"`, 0, false},
		{`"most"`, 0, false},
		{`full`, 0, false},
		{`3`, 0, false},
		{`["full"]`, 0, false},
		{`{}`, 0, false},
		{``, 0, false},
		{`"\`, 0, false},
	} {
		got, err := ParseCeiling([]byte(c.raw))
		if got != c.want || (err == nil) != c.ok || err != nil && !errors.Is(err, ErrCeiling) {
			t.Errorf("R240: %s: %v, %v", c.raw, got, err)
		}
	}
	if got, err := ParseCeiling(nil); got != NoCeiling || err != nil {
		t.Errorf("R240: absent: %v, %v", got, err)
	}
	for text, want := range map[string]Ceiling{"": NoCeiling, "none": CeilingAt(LevelNone), "full": CeilingAt(LevelFull)} {
		if got, err := ParseCeilingQuery([]byte(text)); got != want || err != nil {
			t.Errorf("R240: query %q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"null", `"full"`, "FULL", " full", "3"} {
		if _, err := ParseCeilingQuery([]byte(text)); !errors.Is(err, ErrCeiling) {
			t.Errorf("R240: query %q: %v", text, err)
		}
	}
}

func FuzzDecodeFrames(f *testing.F) {
	for _, seed := range []string{
		`{"type":"hello","versions":["0.1"],"role":"both","identity":{"agent":"a"},"capabilities":{"control":{"accepts":["a"]},"emits":[]}}`,
		`{"type":"subscribe","id":1.50,"filter":{},"from":[],"capture":"full"}`,
		`{"id":"\ud800","filter":{"\u0061":"\udc00"}}`, `{"a":1e400,"id":-0}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Scanner
		if s.Scan(text) != nil {
			return
		}
		hello, err := DecodeHello(text)
		if !s.IsObject() {
			if !errors.Is(err, ErrFrame) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if err != nil && !errors.Is(err, ErrHelloTooLarge) {
			t.Errorf("%q: hello: %v", text, err)
		}
		if len(hello.Accepts) > 0 && !hello.AcceptsDeclared {
			t.Errorf("%q: %+v", text, hello)
		}
		sub, err := DecodeSubscribe(text)
		if err != nil {
			t.Fatalf("%q: subscribe: %v", text, err)
		}
		// The scanner agrees on what the members are.
		id, ok := s.RawMember("id")
		if ok != (sub.IDRaw != nil) || !bytes.Equal(id, sub.IDRaw) {
			t.Errorf("%q: id %q, scanner %q", text, sub.IDRaw, id)
		}
		if _, err := ParseSubscriptionID(sub.IDRaw); err == nil {
			if err := s.Scan(AppendSubscribed(nil, sub.IDRaw)); err != nil {
				t.Errorf("%q: echo: %v", text, err)
			}
		}
	})
}
