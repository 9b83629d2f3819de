package aepws

import (
	"math"
	"strings"
	"testing"
)

// TestCursors is B51 and hard cases 29 and 30.
func TestCursors(t *testing.T) {
	f := func(text, id string, sequence int64) {
		t.Helper()
		gotID, got, err := ParseCursor([]byte(text))
		if err != nil || string(gotID) != id || got != sequence {
			t.Errorf("B51: %s: %q %d %v, want %q %d", text, gotID, got, err, id, sequence)
		}
	}
	f("evt_01JZ0000000000000000000000:42", "evt_01JZ0000000000000000000000", 42)
	f("a:b:7", "a:b", 7)
	f("::7", ":", 7)
	f("x:0", "x", 0)
	f("x:007", "x", 7)
	f("x:9223372036854775807", "x", math.MaxInt64)
	f("x:9999999999999999999", "x", math.MaxInt64)
	f(strings.Repeat("x", 128)+":1", strings.Repeat("x", 128), 1)
	for _, bad := range []string{
		"evt_1:-1", "evt_1:4e2", "42", "evt_1:", ":5", "evt_1:" + strings.Repeat("1", 20), "", ":", "evt_1:+1",
		"evt_1: 1", "evt_1:1 ", "evt 1:1", "é:1", "x:1.0", "x:0x1", "x:٤", strings.Repeat("x", 129) + ":1",
	} {
		if id, n, err := ParseCursor([]byte(bad)); err != ErrCursor {
			t.Errorf("case 29: %q: %q %d %v", bad, id, n, err)
		}
	}
	for _, n := range []int64{0, 1, math.MaxInt64} {
		text := AppendCursor(nil, "a:b", n)
		f(string(text), "a:b", n)
		if quoted := string(appendQuotedCursor(nil, "a:b", n)); quoted != `"`+string(text)+`"` {
			t.Errorf("%s quoted: %s", text, quoted)
		}
	}
}
