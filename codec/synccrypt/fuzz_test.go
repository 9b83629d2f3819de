package synccrypt

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// fuzzID is the owner of the fuzz targets.
func fuzzID(t testing.TB) *Identity { return identity(t, goodPhrase) }

// FuzzOpen: what is no envelope of this owner is refused, with one of three
// reasons, and what opens is what its owner sealed.
func FuzzOpen(f *testing.F) {
	id := fuzzID(f)
	good := sealed(f, id, "1")
	for _, text := range []string{
		good, " " + good, good[:len(good)-1], good + "x", "{}", "[]", "",
		strings.Replace(good, `{`, `{"x":{"y":[1,"\u0041",null]},`, 1),
		strings.Replace(good, `"nonce"`, `"\u006eonce"`, 1),
		strings.Replace(good, "device-a", `d\u0065vice-a`, 1),
		strings.Replace(good, `"version":1`, `"version":1.0`, 1),
		sealed(f, identity(f, goodNative), "1"),
		string(sealPlain(f, id, `{"schemaVersion":2}`, "é", "")),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		plain, h, err := id.Open([]byte("x"), text)
		if !bytes.Equal(before, text) {
			t.Fatal("input modified")
		}
		if err != nil {
			if !errors.Is(err, ErrEnvelope) && !errors.Is(err, ErrOtherOwner) && !errors.Is(err, ErrTag) || string(plain) != "x" || h != (Header{}) {
				t.Fatalf("%q, %+v, %v", plain, h, err)
			}
			return
		}
		if !json.Valid(text) || h.OwnerID != id.OwnerID || h.EventID == "" || h.DeviceID == "" || h.CreatedAt == "" {
			t.Fatalf("%+v", h)
		}
		if _, _, _, err := id.OpenPayload(text); err != nil && !errors.Is(err, ErrPayload) && !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
	})
}

// FuzzCanonical: what encoding/json takes has a canonical form, with the
// exceptions of D10, and that is stable and means the same (K5).
func FuzzCanonical(f *testing.F) {
	for _, text := range []string{
		`{"b":{"d":1,"c":2},"a":[true,false,null,-1.5e3,"é\n\ud83d\ude00"]}`,
		`{"\ud83d":1,"\ue000":2,"\ud83d\ude00":3}`, `{"a":1,"a":2}`, `"\u2028\/\u001f"`, ` [ ] `, `1.`, "\"\xff\"",
		deep(64), deep(65), `{"a":{"z":1,"b":[{"y":1,"x":2}]},"":0}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		form, err := Canonical(nil, text)
		levels, twice, unsure := shape(text)
		want := json.Valid(text) && utf8.Valid(text) && levels <= maxDepth && !twice
		if !unsure && (err == nil) != want {
			t.Fatalf("%v; valid %v, %d levels, repeats %v", err, json.Valid(text), levels, twice)
		}
		if err != nil {
			if !errors.Is(err, ErrJSON) || form != nil {
				t.Fatalf("%q, %v", form, err)
			}
			return
		}
		again, err := Canonical(nil, form)
		if err != nil || !bytes.Equal(again, form) || len(form) > len(text) {
			t.Fatalf("%q, then %q, %v", form, again, err)
		}
		if !unsure && meaning(t, form) != meaning(t, text) {
			t.Fatalf("%q means something else", form)
		}
	})
}

// shape counts levels, and finds names that occur twice, for valid JSON. It is
// unsure where a name may have a lone half of a pair, which encoding/json does
// not keep apart.
func shape(text []byte) (levels int, twice, unsure bool) {
	if !json.Valid(text) {
		return 0, false, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type open struct {
		names map[string]bool // nil for an array
		name  bool            // a name is next
	}
	var stack []open
	for {
		token, err := d.Token()
		if err != nil {
			return levels, twice, unsure
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, open{map[string]bool{}, true})
			levels = max(levels, len(stack))
			continue
		case json.Delim('['):
			stack = append(stack, open{})
			levels = max(levels, len(stack))
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		default:
			if n := len(stack) - 1; n >= 0 && stack[n].name {
				name := token.(string)
				unsure = unsure || strings.ContainsRune(name, utf8.RuneError)
				twice = twice || stack[n].names[name]
				stack[n].names[name] = true
				stack[n].name = false
				continue
			}
		}
		if n := len(stack) - 1; n >= 0 {
			stack[n].name = stack[n].names != nil
		}
	}
}

// meaning is a form of valid JSON that encoding/json makes of it.
func meaning(t *testing.T, text []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// FuzzDecodePayload: decode, append, decode is stable.
func FuzzDecodePayload(f *testing.F) {
	for _, text := range []string{
		`{"hlc":"` + someHLC + `","id":"1","op":"upsert","row":{"a":1},"schemaVersion":1,"table":"todo"}`,
		`{"hlc":"` + someHLC + `","id":"\u00e9","op":"delete","schemaVersion":1,"table":"todo"}`,
		`{"table":"todo","schemaVersion":1,"row":{"b":1,"a":1},"op":"upsert","id":"1","hlc":"` + someHLC + `"}`,
		`{"schemaVersion":2,"x":[]}`, `{"schemaVersion":1}`, `{}`, `[]`, `"`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		p, err := DecodePayload(plain)
		if err != nil {
			if errors.Is(err, ErrUnknown) == errors.Is(err, ErrPayload) {
				t.Fatal(err)
			}
			return
		}
		text, err := p.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if form, err := Canonical(nil, plain); err == nil && !bytes.Equal(form, text) {
			t.Fatalf("%s, want %s", text, form)
		}
		again, err := DecodePayload(text)
		if err != nil || again.ID != p.ID || again.Table != p.Table || again.HLC != p.HLC || again.Deleted != p.Deleted || !bytes.Equal(again.Row, p.Row) {
			t.Fatalf("%+v, then %+v, %v", p, again, err)
		}
	})
}

