package wsframe

import (
	"testing"
	"unicode/utf8"
)

// continuations are bytes of which some sequence completes any prefix that can
// be completed: the ends of each range of Unicode's table 3-7.
var continuations = []byte{0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf}

// completable tells by trial if p is the beginning of some UTF-8 text.
func completable(p []byte, tries int) bool {
	if utf8.Valid(p) {
		return true
	}
	if tries == 0 {
		return false
	}
	for _, c := range continuations {
		if completable(append(p[:len(p):len(p)], c), tries-1) {
			return true
		}
	}
	return false
}

// TestR333TextFailsFast proves that text is refused with the first byte after
// which no text can follow, and not before, whether it arrives in a frame that
// is not finished or in a fragment of its own.
func TestR333TextFailsFast(t *testing.T) {
	edges := []byte{
		'a', 0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
		0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
	}
	var walk func(text []byte)
	walk = func(text []byte) {
		inFrame := AppendMasked(nil, OpText, true, testMask, make([]byte, 100))
		masked := AppendMasked(nil, OpText, true, testMask, text)
		inFrame = append(inFrame[:6:6], masked[6:]...)
		fragments := frame(OpText, false, "")
		for _, c := range text {
			fragments = append(fragments, frame(OpContinuation, false, string([]byte{c}))...)
		}
		want := completable(text, 3)
		for _, wire := range [][]byte{inFrame, fragments} {
			for _, pieces := range [][][]byte{{wire}, cut(wire, 1)} {
				if _, err := run(t, new(Reader), pieces...); (err == nil) != want {
					t.Fatalf("%x in %x: %v", text, wire, err)
				}
			}
		}
		if want && len(text) < 4 {
			for _, c := range edges {
				walk(append(text[:len(text):len(text)], c))
			}
		}
	}
	walk(nil)
}
