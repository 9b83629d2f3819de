package http1

import "testing"

// TestValidText tries each octet at each place of words and remainders.
func TestValidText(t *testing.T) {
	for size := range 20 {
		for at := range size {
			for c := range 256 {
				b := []byte("abcdefgh\xff\x80 ~\tmnopqrst")[:size]
				b[at] = byte(c)
				want := c == '\t' || c >= 0x20 && c != 0x7f
				if got := validText(b); got != want {
					t.Fatalf("%q: %v, want %v", b, got, want)
				}
			}
		}
	}
}

// TestCharClass compares the table with the grammars it is made from.
func TestCharClass(t *testing.T) {
	in := func(c int, set string) bool {
		for i := range len(set) {
			if int(set[i]) == c {
				return true
			}
		}
		return false
	}
	for c := range 256 {
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		for name, want := range map[string][2]bool{
			"RFC 9110 tchar":       {is(byte(c), classToken), alnum || in(c, "!#$%&'*+-.^_`|~")},
			"RFC 3986 reg-name":    {is(byte(c), classHost), alnum || in(c, "-._~!$&'()*+,;=")},
			"RFC 9110 field value": {is(byte(c), classText), c == '\t' || c >= 0x20 && c != 0x7f},
			"target":               {is(byte(c), classTarget), c > 0x20 && c != 0x7f && c != '#'},
			"digit":                {is(byte(c), classDigit), c >= '0' && c <= '9'},
		} {
			if want[0] != want[1] {
				t.Errorf("%s: %q is %v", name, byte(c), want[0])
			}
		}
	}
}
