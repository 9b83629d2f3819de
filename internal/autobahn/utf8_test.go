package autobahn

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// This file holds group 6. What is UTF-8 is decided by tables made from the
// grammar of RFC 3629 section 4, not by what the server uses.

// sequenceOf is a row of that grammar: lead octets, the range of the octet after
// them, and how many octets 80 to BF follow that.
type sequenceOf struct {
	from, to   byte
	low, high  byte
	furtherOne int
}

var grammar = []sequenceOf{
	{0xc2, 0xdf, 0x80, 0xbf, 0},
	{0xe0, 0xe0, 0xa0, 0xbf, 1},
	{0xe1, 0xec, 0x80, 0xbf, 1},
	{0xed, 0xed, 0x80, 0x9f, 1},
	{0xee, 0xef, 0x80, 0xbf, 1},
	{0xf0, 0xf0, 0x90, 0xbf, 2},
	{0xf1, 0xf3, 0x80, 0xbf, 2},
	{0xf4, 0xf4, 0x80, 0x8f, 2},
}

// firstBad returns the index of the first octet that cannot belong to UTF-8
// text, len(s) when only the end of s cuts a sequence off, and -1 when s is
// text.
func firstBad(s string) int {
	for i := 0; i < len(s); {
		if s[i] < 0x80 {
			i++
			continue
		}
		row := rowOf(s[i])
		if row == nil {
			return i
		}
		low, high := row.low, row.high
		i++
		for range row.furtherOne + 1 {
			switch {
			case i == len(s):
				return i
			case s[i] < low || s[i] > high:
				return i
			}
			low, high = 0x80, 0xbf
			i++
		}
	}
	return -1
}

func rowOf(lead byte) *sequenceOf {
	for i := range grammar {
		if r := &grammar[i]; lead >= r.from && lead <= r.to {
			return r
		}
	}
	return nil
}

// TestFirstBad: the table agrees with the standard library on what is text.
func TestFirstBad(t *testing.T) {
	check := func(s string) {
		if got := firstBad(s); (got < 0) != utf8.ValidString(s) {
			t.Fatalf("% x: %d, but valid is %v", s, got, utf8.ValidString(s))
		}
	}
	for a := range 256 {
		check(string([]byte{byte(a)}))
		for b := range 256 {
			check(string([]byte{byte(a), byte(b)}))
			for _, c := range []byte{0x7f, 0x80, 0xbf, 0xc0} {
				check(string([]byte{byte(a), byte(b), c}))
				check(string([]byte{byte(a), byte(b), 0x80, c}))
			}
		}
	}
}

