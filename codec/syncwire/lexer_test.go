package syncwire

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// values are JSON texts and what is nearly one.
var values = []string{
	"0", "-0", "10", "-10", "0.5", "1.50", "1e5", "1E+5", "1.0e-05", "-0.0E-0", "0e1",
	"01", "-01", "-", "+1", ".5", "1.", "1.e5", "1e", "1e+", "1e5.", "1e5e5", "1-", "--1", "0x1", "1 2", "1,",
	"true", "false", "null", "tru", "truE", "True", "nulll", "falsee", "t", "fal se", "NaN",
	`""`, `"a"`, `"\"\\\/\b\f\n\r\t\u00e9\uABCD"`, `"é€😀"`, "\"\x7f\"", `"\ud83d\ude00"`, `"\ud83d"`,
	`"`, `"\"`, `"\x"`, `"\u12g4"`, `"\u12"`, `"\U0041"`, "\"\n\"", "\"\x00\"", "\"\x1f\"", `'a'`, `"a" "b"`,
	"[]", "[ ]", "[1]", "[[],[[]]]", "[1 , 2]", "[,]", "[1,]", "[,1]", "[1 2]", "[1:2]", "[", "]", "[}", "[1}",
	"{}", "{ }", `{"a":1}`, `{ "a" : { "b" : [ ] } , "c" : 2 }`, `{"":{}}`,
	"{", "}", "{]", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a"::1}`, `{a:1}`, `{1:1}`, `{"a":1]`, `{"a":1"b":2}`,
	`{"a":1;"b":2}`, "\v", "\f1", "\u00a01", "", " ", "/**/1", "1//",
}

// TestGrammar is S7: what is JSON to encoding/json is JSON here, in a member
// that nobody reads and in an envelope, whole and byte by byte.
func TestGrammar(t *testing.T) {
	for _, value := range values {
		e := envelope("1", `,"x":`+value)
		for _, text := range []string{body(e), `{"x":` + value + `,"ownerId":"o","events":[]}`} {
			for _, size := range []int{1, len(text)} {
				_, err := push(text, wide, size)
				if want := json.Valid([]byte(text)); want != (err == nil) {
					t.Errorf("%s: %v, valid %v", text, err, want)
				} else if err != nil {
					wantFault(t, text, err, BadRequest, -1)
				}
			}
		}
	}
}

// TestUTF8 is S7: each byte sequence around the borders of UTF-8, cut anywhere.
func TestUTF8(t *testing.T) {
	for _, s := range []string{"\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"} {
		for size := range 5 {
			if _, err := push(body(envelope("1", `,"`+s+`":"`+s+`x`+s+`"`)), wide, size+1); err != nil {
				t.Errorf("%x: %v", s, err)
			}
		}
	}
	for _, s := range []string{
		"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xe1\x80", "\xe1\x80\x41",
		"\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf1\x80\x80\x41", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
	} {
		for size := range 5 {
			_, err := push(body(envelope("1", `,"x":"`+s+`"`)), wide, size+1)
			wantFault(t, s, err, BadRequest, -1)
		}
	}
}

// TestNames: names are equal when what they spell is (S18).
func TestNames(t *testing.T) {
	f := func(a, b string, equal bool) {
		t.Helper()
		_, err := push(body(envelope("1", `,"`+a+`":1,"`+b+`":2`)), wide, 1<<20)
		if equal {
			wantFault(t, a+" "+b, err, BadEnvelope, 0)
		} else if err != nil {
			t.Errorf("%s %s: %v", a, b, err)
		}
	}
	f(`\ud83d\ude00`, "😀", true)
	f(`\uD83D\uDE00x\u0041`, `😀x\u0041`, true)
	f(`\b\f\n\r\t\/\"\\`, `\u0008\u000C\u000a\u000D\u0009/\u0022\u005c`, true)
	f(`\u00e9`, "é", true)
	f(`\u20ac`, "€", true)
	f(`\ud83d`, `\ud83d`, true)
	f(`\ud83d`, `\ude00`, false)
	f(`\ud83d\u0041`, `\ufffdA`, false)
	f(`\ud83d\ud83d\ude00`, `\ufffd😀`, false)
	f(`\ud83dxude00`, "😀", false)
	f("é", "e\u0301", false) // no normal form is taken
	f("a", "A", false)
	f("", " ", false)
}

// TestTwoFaults is Y4 where an envelope is too large and broken: what comes
// first is told, wherever the body is cut.
func TestTwoFaults(t *testing.T) {
	start := `{"ownerId":"o","events":[`
	for _, broken := range []string{"\xe2\x82\"", "\xf0\x9f\x98\"", `\q`, `\u00g`, "\n", `",]`, `":01}`, `":tru3`, `":[}`, `":{]`} {
		for _, space := range []string{"", " \n "} {
			text := start + `{` + space + `"abcdefgh` + broken
			for limit := 5; limit < 25; limit++ {
				_, want := push(text, Limits{1, limit}, len(text))
				for size := range len(text) - 1 {
					if _, err := push(text, Limits{1, limit}, size+1); err == nil || err.Error() != want.Error() {
						t.Errorf("%q, limit %d, pieces of %d: %v, want %v", text, limit, size+1, err, want)
					}
				}
			}
		}
	}
}

// TestLongNames: names at the top of a body may have any length.
func TestLongNames(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", 5000), strings.Repeat(`\u006f`, 7) + "x", "ownerId" + strings.Repeat("x", 40)} {
		for _, size := range []int{1, 50, 10_000} {
			text := `{"` + name + `":[{"a":1}],"ownerId":"o","events":[]}`
			if _, err := push(text, wide, size); err != nil {
				t.Errorf("%.50s: %v", text, err)
			}
			for _, broken := range []string{`\q`, "\xe2\x82x", "\n", `\u00 `} {
				_, err := push(`{"`+name+broken, wide, size)
				wantFault(t, name+broken, err, BadRequest, -1)
			}
		}
	}
	text := `{"` + strings.Repeat(`\u006f`, 1) + `wnerId":"o","` + `\u0065\u0076\u0065\u006e\u0074\u0073` + `":[]}`
	if sink, err := push(text, wide, 1); err != nil || !slices.Equal(sink.owners, []string{"o"}) {
		t.Error(err, sink.owners)
	}
}
