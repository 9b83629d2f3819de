package http1

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestQueryValue is R33, R34 and the form decoding of the WHATWG URL standard.
func TestQueryValue(t *testing.T) {
	for _, c := range []struct {
		rule, query, want string
		ok                bool
	}{
		{"plain", "a=b", "b", true},
		{"not there", "b=a", "", false},
		{"nothing", "", "", false},
		{"last", "x=1&a=b", "b", true},
		{"R33 first of two", "a=1&a=2", "1", true},
		{"R34 empty", "a=", "", false},
		{"R34 no equals sign", "a", "", false},
		{"R34 empty before another", "a=&a=2", "", false},
		{"R33 plus", "a=1+2", "1 2", true},
		{"escaped plus", "a=1%2B2", "1+2", true},
		{"plus alone", "a=+", " ", true},
		{"R33 semicolon", "x=1;a=2&a=3;4", "3;4", true},
		{"equals signs", "a=b=c", "b=c", true},
		{"escaped separators", "a=%26%3D", "&=", true},
		{"escaped name", "%61=b", "b", true},
		{"escaped name, first counts", "%61=b&a=c", "b", true},
		{"name in capitals", "A=b", "", false},
		{"longer name", "ab=c", "", false},
		{"escaped longer name", "%61b=c", "", false},
		{"no name", "=b", "", false},
		{"empty pairs", "&&a=b&&", "b", true},
		{"both digits", "a=%4a%4A", "JJ", true},
		{"R33 broken escape", "a=%", "%", true},
		{"R33 escape cut", "a=%4", "%4", true},
		{"R33 no hex", "a=%zz%4g%g4", "%zz%4g%g4", true},
		{"R33 broken before whole", "a=%%41", "%A", true},
		{"broken escape in another", "x=%zz&a=b", "b", true},
		{"escape is decoded once", "a=%2541", "%41", true},
		{"question mark", "a=?b", "?b", true},
		{"UTF-8 escaped", "a=%C3%A9%E2%82%AC%F0%9F%98%80", "é€😀", true},
		{"UTF-8 raw", "a=é€", "é€", true},
		{"BOM stays", "a=%EF%BB%BFx", "\ufeffx", true},
		{"NUL", "a=%00", "\x00", true},
		{"invalid octet", "a=%FFx", "\ufffdx", true},
		{"invalid raw", "a=\xffx", "\ufffdx", true},
		{"two invalid octets", "a=%FF%FE", "\ufffd\ufffd", true},
		{"sequence cut", "a=%E2%82x", "\ufffdx", true},
		{"sequence cut at the end", "a=%F0%9F%98", "\ufffd", true},
		{"continuation alone", "a=%80%80", "\ufffd\ufffd", true},
		{"overlong", "a=%C0%AF", "\ufffd\ufffd", true},
		{"overlong of three", "a=%E0%80%AF", "\ufffd\ufffd\ufffd", true},
		{"surrogate", "a=%ED%A0%80", "\ufffd\ufffd\ufffd", true},
		{"beyond Unicode", "a=%F4%90%80%80", "\ufffd\ufffd\ufffd\ufffd", true},
		{"sequence in a sequence", "a=%E2%C3%A9", "\ufffdé", true},
		{"U+FFFD itself", "a=%EF%BF%BD%FF", "\ufffd\ufffd", true},
	} {
		if got, ok := QueryValue([]byte(c.query), "a"); got != c.want || ok != c.ok {
			t.Errorf("%s: %q gives %q, %v; want %q, %v", c.rule, c.query, got, ok, c.want, c.ok)
		}
	}
	if got, ok := QueryValue([]byte("last%5Fevent+id=4"), "last_event id"); got != "4" || !ok {
		t.Errorf("decoded name: %q, %v", got, ok)
	}
}

func TestQueryValueAllocations(t *testing.T) {
	query := []byte("session=s1&from=" + strings.Repeat("s:1:2,", 100) + "&token=a%20b+c")
	for name, want := range map[string]float64{"access_token": 0, "session": 1, "token": 1} {
		var sink string
		if allocs := testing.AllocsPerRun(100, func() { sink, _ = QueryValue(query, name) }); allocs > want {
			t.Errorf("%s: %v allocations, %d octets", name, allocs, len(sink))
		}
	}
}

// modelQuery is R33 once more, written for clearness only.
func modelQuery(query, name string) (string, bool) {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		n, v, _ := strings.Cut(pair, "=")
		if modelDecode(n) == name {
			v = modelDecode(v)
			return v, v != ""
		}
	}
	return "", false
}

func modelDecode(s string) string {
	s = strings.ReplaceAll(s, "+", " ")
	const hex = "0123456789abcdef"
	var octets []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi := strings.Index(hex, strings.ToLower(s[i+1:i+2]))
			lo := strings.Index(hex, strings.ToLower(s[i+2:i+3]))
			if hi >= 0 && lo >= 0 {
				octets = append(octets, byte(16*hi+lo))
				i += 2
				continue
			}
		}
		octets = append(octets, s[i])
	}
	return modelUTF8(octets)
}

// modelUTF8 is the UTF-8 decoder of the WHATWG Encoding standard, section
// 8.1.1, step by step.
func modelUTF8(b []byte) string {
	var out strings.Builder
	var point rune
	needed, seen := 0, 0
	lower, upper := byte(0x80), byte(0xbf)
	for i := 0; i < len(b); i++ {
		c := b[i]
		if needed == 0 {
			switch {
			case c <= 0x7f:
				out.WriteByte(c)
			case c >= 0xc2 && c <= 0xdf:
				needed, point = 1, rune(c&0x1f)
			case c >= 0xe0 && c <= 0xef:
				if c == 0xe0 {
					lower = 0xa0
				} else if c == 0xed {
					upper = 0x9f
				}
				needed, point = 2, rune(c&0xf)
			case c >= 0xf0 && c <= 0xf4:
				if c == 0xf0 {
					lower = 0x90
				} else if c == 0xf4 {
					upper = 0x8f
				}
				needed, point = 3, rune(c&0x7)
			default:
				out.WriteRune(utf8.RuneError)
			}
			continue
		}
		if c < lower || c > upper {
			needed, seen, lower, upper = 0, 0, 0x80, 0xbf
			out.WriteRune(utf8.RuneError)
			i--
			continue
		}
		lower, upper = 0x80, 0xbf
		point = point<<6 | rune(c&0x3f)
		if seen++; seen == needed {
			out.WriteRune(point)
			needed, seen = 0, 0
		}
	}
	if needed > 0 {
		out.WriteRune(utf8.RuneError)
	}
	return out.String()
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"a=b", "a=1&a=2", "a=", "%61=%zz+%4", "a=%E2%82x%F0%9F&b", "x;a=1", "a=%ED%A0%80",
		"=&&a", "a=%F4%90%80%80\xff", "a=%C3%A9é",
	} {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, query []byte, name string) {
		for i := range len(name) {
			if name[i] >= 0x80 {
				return
			}
		}
		got, ok := QueryValue(query, name)
		want, wantOK := modelQuery(string(query), name)
		if got != want || ok != wantOK {
			t.Errorf("%q of %q: %q, %v; want %q, %v", name, query, got, ok, want, wantOK)
		}
		if !utf8.ValidString(got) {
			t.Errorf("%q of %q: %q is not UTF-8", name, query, got)
		}
	})
}

func BenchmarkQueryValue(b *testing.B) {
	query := []byte("session=s1&type=x.y&min=info&access_token=" + strings.Repeat("t", 40))
	for _, name := range []string{"access_token", "absent"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				QueryValue(query, name)
			}
		})
	}
}
