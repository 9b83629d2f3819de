package synccrypt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestDecodePayload is D14.
func TestDecodePayload(t *testing.T) {
	const (
		hlc  = `"hlc":"` + someHLC + `"`
		rest = `"id":"1","schemaVersion":1,"table":"todo"`
	)
	full := Payload{SchemaVersion: 1, Table: "todo", ID: "1", HLC: someHLC}
	with := func(change func(*Payload)) Payload {
		p := full
		change(&p)
		return p
	}
	for _, c := range []struct {
		name, text string
		want       Payload
		err        error
	}{
		{"an upsert", `{` + hlc + `,"op":"upsert","row":{"b":1,"a":2},` + rest + `}`, with(func(p *Payload) { p.Row = []byte(`{"a":2,"b":1}`) }), nil},
		{"a delete", `{` + hlc + `,"op":"delete",` + rest + `}`, with(func(p *Payload) { p.Deleted = true }), nil},
		{"a row of 64 levels", `{` + hlc + `,"op":"upsert","row":` + deep(64) + `,` + rest + `}`, with(func(p *Payload) { p.Row = []byte(deep(64)) }), nil},
		{"a row of 65 levels", `{` + hlc + `,"op":"upsert","row":` + deep(65) + `,` + rest + `}`, Payload{}, ErrPayload},
		{"an escaped id", `{` + hlc + `,"op":"delete","id":"\u00e9\"\\","schemaVersion":1,"table":"todo"}`, with(func(p *Payload) { p.Deleted, p.ID = true, `é"\` }), nil},

		{"a later version", `{` + hlc + `,"op":"merge","id":"1","schemaVersion":2,"table":"todo","x":1}`, with(func(p *Payload) { p.SchemaVersion = 2 }), ErrUnknown},
		{"a later version of other names", `{"hlc":5,"id":"\n","schemaVersion":3,"table":"a b"}`, Payload{SchemaVersion: 3}, ErrUnknown},
		{"an unknown op", `{` + hlc + `,"op":"merge",` + rest + `}`, full, ErrUnknown},
		{"an unknown member", `{` + hlc + `,"op":"delete","z":1,` + rest + `}`, full, ErrUnknown},

		{"no object", `[]`, Payload{}, ErrPayload},
		{"no JSON", `{`, Payload{}, ErrPayload},
		{"empty", ``, Payload{}, ErrPayload},
		{"a name twice", `{` + hlc + `,` + hlc + `,"op":"delete",` + rest + `}`, Payload{}, ErrPayload},
		{"no version", `{` + hlc + `,"op":"delete","id":"1","table":"todo"}`, Payload{}, ErrPayload},
		{"version 0", `{` + hlc + `,"op":"delete","id":"1","schemaVersion":0,"table":"todo"}`, Payload{}, ErrPayload},
		{"version -2", `{` + hlc + `,"op":"delete","id":"1","schemaVersion":-2,"table":"todo"}`, Payload{}, ErrPayload},
		{"version 1.5", `{` + hlc + `,"op":"delete","id":"1","schemaVersion":1.5,"table":"todo"}`, Payload{}, ErrPayload},
		{"version 2^40", `{` + hlc + `,"op":"delete","id":"1","schemaVersion":1099511627776,"table":"todo"}`, Payload{}, ErrPayload},
		{"version as text", `{` + hlc + `,"op":"delete","id":"1","schemaVersion":"1","table":"todo"}`, Payload{}, ErrPayload},
		{"no op", `{` + hlc + `,` + rest + `}`, Payload{}, ErrPayload},
		{"op as number", `{` + hlc + `,"op":1,` + rest + `}`, Payload{}, ErrPayload},
		{"an upsert without row", `{` + hlc + `,"op":"upsert",` + rest + `}`, Payload{}, ErrPayload},
		{"an upsert of null", `{` + hlc + `,"op":"upsert","row":null,` + rest + `}`, Payload{}, ErrPayload},
		{"an upsert of a list", `{` + hlc + `,"op":"upsert","row":[],` + rest + `}`, Payload{}, ErrPayload},
		{"a delete with a row", `{` + hlc + `,"op":"delete","row":{},` + rest + `}`, Payload{}, ErrPayload},
		{"a delete with null", `{` + hlc + `,"op":"delete","row":null,` + rest + `}`, Payload{}, ErrPayload},
		{"no clock", `{"op":"delete",` + rest + `}`, Payload{}, ErrPayload},
		{"a bad clock", `{"hlc":"1","op":"delete",` + rest + `}`, Payload{}, ErrPayload},
		{"no id", `{` + hlc + `,"op":"delete","schemaVersion":1,"table":"todo"}`, Payload{}, ErrPayload},
		{"an id with half a pair", `{` + hlc + `,"op":"delete","id":"\ud83d","schemaVersion":1,"table":"todo"}`, Payload{}, ErrPayload},
		{"no table", `{` + hlc + `,"op":"delete","id":"1","schemaVersion":1}`, Payload{}, ErrPayload},
	} {
		plain := []byte(c.text)
		p, err := DecodePayload(plain)
		if !errors.Is(err, c.err) || fmt.Sprintf("%+v", p) != fmt.Sprintf("%+v", c.want) || string(plain) != c.text {
			t.Errorf("%s: %+v, %v, want %+v", c.name, p, err, c.want)
		}
	}
}

func deep(levels int) string {
	return strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
}

// TestAppendPayload is D14: what breaks it is not written (K4).
func TestAppendPayload(t *testing.T) {
	good := Payload{SchemaVersion: 1, Table: "todo", ID: "1", HLC: someHLC, Row: []byte(`{"b":1, "a":2}`)}
	text, err := good.Append([]byte("x"))
	if err != nil || string(text) != `x{"hlc":"`+someHLC+`","id":"1","op":"upsert","row":{"a":2,"b":1},"schemaVersion":1,"table":"todo"}` {
		t.Errorf("%s, %v", text, err)
	}
	for name, change := range map[string]func(*Payload){
		"version 0":           func(p *Payload) { p.SchemaVersion = 0 },
		"a huge version":      func(p *Payload) { p.SchemaVersion = 1 << 40 },
		"no table":            func(p *Payload) { p.Table = "" },
		"no id":               func(p *Payload) { p.ID = "" },
		"no clock":            func(p *Payload) { p.HLC = "" },
		"no row":              func(p *Payload) { p.Row = nil },
		"a list":              func(p *Payload) { p.Row = []byte(`[]`) },
		"no JSON":             func(p *Payload) { p.Row = []byte(`{"a"}`) },
		"more than one value": func(p *Payload) { p.Row = []byte(`{},"x":{}`) },
		"a row of 65 levels":  func(p *Payload) { p.Row = []byte(deep(65)) },
		"a delete with a row": func(p *Payload) { p.Deleted = true },
	} {
		p := good
		change(&p)
		if text, err := p.Append([]byte("x")); !errors.Is(err, ErrPayload) || string(text) != "x" {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// TestNames is the bounds of names.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		valid func(string) bool
		name  string
		yes   []string
		no    []string
	}{
		{
			ValidTable, "table",
			[]string{"a", "Z", "0", "_", ".", "-", "blob", strings.Repeat("a", 64)},
			[]string{"", strings.Repeat("a", 65), "a b", "a/b", "é", "a\n", "@", "[", "`", "{", "\x00"},
		},
		{
			ValidRowID, "row id",
			[]string{"1", " ", "é😀\u2028", `"`, strings.Repeat("é", 128), "\ufffd"},
			[]string{"", strings.Repeat("a", 257), "a\n", "\x00", "\x7f", "\u0085", "\xff", "a\xed\xa0\xbd"},
		},
		{
			ValidDeviceID, "device id",
			[]string{"a", "z9-", "-", strings.Repeat("0", 64)},
			[]string{"", strings.Repeat("a", 65), "A", "a_b", "a.b", "é", "a\n", "a b"},
		},
	} {
		for _, s := range c.yes {
			if !c.valid(s) {
				t.Errorf("%s %q is refused", c.name, s)
			}
		}
		for _, s := range c.no {
			if c.valid(s) {
				t.Errorf("%s %q is taken", c.name, s)
			}
		}
	}
}

// TestStreamID is D13: one pseudonym a row, unlike for each owner, and names do
// not run into each other.
func TestStreamID(t *testing.T) {
	seen := map[string]string{}
	for _, credential := range []string{goodPhrase, goodNative} {
		id := identity(t, credential)
		for _, key := range [][2]string{{"a", "b"}, {"a", `b","c`}, {"a.b", "c"}, {"a", "b.c"}, {"ab", "c"}, {"a", "bc"}, {"blob", "x"}} {
			stream, what := id.StreamID(key[0], key[1]), fmt.Sprint(id, key)
			if len(stream) != 22 || seen[stream] != "" {
				t.Errorf("%s: %s, which is also of %s", what, stream, seen[stream])
			}
			if seen[stream] = what; id.StreamID(key[0], key[1]) != stream {
				t.Errorf("%s: another one the second time", what)
			}
		}
	}
}
