package sse

import (
	"math"
	"testing"
	"unicode/utf8"
)

func TestR273AppendID(t *testing.T) {
	f := func(session string, epoch, seq int64, want string) {
		t.Helper()
		got, ok := AppendID([]byte("<"), session, epoch, seq)
		if string(got) != "<"+want || ok != (want != "") {
			t.Errorf("%q %d %d: %q, %v", session, epoch, seq, got, ok)
		}
	}
	f("s", 0, 0, "s:0:0")
	f("a:b:c", 1, 2, "a:b:c:1:2")
	f("é 🙂\t", 1, 2, "é 🙂\t:1:2")
	f("s", math.MaxInt64, math.MaxInt64, "s:9223372036854775807:9223372036854775807")
	for _, session := range []string{"", "\r", "a\nb", "a\x00"} {
		f(session, 1, 2, "")
	}
	f("s", -1, 2, "")
	f("s", 1, -2, "")
}

func TestR276ParseLastEventID(t *testing.T) {
	f := func(v, session string, epoch, seq int64) {
		t.Helper()
		s, e, q, ok := ParseLastEventID([]byte(v))
		if !ok || s != session || e != epoch || q != seq {
			t.Errorf("%q: %q %d %d %v", v, s, e, q, ok)
		}
	}
	f("s:0:0", "s", 0, 0)
	f("run:1:2:3", "run:1", 2, 3)
	f(":::1:2", "::", 1, 2)
	f("caf\xc3\xa9:1:2", "café", 1, 2)
	f(" :1:2", " ", 1, 2)
	f("s:9223372036854775807:9223372036854775807", "s", math.MaxInt64, math.MaxInt64)
	f("s:007:0000000000000000000000000012", "s", 7, 12)
	for _, v := range []string{
		"", ":", "::", "s", "s:1", "1:2", ":1:2", "s::2", "s:1:", "s:a:2", "s:1:b", "s:-1:2", "s:1:+2", "s: 1:2",
		"s:1:2 ", "s:1.0:2", "s:9223372036854775808:1", "s:1:9223372036854775808", "s:1:18446744073709551617",
		"s:1:99999999999999999999999999", "s:１:2", "\xff:1:2", "caf\xe9:1:2", "\xed\xa0\x80:1:2",
	} {
		if s, e, q, ok := ParseLastEventID([]byte(v)); ok || s != "" || e != 0 || q != 0 {
			t.Errorf("%q: %q %d %d %v", v, s, e, q, ok)
		}
	}
}

// FuzzParseLastEventID: what is parsed can be written and parses to the same;
// what can be written is parsed.
func FuzzParseLastEventID(f *testing.F) {
	f.Add([]byte("s:1:2"), "a:b", int64(0), int64(math.MaxInt64))
	f.Add([]byte("caf\xe9:01:2"), "\n", int64(-1), int64(5))
	f.Add([]byte("s:9223372036854775808:1"), "", int64(1), int64(1))
	f.Fuzz(func(t *testing.T, v []byte, session string, epoch, seq int64) {
		if s, e, q, ok := ParseLastEventID(v); ok {
			id, written := AppendID(nil, s, e, q)
			s2, e2, q2, ok2 := ParseLastEventID(id)
			if written && (!ok2 || s2 != s || e2 != e || q2 != q) {
				t.Fatalf("%q: %q %d %d, then %q %d %d %v", v, s, e, q, s2, e2, q2, ok2)
			}
		}
		if id, ok := AppendID(nil, session, epoch, seq); ok {
			s, e, q, parsed := ParseLastEventID(id)
			if parsed != utf8.ValidString(session) || parsed && (s != session || e != epoch || q != seq) {
				t.Fatalf("%q: %q %d %d %v", id, s, e, q, parsed)
			}
		}
	})
}