// FuzzDecodeManifest: what is taken is within its bounds, and is written again
// as it was read.
func FuzzDecodeManifest(f *testing.F) {
	for _, m := range []*Manifest{someManifest(0, 0), someManifest(1, 0), someManifest(1, 9), someManifest(3, ChunkBytes)} {
		row, err := m.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(row)
		f.Add(bytes.Replace(row, []byte(`"hash"`), []byte(`"x":1,"hash"`), 1))
		f.Add(row[1:])
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		m, err := DecodeManifest(row)
		if err != nil {
			if errors.Is(err, ErrUnknown) == errors.Is(err, ErrManifest) {
				t.Fatal(err)
			}
			return
		}
		text, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeManifest(text)
		if err != nil || m.ByteSize < 0 || m.ByteSize > MaxChunks*ChunkBytes || len(again.Chunks) != len(m.Chunks) || len(m.Chunks) > MaxChunks {
			t.Fatalf("%+v, then %+v, %v", m, again, err)
		}
		if twice, err := again.Append(nil); err != nil || !bytes.Equal(twice, text) {
			t.Fatalf("%s, then %s, %v", text, twice, err)
		}
	})
}

// FuzzParseCredential: what is taken has a normal spelling that is itself, and
// is the same owner; what is refused is not repeated (D5).
func FuzzParseCredential(f *testing.F) {
	for _, text := range []string{
		goodPhrase, goodNative, strings.ToUpper(goodPhrase), "\uFEFF " + goodPhrase + "\n", goodPhrase + " legal",
		strings.Replace(goodPhrase, "wave", "wáve", 1), "sf1_", "SF1_x", "", "\xff", "ｌｅｇａｌ winner",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, normal, err := ParseCredential(text)
		if err != nil {
			var fault *CredentialError
			if !errors.As(err, &fault) || id != nil || normal != "" || fault.Word < 0 || fault.Word > 24 {
				t.Fatalf("%v, %v", id, err)
			}
			for _, word := range strings.Fields(text) {
				if len(word) > 12 && strings.Contains(err.Error(), word) {
					t.Fatalf("%q is in %v", word, err)
				}
			}
			return
		}
		again, same, err := ParseCredential(normal)
		if err != nil || same != normal || again.OwnerID != id.OwnerID || again.RelayAuth != id.RelayAuth {
			t.Fatalf("%v, %v", again, err)
		}
	})
}
