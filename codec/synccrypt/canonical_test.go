package synccrypt

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestCanonical is D10 and RFC 8785 in tables.
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"no white space", " { \"a\" : [ 1 , 2 ] ,\n\t\"b\":\r null } ", `{"a":[1,2],"b":null}`},
		{"empty containers", `[ { } , [ ] ]`, `[{},[]]`},
		{"sorted at every level", `{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":true}`, `{"a":true,"b":{"c":[{"e":2,"f":1}],"d":1}}`},
		{"a name that begins another", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{
			"RFC 8785, section 3.2.3",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		{"escapes of JSON.stringify", `"\u0008\u0009\u000a\u000C\u000d\u0000\u001F\u000b"`, `"\b\t\n\f\r\u0000\u001f\u000b"`},
		{"no needless escapes", `"\/\u0041\u00e9\u2028\u2029\u007f\ud83d\uDE00"`, "\"/Aé\u2028\u2029\u007f😀\""},
		{"quotes and backslashes", `"\u0022\u005c\"\\"`, `"\"\\\"\\"`},
		{"lone halves", `"\uD83D \uDE00\uD83D\uD83D\uDE00 \uD83D\n\ud83d"`, `"\ud83d \ude00\ud83d😀 \ud83d\n\ud83d"`},
		{"lone halves in names", `{"\ud83d\ude00":1,"\uE000":2,"\ud83d":3,"\ud83d\uffff":4,"\ud83dx":5,"\ude00":6}`, "{\"\\ud83d\":3,\"\\ud83dx\":5,\"😀\":1,\"\\ud83d\uffff\":4,\"\\ude00\":6,\"\ue000\":2}"},
		{"numbers keep their spelling", `[9007199254740993,-0,1.0,1E+2,0.10,1e400]`, `[9007199254740993,-0,1.0,1E+2,0.10,1e400]`},
		{"scalars", ` false`, `false`},
		{"64 levels", strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
	} {
		got, err := Canonical([]byte("x"), []byte(c.in))
		if err != nil || string(got) != "x"+c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// TestCanonicalRefuses: ErrJSON, and what was given comes back (K4).
func TestCanonicalRefuses(t *testing.T) {
	for _, c := range []struct{ name, in string }{
		{"empty", ""},
		{"blank", " \n"},
		{"a byte order mark", "\uFEFF{}"},
		{"trailing data", `{} x`},
		{"two values", `1 2`},
		{"a name twice", `{"a":1,"a":2}`},
		{"a name twice, apart", `{"b":1,"a":2,"c":3,"b":4}`},
		{"a name twice, escaped", `{"a":1,"\u0061":2}`},
		{"a name twice, inside", `[{"x":{"z":1,"a":1,"z":1}}]`},
		{"a lone half twice", `{"\ud83d":1,"\uD83D":2}`},
		{"invalid UTF-8", "\"\xff\""},
		{"an overlong form", "\"\xc0\xaf\""},
		{"a surrogate in UTF-8", "\"\xed\xa0\xbd\""},
		{"a cut character", "\"\xe2\x82\""},
		{"a control character", "\"\n\""},
		{"an unknown escape", `"\x41"`},
		{"a short escape", `"\u004"`},
		{"an escape at the end", `"\`},
		{"an open string", `"abc`},
		{"an open object", `{"a":1`},
		{"an open array", `[1`},
		{"a comma too many", `[1,]`},
		{"a comma too many in an object", `{"a":1,}`},
		{"no comma", `[1 2]`},
		{"no colon", `{"a" 1}`},
		{"no name", `{1:2}`},
		{"no value", `{"a":}`},
		{"wrong brackets", `[1}`},
		{"a leading zero", `01`},
		{"a bare point", `1.`},
		{"a plus", `+1`},
		{"NaN", `NaN`},
		{"a long literal", `truee`},
		{"a short literal", `tru`},
		{"65 levels", strings.Repeat("[", 65) + strings.Repeat("]", 65)},
		{"65 levels of objects", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65)},
		{"very deep", strings.Repeat("[", 1<<20)},
	} {
		got, err := Canonical([]byte("x"), []byte(c.in))
		if !errors.Is(err, ErrJSON) || string(got) != "x" {
			t.Errorf("%s: %.100s, %v", c.name, got, err)
		}
	}
}

// unitsOf are the code units of a string, as a JavaScript engine has them.
func unitsOf(runes []rune) (units []uint16) {
	for _, r := range runes {
		if r >= beyondBasic {
			units = utf16.AppendRune(units, r)
		} else {
			units = append(units, uint16(r)) // lone halves too
		}
	}
	return units
}

// TestNameOrder compares the order of spelled names with that of their code
// units.
func TestNameOrder(t *testing.T) {
	alphabet := []rune{0, '\b', '\n', '"', '/', '\\', 'a', 'b', 0x7f, 0xe9, 0x2028, 0xD7FF, 0xD800, 0xD83D, 0xDBFF, 0xDC00, 0xDE00, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	random := func() (spelled []byte, units []uint16) {
		var runes []rune
		for range r.IntN(4) {
			next := alphabet[r.IntN(len(alphabet))]
			if n := len(runes); n > 0 && isHighHalf(runes[n-1]) && isLowHalf(next) {
				continue // together they would be one character
			}
			runes = append(runes, next)
			spelled = appendUnit(spelled, next)
		}
		return spelled, unitsOf(runes)
	}
	sign := func(n int) int { return max(-1, min(1, n)) }
	for range 200_000 {
		a, unitsA := random()
		b, unitsB := random()
		if got, want := sign(compareNames(a, b)), slices.Compare(unitsA, unitsB); got != want {
			t.Fatalf("seed %d: %q and %q: %d, want %d", seed, a, b, got, want)
		}
	}
}

// TestCanonicalManyMembers: order and repeats are found among many.
func TestCanonicalManyMembers(t *testing.T) {
	var names []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("%d", i*7919%20_011))
	}
	text := func() []byte { return []byte(`{"` + strings.Join(names, `":{"b":1,"a":2},"`) + `":0}`) }
	got, err := Canonical(nil, text())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	if err := eachMember(got, func(name, _ []byte) error { list = append(list, string(name)); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(list) != len(names) || !slices.IsSorted(list) || !json.Valid(got) {
		t.Errorf("%d of %d members", len(list), len(names))
	}
	names = append(names, names[10_000])
	if _, err := Canonical(nil, text()); !errors.Is(err, ErrJSON) {
		t.Errorf("a repeat among many: %v", err)
	}
}
