package jsontext

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestNumberEnd(t *testing.T) {
	for _, text := range []string{"0", "-0", "7", "10", "1.5", "-1.50", "1e5", "1E+05", "2e-1", "0.0e0", "12345678901234567890"} {
		if end, ok := NumberEnd([]byte("["+text+"]"), 1); !ok || end != 1+len(text) {
			t.Errorf("%s: %d, %v", text, end, ok)
		}
	}
	for _, text := range []string{"-", "01", "-01", "1.", "1.e1", "1e", "1e+", "-.5"} {
		if _, ok := NumberEnd([]byte(text), 0); ok || json.Valid([]byte(text)) {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestHex4(t *testing.T) {
	for text, want := range map[string]rune{"0000": 0, "00e9x": 0xe9, "FFff": 0xffff, "a0B1": 0xa0b1} {
		if r, ok := Hex4([]byte(text)); !ok || r != want {
			t.Errorf("%s: %x, %v", text, r, ok)
		}
	}
	for _, text := range []string{"", "123", "12g4", "12 4", "12/4", "12:4", "@123", "`123"} {
		if _, ok := Hex4([]byte(text)); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestAppendUnescaped(t *testing.T) {
	for _, inner := range []string{
		``, `plain`, `\"\\\/\b\f\n\r\t`, `a\u0041\u00e9\u20acz`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\ude00\ud83d`, `\ud83d\u0041`, `é\n`,
	} {
		var want string
		if err := json.Unmarshal([]byte(`"`+inner+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got := AppendUnescaped([]byte("x"), []byte(inner)); string(got) != "x"+want {
			t.Errorf("%s: %q, want %q", inner, got, "x"+want)
		}
	}
}

func TestNameSet(t *testing.T) {
	var s NameSet
	for round := range 3 {
		for i := range 20 * fewNames {
			if !s.Add(fmt.Append(nil, "name ", i)) {
				t.Fatalf("round %d: name %d is new", round, i)
			}
			if s.Add(fmt.Append(nil, "name ", i/2)) {
				t.Fatalf("round %d: name %d was there", round, i/2)
			}
		}
		s.Clear()
	}
	for i := range 10 * KeepNames {
		s.Add(fmt.Append(nil, i))
	}
	s.Shrink()
	if names, slots := s.Kept(); names > KeepNames || slots > 4*KeepNames || !s.Add([]byte("0")) {
		t.Errorf("memory for %d names, %d slots stays, or a name does", names, slots)
	}
}
