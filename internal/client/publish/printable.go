package publish

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPrintable is how much of a foreign text is shown, in bytes.
const maxPrintable = 500

// printable makes a text that came from elsewhere safe for a terminal: controls,
// escapes, bidirectional marks and bytes that are no UTF-8 are shown as escapes.
func printable(s string) string {
	cut := len(s) > maxPrintable
	if cut {
		s = s[:maxPrintable]
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1, r < 0x80 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	if cut {
		b.WriteString("...")
	}
	return b.String()
}