// points returns the characters from first to last, surrogates left out.
func points(first, last rune) string {
	var b strings.Builder
	for r := first; r <= last; r++ {
		if r < 0xd800 || r > 0xdfff {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// validTexts are texts at the edges of what is allowed.
var validTexts = []struct{ name, text string }{
	{"empty", ""},
	{"greek", "κόσμε"},
	{"mixed widths", "Hello-µ@ßöäüàá-UTF-8!! 𐌰𐌱 ॐ"},
	{"first of one octet", "\x00"},
	{"last of one octet", "\x7f"},
	{"first of two octets", "\u0080"},
	{"last of two octets", "\u07ff"},
	{"first of three octets", "\u0800"},
	{"before the surrogates", "\ud7ff"},
	{"after the surrogates", "\ue000"},
	{"replacement character", "\ufffd"},
	{"noncharacters", "\ufdd0\ufdef\ufffe\uffff"},
	{"first of four octets", "\U00010000"},
	{"noncharacters of each plane", planeEnds()},
	{"last code point", "\U0010ffff"},
	{"byte order mark", "\ufefftext"},
	{"combining and right to left", "e\u0301 \u05d0\u05d1 \u202e"},
}

func planeEnds() string {
	var b strings.Builder
	for plane := rune(0); plane <= 0x10; plane++ {
		b.WriteRune(plane<<16 | 0xfffe)
		b.WriteRune(plane<<16 | 0xffff)
	}
	return b.String()
}

// TestGroup6Valid: text comes back whole, with its sequences cut at each place
// by fragments and by writes.
func TestGroup6Valid(t *testing.T) {
	c := dial(t, addr)
	for _, v := range validTexts {
		if firstBad(v.text) != -1 {
			t.Fatalf("%s: the test has no valid text", v.name)
		}
		for size := 1; size <= min(len(v.text)+1, 6); size++ {
			in := fragments(opText, v.text, size)
			for _, chop := range []int{0, 1, 3, 7} {
				c.chopped(in, chop)
				c.wantItems(t, text(v.text))
			}
		}
	}
	c.wantClosed(t)
}

// TestGroup6EveryCodePoint: all 1,112,064 of them, in writes and fragments that
// cut them everywhere.
func TestGroup6EveryCodePoint(t *testing.T) {
	all := points(0, 0x10ffff)
	c := dial(t, addr)
	for _, size := range []int{len(all), 1021, 64} {
		go c.chopped(fragments(opText, all, size), 9973)
		c.wantItems(t, text(all))
	}
	c.wantClosed(t)
}

// invalidTexts are texts that are not UTF-8. Which octet is the first that
// cannot be, firstBad says.
var invalidTexts = func() map[string]string {
	m := map[string]string{
		"tail alone, first": "\x80", "tail alone, last": "\xbf", "tails alone": "\x80\xbf\x80\xbf",
		"tail behind text":         "text\x80text",
		"surrogate in text":        "κόσμε\xed\xa0\x80edited",
		"over the last code point": "κόσμε\xf4\x90\x80\x80edited",
		"five octets":              "\xf8\x88\x80\x80\x80", "six octets": "\xfc\x84\x80\x80\x80\x80",
		"fe": "\xfe", "ff": "\xff", "fe fe ff ff": "\xfe\xfe\xff\xff",
		"overlong slash in two": "\xc0\xaf", "in three": "\xe0\x80\xaf", "in four": "\xf0\x80\x80\xaf",
		"in five": "\xf8\x80\x80\x80\xaf", "in six": "\xfc\x80\x80\x80\x80\xaf",
		"largest overlong in two": "\xc1\xbf", "largest in three": "\xe0\x9f\xbf", "largest in four": "\xf0\x8f\xbf\xbf",
		"overlong nul in two": "\xc0\x80", "nul in three": "\xe0\x80\x80", "nul in four": "\xf0\x80\x80\x80",
		"first surrogate": "\xed\xa0\x80", "last high surrogate": "\xed\xaf\xbf",
		"first low surrogate": "\xed\xb0\x80", "last surrogate": "\xed\xbf\xbf",
		"surrogate pair": "\xed\xa0\x80\xed\xb0\x80", "last surrogate pair": "\xed\xaf\xbf\xed\xbf\xbf",
		"first over the range": "\xf4\x90\x80\x80", "f5": "\xf5\x80\x80\x80", "f7": "\xf7\xbf\xbf\xbf",
		"latin 1": "gr\xfc\xdfe", "sequences cut off one after the other": "\xc2\xe0\xa0\xf0\x90\x80",
	}
	for lead := 0xc0; lead <= 0xff; lead++ {
		m[fmt.Sprintf("lead %02x before a blank", lead)] = string([]byte{byte(lead), ' '})
	}
	return m
}()

// TestGroup6Invalid: text that is not UTF-8 fails the connection with 1007,
// also when its last fragment was never to come.
func TestGroup6Invalid(t *testing.T) {
	for name, s := range invalidTexts {
		t.Run(name, func(t *testing.T) {
			if firstBad(s) < 0 {
				t.Fatal("the test has no invalid text")
			}
			want := []item{closing(1007)}
			for _, in := range []string{
				whole(opText, s), first(opText, s), fragments(opText, s, 1), first(opText, "") + more(s),
			} {
				for _, chop := range []int{0, 1} {
					d := dialogue{want: want}
					d.run(t, fmt.Sprintf("chopped %d", chop), []string{in, ping("never")}, chop)
				}
			}
			d := dialogue{want: []item{binaryOf(s)}} // as binary it is fine
			d.run(t, "as binary", []string{whole(opBinary, s)}, 1)
		})
	}
}

// TestGroup6CutOff: text that ends inside a sequence fails when it ends, and not
// before.
func TestGroup6CutOff(t *testing.T) {
	for _, r := range []rune{0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff} {
		encoded := string(r)
		for n := 1; n < len(encoded); n++ {
			s := "ok " + encoded[:n]
			t.Run(fmt.Sprintf("% x", encoded[:n]), func(t *testing.T) {
				d := dialogue{want: []item{closing(1007)}}
				d.run(t, "whole", []string{whole(opText, s)}, 0)
				d.run(t, "octet by octet", []string{whole(opText, s)}, 1)
				d.run(t, "in fragments", []string{fragments(opText, s, 1)}, 0)
				d.want = []item{pong("alive"), closing(1007)}
				d.run(t, "ended by an empty fragment", []string{first(opText, s), ping("alive"), last("")}, 0)
				d.want = []item{pong("alive"), text("ok " + encoded)}
				d.run(t, "continued", []string{first(opText, s), ping("alive"), last(encoded[n:])}, 0)
			})
		}
	}
}

// TestGroup6FailFast: the connection fails when the first octet has come that
// cannot be, though more of the message was announced; up to the octet before
// it lives (V3).
func TestGroup6FailFast(t *testing.T) {
	for name, s := range invalidTexts {
		if at := firstBad(s); at < len(s) {
			t.Run(name, func(t *testing.T) { failFast(t, s[:at], s[at]) })
		}
	}
}

// TestGroup6Seconds: fail-fast for every lead octet and each octet at a boundary
// behind it, and for the octets after the second.
func TestGroup6Seconds(t *testing.T) {
	edges := []byte{0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xe0, 0xf0, 0xff}
	leads := []byte{0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4}
	if !testing.Short() {
		leads = nil
		for lead := 0xc2; lead <= 0xf4; lead++ {
			leads = append(leads, byte(lead))
		}
	}
	for _, lead := range leads {
		row := rowOf(lead)
		valid := string([]byte{lead})
		for i := range row.furtherOne + 1 {
			for _, edge := range edges {
				s := valid + string([]byte{edge})
				if at := firstBad(s); at == len(s)-1 {
					failFast(t, valid, edge)
				}
			}
			next := row.high
			if i > 0 {
				next = 0xbf
			}
			valid += string([]byte{next})
		}
		if firstBad(valid) != -1 {
			t.Fatalf("% x: the test has not ended a sequence", valid)
		}
	}
}

// failFast sends a prefix that may be text and then the octet that ends this,
// and never what was announced behind it.
func failFast(t *testing.T, prefix string, bad byte) {
	t.Helper()
	// In fragments: the ping shows that the prefix alone did no harm.
	c := dial(t, addr)
	c.send(first(opText, prefix) + ping("alive"))
	c.wantItems(t, pong("alive"))
	c.send(more(string([]byte{bad})))
	c.wantFailed(t, 1007)

	// Inside one frame that announces more, octet by octet.
	c = dial(t, addr)
	rest := "and 20 octets behind"
	in := whole(opText, prefix+string([]byte{bad})+rest)
	c.chopped(in[:len(in)-len(rest)], 1)
	c.wantFailed(t, 1007)
	if t.Failed() {
		t.Fatalf("prefix % x, then %02x", prefix, bad)
	}
}

// TestGroup6BesideText: what binary messages and control frames carry is no
// text, and does not disturb a text message around them.
func TestGroup6BesideText(t *testing.T) {
	play(t, dialogue{
		name: "bad octets in a ping inside a sequence",
		send: []string{first(opText, "\xf0\x90"), ping("\xff\xfe"), whole(opPong, "\x80"), last("\x80\x80")},
		want: []item{pong("\xff\xfe"), text("\U00010000")},
	})
	play(t, dialogue{
		name: "binary cut like text, then text",
		send: []string{first(opBinary, "\xf0\x90"), last("x"), whole(opText, "y")},
		want: []item{binaryOf("\xf0\x90x"), text("y")},
	})
}
