package autobahn

import (
	"fmt"
	"strings"
	"testing"
)

// TestGroup5Legal: fragments are put together, whatever control frames stand
// between them.
func TestGroup5Legal(t *testing.T) {
	ab := []item{text("fragment1fragment2")}
	for _, d := range []dialogue{
		{"two fragments", []string{first(opText, "fragment1"), last("fragment2")}, ab, false},
		{"two fragments, binary", []string{first(opBinary, "\xff"), last("\xfe")}, []item{binaryOf("\xff\xfe")}, false},
		{
			"ping between",
			[]string{first(opText, "fragment1"), ping("ping"), last("fragment2")},
			[]item{pong("ping"), ab[0]},
			false,
		},
		{
			"pong between",
			[]string{first(opText, "fragment1"), whole(opPong, "pong"), last("fragment2")},
			ab, false,
		},
		{"first is empty", []string{first(opText, ""), last("b")}, []item{text("b")}, false},
		{"last is empty", []string{first(opText, "a"), last("")}, []item{text("a")}, false},
		{"middle is empty", []string{first(opText, "a"), more(""), last("b")}, []item{text("ab")}, false},
		{"three empty", []string{first(opText, ""), more(""), last("")}, []item{text("")}, false},
		{"three empty, binary", []string{first(opBinary, ""), more(""), last("")}, []item{binaryOf("")}, false},
		{
			"message, fragments, message",
			[]string{whole(opText, "0"), first(opBinary, "1"), last("2"), whole(opText, "3")},
			[]item{text("0"), binaryOf("12"), text("3")},
			false,
		},
		fiveFragments(),
	} {
		play(t, d)
	}
}

// fiveFragments has pings between all fragments, two of them in one place.
func fiveFragments() dialogue {
	return dialogue{
		name: "five fragments with pings",
		send: []string{
			first(opText, "1"), more("2"), ping("one"), more("3"), more("4"), ping("two"), ping(""), last("5"),
		},
		want: []item{pong("one"), pong("two"), pong(""), text("12345")},
	}
}

// TestGroup5Chopped: a fragmented message at each size of fragments and of
// writes.
func TestGroup5Chopped(t *testing.T) {
	const message = "a message of καλημέρα and 𐍈, cut anywhere"
	c := dial(t, addr)
	for size := 1; size <= len(message); size++ {
		in := fragments(opText, message, size)
		for _, chop := range []int{0, 1, 2, 3, 5, 7, 8} {
			c.chopped(in, chop)
			c.wantItems(t, text(message))
		}
	}
	c.wantClosed(t)
}

// TestGroup5Many: the number of fragments has no bound but the size of the
// message, and empty ones cost nothing.
func TestGroup5Many(t *testing.T) {
	c := dial(t, addr)
	for _, n := range []int{1000, 100_000} {
		go c.send(first(opText, "") + strings.Repeat(more("x"), n) + strings.Repeat(more(""), n) + last("!"))
		c.wantItems(t, text(strings.Repeat("x", n)+"!"))
	}
	c.wantClosed(t)
}

// TestGroup5Illegal: control frames are never fragmented, a continuation needs
// a message, and a message must end before the next begins.
func TestGroup5Illegal(t *testing.T) {
	failed := []item{closing(1002)}
	for _, d := range []dialogue{
		{"ping not final", []string{first(opPing, "fragment1"), last("fragment2")}, failed, false},
		{"ping not final and empty", []string{first(opPing, "")}, failed, false},
		{"pong not final", []string{first(opPong, "fragment1"), last("fragment2")}, failed, false},
		{"close not final", []string{first(opClose, "\x03\xe8")}, failed, false},
		{
			"ping not final inside a message",
			[]string{first(opText, "a"), first(opPing, "p"), last("b")},
			failed, false,
		},
		{"continuation first, final", []string{last("orphan"), whole(opText, "never")}, failed, false},
		{"continuation first, not final", []string{more("orphan"), whole(opText, "never")}, failed, false},
		{"continuation first, empty", []string{last("")}, failed, false},
		{
			"continuation after a message",
			[]string{whole(opText, "a"), last("b"), ping("never")},
			[]item{text("a"), failed[0]},
			false,
		},
		{
			"continuation after fragments",
			[]string{first(opText, "a"), last("b"), more("c"), last("d")},
			[]item{text("ab"), failed[0]},
			false,
		},
		{"text inside text", []string{first(opText, "a"), whole(opText, "b")}, failed, false},
		{"text inside text, not final", []string{first(opText, "a"), first(opText, "b"), last("c")}, failed, false},
		{"binary inside text", []string{first(opText, "a"), whole(opBinary, "b")}, failed, false},
		{"text inside binary", []string{first(opBinary, "a"), more("b"), whole(opText, "c")}, failed, false},
		{
			"text inside text behind a ping",
			[]string{first(opText, "a"), ping("p"), whole(opText, "b")},
			[]item{pong("p"), failed[0]},
			false,
		},
		{
			"many fragments without a first",
			[]string{more("a"), more("b"), last("c"), first(opText, "d"), last("e")},
			failed, false,
		},
	} {
		play(t, d)
	}
}

// TestGroup5Orders: every sequence of up to four frames of a small alphabet has
// the outcome that the rules of RFC 6455 section 5.4 give it.
func TestGroup5Orders(t *testing.T) {
	alphabet := []string{"T", "t", "B", "b", "C", "c", "P"} // capital: final
	longest := 4
	if testing.Short() {
		longest = 3
	}
	sequences := []string{""}
	for range longest {
		var next []string
		for _, s := range sequences {
			if _, broken := outcome(s); broken {
				continue // nothing counts behind a failure
			}
			for _, letter := range alphabet {
				next = append(next, s+letter)
			}
		}
		for _, s := range next {
			playOrder(t, s)
		}
		sequences = next
	}
}

// outcome is what a sequence of frames has to give.
func outcome(sequence string) (want []item, broken bool) {
	open, data := byte(0), ""
	for i, letter := range sequence {
		payload := fmt.Sprint(i)
		op := map[string]byte{"T": opText, "B": opBinary, "C": opMore, "P": opPing}[strings.ToUpper(string(letter))]
		isFinal := letter < 'a'
		switch {
		case op == opPing:
			want = append(want, pong(payload))
			continue
		case (op == opMore) == (open == 0):
			return append(want, closing(1002)), true
		case op != opMore:
			open, data = op, ""
		}
		data += payload
		if isFinal {
			want = append(want, messageOf(open, data))
			open = 0
		}
	}
	return want, false
}

func playOrder(t *testing.T, sequence string) {
	t.Helper()
	var in strings.Builder
	for i, letter := range sequence {
		op := map[string]byte{"T": opText, "B": opBinary, "C": opMore, "P": opPing}[strings.ToUpper(string(letter))]
		head := op
		if letter < 'a' {
			head |= fin
		}
		in.WriteString(frame(head, fmt.Sprint(i)))
	}
	want, broken := outcome(sequence)
	d := dialogue{name: sequence, send: []string{in.String()}, want: want}
	if !broken && strings.ContainsAny(sequence, "tbc") {
		want = append(want, closing(1000)) // a Close may come inside a message
		d.send, d.want = append(d.send, closeFrame(1000, "")), want
	}
	d.run(t, sequence, d.send, 0)
}
