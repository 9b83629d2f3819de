package jsontext

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"testing"
)

// lowest returns the byte that a mask points to, 8 for none.
func lowest(mask uint64) int {
	if mask == 0 {
		return 8
	}
	return bits.TrailingZeros64(mask) >> 3
}

// TestMasks: the lowest byte that a mask names is the first that a plain loop
// finds, for each byte at each place among plain ones.
func TestMasks(t *testing.T) {
	for c := range 256 {
		for at := range 8 {
			for _, plain := range []byte{' ', 'a', '!', '#', '[', ']', '~', 0x7F} {
				var b [8]byte
				for i := range b {
					b[i] = plain
				}
				b[at] = byte(c)
				marks, specials := 8, 8
				if c == '"' || c == '\\' {
					marks = at
				}
				if marks == at || c < ' ' || c >= 0x80 {
					specials = at
				}
				w := binary.LittleEndian.Uint64(b[:])
				if got := lowest(Marks(w)); got != marks {
					t.Fatalf("Marks(%q): byte %d, want %d", b, got, marks)
				}
				if got := lowest(Specials(w)); got != specials {
					t.Fatalf("Specials(%q): byte %d, want %d", b, got, specials)
				}
			}
		}
	}
}

// TestPlainEnd: a run ends where a plain loop ends it, wherever it begins, and
// whatever comes behind.
func TestPlainEnd(t *testing.T) {
	for _, stop := range []string{"", `"`, `\\`, "\x1f", "\n", "é", "\x80"} {
		for size := range 40 {
			text := []byte(strings.Repeat("a~ ", size)[:size] + stop + "tail of more than eight")
			want := size
			if stop == "" {
				want = len(text)
			}
			for from := range size + 1 {
				if got := PlainEnd(text, from); got != want {
					t.Fatalf("%q from %d: %d, want %d", text, from, got, want)
				}
			}
		}
	}
}

func TestStringEnd(t *testing.T) {
	for text, end := range map[string]int{
		`""`: 2, `"a"b"`: 3, `"\""x`: 4, `"\\"x"`: 4, `"\\\"",`: 6, `"\u0022" "`: 8, `"é"`: 4,
	} {
		if got := StringEnd([]byte(text), 0); got != end {
			t.Errorf("%s: %d, want %d", text, got, end)
		}
		if got := StringEnd([]byte(`[\"`+text), 3); got != end+3 {
			t.Errorf("%s behind other text: %d, want %d", text, got, end+3)
		}
	}
}
