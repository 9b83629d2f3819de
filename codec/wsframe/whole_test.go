package wsframe

import (
	"strings"
	"testing"
)

// A reader of whole messages refuses the first frame that is a fragment, at its
// header, however the input is cut; control frames pass.
func TestWhole(t *testing.T) {
	f := func(name string, in []byte, want error, items int) {
		t.Helper()
		for cut := range len(in) + 1 {
			r := Reader{Limit: 1000, Whole: true}
			var s Scratch
			got, n := error(nil), 0
			for _, part := range [][]byte{in[:cut], in[cut:]} {
				for len(part) > 0 && got == nil {
					k, msg, err := r.Feed(part, &s)
					if part, got = part[k:], err; msg.Complete() {
						n++
					}
				}
			}
			if got != want || n != items {
				t.Errorf("%s, cut at %d: %d items and %v, want %d and %v", name, cut, n, got, items, want)
			}
		}
	}
	f("whole", join(frame(OpText, true, "a"), frame(OpPing, true, "p"), frame(OpBinary, true, "b")), nil, 3)
	f("first fragment", join(frame(OpText, true, "a"), frame(OpText, false, "b")), ErrFragmented, 1)
	f("empty fragment", frame(OpBinary, false, ""), ErrFragmented, 0)
	f("lone continuation", frame(OpContinuation, true, "x"), ErrFragmented, 0)
	f("control frames have a rule of their own", frame(OpPing, false, "x"), ErrControlFragmented, 0)
	f("reserved bits come first", header(0x51, 0x80, testMask[:]...), ErrReservedBits, 0)
	f("too big", frame(OpText, true, strings.Repeat("x", 1001)), ErrMessageTooBig, 0)
	if code := ErrFragmented.CloseCode(); code != CloseProtocolError {
		t.Errorf("the close code is %d", code)
	}
}
