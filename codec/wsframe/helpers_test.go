package wsframe

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var testMask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// frame returns a client's frame.
func frame(op Op, fin bool, payload string) []byte {
	return AppendMasked(nil, op, fin, testMask, []byte(payload))
}

// join glues byte slices together.
func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// show prints an item so that two can be compared.
func show(m Message) string {
	names := map[Op]string{
		OpText: "text", OpBinary: "binary", OpPing: "ping", OpPong: "pong", OpClose: "close",
	}
	if m.Op == OpClose {
		return fmt.Sprintf("close %d %q", m.Code, m.Payload)
	}
	return fmt.Sprintf("%s %q", names[m.Op], m.Payload)
}

// feedAll feeds one piece to the end and returns the items. It fails the test
// when the reader writes to its input or does not advance.
func feedAll(t testing.TB, r *Reader, s *Scratch, piece []byte) (items []string, err error) {
	t.Helper()
	in := bytes.Clone(piece)
	for len(in) > 0 {
		n, msg, err := r.Feed(in, s)
		if msg.Complete() {
			items = append(items, show(msg))
		}
		if err != nil {
			return items, err
		}
		if n <= 0 || n > len(in) {
			t.Fatalf("Feed(%x) consumed %d", in, n)
		}
		if !bytes.Equal(in, piece[len(piece)-len(in):]) {
			t.Fatalf("Feed wrote to its input: %x", in)
		}
		in = in[n:]
	}
	return items, nil
}

// run feeds pieces in turn and returns everything that came out.
func run(t testing.TB, r *Reader, pieces ...[]byte) (items []string, err error) {
	t.Helper()
	s := new(Scratch)
	for _, piece := range pieces {
		got, err := feedAll(t, r, s, piece)
		items = append(items, got...)
		if err != nil {
			return items, err
		}
	}
	return items, nil
}

// cut splits b into pieces of size bytes.
func cut(b []byte, size int) (pieces [][]byte) {
	for len(b) > 0 {
		n := min(size, len(b))
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

// bytesOf decodes the notation of testdata.
func bytesOf(t testing.TB, text string) (b []byte) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		digits, times, repeated := strings.Cut(word, "*")
		n := 1
		if repeated {
			n, _ = strconv.Atoi(times)
		}
		one, err := hex.DecodeString(digits)
		if err != nil || n < 1 {
			t.Fatalf("bad vector %q", word)
		}
		b = append(b, bytes.Repeat(one, n)...)
	}
	return b
}

// vector is one line of testdata/rfc6455-5.7.txt.
type vector struct {
	name    string
	client  bool
	wire    []byte
	op      string
	payload []byte
}

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/rfc6455-5.7.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "|")
		op, payload, _ := strings.Cut(strings.TrimSpace(f[3]), " ")
		all = append(all, vector{
			name: strings.TrimSpace(f[0]), client: strings.TrimSpace(f[1]) == "client",
			wire: bytesOf(t, f[2]), op: op, payload: bytesOf(t, payload),
		})
	}
	if len(all) != 7 {
		t.Fatalf("%d vectors, want the 7 of RFC 6455, section 5.7", len(all))
	}
	return all
}
