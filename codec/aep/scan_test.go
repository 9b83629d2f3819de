package aep

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func scanText(text string) error {
	var s Scanner
	return s.Scan([]byte(text))
}

// TestScanValid: texts of RFC 8259 that are odd but right.
func TestScanValid(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, `0`, `-0`, `null`, `true`, `false`, " \t\r\n{} \t\r\n",
		`{"":0}`, `{"a":1,"a":2}`, `[[],{},[{}],{"a":[]}]`, `{"a" : [ 1 , 2 ] , "b" : { } }`,
		`"\"\\\/\b\f\n\r\t\u0000\uFFFF\uaBcD"`, `"\ud800"`, `"\udc00\ud800"`, `"\\"`,
		"\"\x7f\"", "\"é中😀\uFFFD\"", "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"",
		`1e400`, `1E+2`, `1e-2`, `-0.0`, `123456789012345678901234567890`, `0.6667`, `0e0`,
		`"12345678"`, `"1234567"`, `"123456789012345\u0041"`, `{"a":{"b":{"c":[1,[2,[3]]]}}}`,
	} {
		if err := scanText(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("%q is not valid at all", text)
		}
	}
}

// badValues are values that no place of a text may hold (C69).
var badValues = []string{
	`1e2e3`, `01`, `-01`, `+1`, `.5`, `1.`, `1.e1`, `1e`, `1e+`, `-`, `--1`, `0x1`, `1_0`,
	`NaN`, `Infinity`, `-Infinity`, `nul`, `nulll`, `True`, `tru`, `fals`, `undefined`,
	`[1,]`, `[,1]`, `[,]`, `[1 2]`, `[1,,2]`, `[1}`, `[1`, `]`, `{"a":1,}`, `{,}`, `{a:1}`,
	`{'a':1}`, `{"a"}`, `{"a" 1}`, `{"a":}`, `{"a":1 "b":2}`, `{"a":1]`, `{1:1}`, `{"a":1`,
	`{"a"::1}`, `}`, `'a'`, `"a`, `"\q"`, `"\x41"`, `"\u12"`, `"\u12g4"`, `"\u"`, `"\`,
	`"\U0041"`, "\"\x00\"", "\"\x1f\"", "\"a\nb\"", "\"\t\"", "\"12345678\x01\"", `/**/1`,
	"\"\xff\"", "\"\x80\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
	"\"\xe4\xb8\"", "\"12345678\xc3\"", "\"\xc3\\u00a9\"", "\xc2\xa0", "\xef\xbb\xbf1",
	"1\v", "\f1", "1 2", "{}{}", "[]]", `"a""b"`,
}

// TestScanInvalid is R70 check 7 and C69: bad values are found at the top, in
// a member, and 20 levels deep, though nobody will look at them there.
func TestScanInvalid(t *testing.T) {
	deepArray := strings.Repeat("[", 20) + "%s" + strings.Repeat("]", 20)
	deepObject := strings.Repeat(`{"a":[0,`, 10) + "%s" + strings.Repeat("]}", 10)
	for _, value := range badValues {
		for _, around := range []string{
			"%s", `{"data":%s}`, `{"a":1,"data":{"b":%s},"c":2}`, deepArray, deepObject,
			`{"data":` + deepObject + `,"z":1}`,
		} {
			text := fmt.Sprintf(around, value)
			if json.Valid([]byte(text)) && utf8.ValidString(text) {
				t.Errorf("%q is valid", text)
			}
			var broken *SyntaxError
			if err := scanText(text); !errors.As(err, &broken) {
				t.Errorf("%q: %v", text, err)
			} else if broken.Offset < 0 || broken.Offset > len(text) || broken.Reason == "" {
				t.Errorf("%q: %+v", text, broken)
			}
		}
	}
}

// TestScanOffsets: the error points at the fault.
func TestScanOffsets(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "   ": 3, `{"a":1,}`: 7, `{"a" 1}`: 5, `[1,01]`: 3, `{} x`: 3, `{"a":"b`: 7,
		"{\"a\":\"12345678\x01\"}": 14, `{"a":"\q"}`: 6, "[\"aé\xff\"]": 5, `[1}`: 2,
		`{"a":tru}`: 5,
	} {
		var broken *SyntaxError
		err := scanText(text)
		if !errors.As(err, &broken) || broken.Offset != want ||
			!strings.HasSuffix(err.Error(), fmt.Sprintf(" at offset %d", want)) {
			t.Errorf("%q: %v, want offset %d", text, err, want)
		}
	}
}

// TestScanEveryPrefix: no proper prefix of an object is a text, and none makes
// the scan read beyond its end.
func TestScanEveryPrefix(t *testing.T) {
	for _, c := range benchTexts()[1:] {
		for i := range c.text {
			if err := scanText(string(c.text[:i])); err == nil {
				t.Fatalf("prefix of %d bytes is taken", i)
			}
		}
	}
}

// TestScanEveryByteBroken: a control character or an invalid byte is found
// wherever it stands.
func TestScanEveryByteBroken(t *testing.T) {
	text := benchTexts()[1].text
	var s Scanner
	for i := range text {
		for _, c := range []byte{0, 0x1f, 0x80, 0xff} {
			broken := append([]byte(nil), text...)
			broken[i] = c
			if s.Scan(broken) == nil {
				t.Fatalf("byte %#x at %d is taken", c, i)
			}
		}
	}
}

// TestScanDepth is R80: 1,000 levels are taken, 1,001 are refused.
func TestScanDepth(t *testing.T) {
	array := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	object := func(n int) string {
		return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	}
	for _, f := range []func(int) string{
		array, object,
		func(n int) string { return `{"data":` + array(n-1) + `}` },
		func(n int) string { return `{"a":[],"data":{"b":` + array(n-2) + `},"c":[]}` },
		func(n int) string {
			return strings.Repeat(`[{"a":`, n/2) + array(n%2) + "1"[n%2:] + strings.Repeat("}]", n/2)
		},
	} {
		if err := scanText(f(1000)); err != nil {
			t.Errorf("%.20s: %v", f(1000), err)
		}
		var broken *SyntaxError
		err := scanText(f(1001))
		if !errors.As(err, &broken) || broken.Reason != "nested too deep" {
			t.Errorf("%.20s: %v", f(1001), err)
		}
		if scanText(f(1_000_000)) == nil {
			t.Errorf("%.20s: a million levels", f(10))
		}
	}
}

// TestScanMembers: what the relay reads of a frame.
func TestScanMembers(t *testing.T) {
	var s Scanner
	scan := func(text string, valid bool) {
		t.Helper()
		if err := s.Scan([]byte(text)); (err == nil) != valid {
			t.Fatalf("%s: %v", text, err)
		}
	}
	typ := func(want string, is bool) {
		t.Helper()
		if got, ok := s.Type(); string(got) != want || ok != is {
			t.Errorf("type %q %v, want %q %v", got, ok, want, is)
		}
	}
	scan(` { "type" : "sub\u0073cribe" , "id" : 7, "fil\u0074er":{ "a":1 },"n":null}`, true)
	typ("subscribe", true)
	if raw, ok := s.RawMember("filter"); !ok || string(raw) != `{ "a":1 }` {
		t.Errorf("filter %s %v", raw, ok)
	}
	if raw, ok := s.RawMember("n"); !ok || string(raw) != "null" {
		t.Errorf("n %s %v", raw, ok)
	}
	if _, ok := s.StringMember("id"); ok || !s.IsObject() {
		t.Error("a number is no string")
	}
	if _, ok := s.RawMember("none"); ok {
		t.Error("found what is not there")
	}
	scan(`{"type":"a","id":"x","id":"\u0079\"","type":"b"}`, true)
	typ("b", true)
	if id, ok := s.StringMember("id"); id != `y"` || !ok {
		t.Errorf("id %q", id)
	}
	for _, text := range []string{`{"type":1}`, `{"type":null}`, `{"type":{}}`, `{}`, `{"TYPE":"a"}`} {
		scan(text, true)
		typ("", false)
		if !s.IsObject() {
			t.Errorf("%s is an object", text)
		}
	}
	for _, text := range []string{`null`, `[{"type":"a"}]`, `"type"`, `1`} {
		scan(text, true)
		typ("", false)
		if s.IsObject() {
			t.Errorf("%s is no object", text)
		}
	}
	scan(`{"type":"a","id":"b"`, false)
	typ("", false)
	if _, ok := s.RawMember("id"); ok || s.IsObject() {
		t.Error("a broken text has no members")
	}
	_, err := s.Event()
	checkRule(t, err, "R100")
}

func TestScanDoesNotAllocate(t *testing.T) {
	for _, c := range benchTexts() {
		var s Scanner
		allocs := testing.AllocsPerRun(100, func() {
			if s.Scan(c.text) != nil {
				t.Fatal("refused")
			}
			s.Type()
			s.RawMember("data")
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", c.name, allocs)
		}
	}
}
