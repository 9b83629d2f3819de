package sse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// show prints an item so that two can be compared.
func show(it Item) string {
	switch it.Kind {
	case KindComment:
		return fmt.Sprintf("comment %q", it.Data)
	case KindRetry:
		return fmt.Sprintf("retry %d", it.RetryMillis)
	}
	verb := "id"
	if it.IDSet {
		verb = "set"
	}
	return fmt.Sprintf("%s %q %s %q", it.Type, it.Data, verb, it.ID)
}

// decode feeds pieces in turn and returns everything that came out.
func decode(d *Decoder, pieces ...[]byte) (items []string, err error) {
	for _, p := range pieces {
		err = d.Feed(p, func(it Item) error {
			items = append(items, show(it))
			return nil
		})
		if err != nil {
			return items, err
		}
	}
	return items, nil
}

// cut splits b into pieces of size bytes.
func cut(b []byte, size int) [][]byte {
	return slices.Collect(slices.Chunk(b, size))
}

func TestWHATWGInterpretation(t *testing.T) {
	names, columns := table(t, "whatwg.txt")
	if len(names) < 18 {
		t.Fatalf("only %d vectors", len(names))
	}
	for i, name := range names {
		stream, want := []byte(columns[i][0]), columns[i][1:]
		f := func(how string, pieces ...[]byte) {
			got, err := decode(new(Decoder), pieces...)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, %v, want %q", name, how, got, err, want)
			}
		}
		f("whole", stream)
		f("bytes", cut(stream, 1)...)
		f("bytes and nothing between", slices.Insert(cut(stream, 1), 1, nil, []byte{})...)
		for at := 1; at < len(stream); at++ {
			f(fmt.Sprint("cut at ", at), stream[:at], stream[at:])
		}
	}
}

// TestCREndsTheLineAtOnce proves that an event is not held back until the byte
// after its CR is there.
func TestCREndsTheLineAtOnce(t *testing.T) {
	d := new(Decoder)
	for _, step := range []struct{ in, want string }{
		{"data: a\r\r", `message "a" id ""`},
		{"\ndata: b\r\n\r", `message "b" id ""`},
		{"\n\ndata: c\n\n", `message "c" id ""`},
	} {
		items, err := decode(d, []byte(step.in))
		if err != nil || !slices.Equal(items, []string{step.want}) {
			t.Errorf("%q: %q, %v", step.in, items, err)
		}
	}
}

func TestE3Bounds(t *testing.T) {
	f := func(name, stream string, want error, items ...string) {
		t.Helper()
		for _, size := range []int{1, 3, len(stream)} {
			d := &Decoder{MaxLineBytes: 20, MaxEventBytes: 40}
			got, err := decode(d, cut([]byte(stream), size)...)
			if !errors.Is(err, want) || !slices.Equal(got, items) {
				t.Errorf("%s in pieces of %d: %q, %v", name, size, got, err)
			}
			if len(d.line) > 20 || len(d.typ)+len(d.data)+len(d.id) > 40 {
				t.Errorf("%s: %d and %d bytes held", name, len(d.line), len(d.data))
			}
			if again, err := decode(d, []byte("\n\ndata: x\n\n")); want != nil && (err != want || again != nil) {
				t.Errorf("%s: lives on with %q, %v", name, again, err)
			}
		}
	}
	line := "data: 12345678901234" // 20 bytes
	f("line at the limit", line+"\n\n", nil, `message "12345678901234" id ""`)
	f("line over the limit", "data: x\n\n"+line+"5\n\n", ErrLineTooLong, `message "x" id ""`)
	f("endless line", ": "+strings.Repeat("x", 100), ErrLineTooLong)
	f("event at the limit", line+"\n"+line+"\ndata: 123456789\n\n", nil,
		`message "12345678901234\n12345678901234\n123456789" id ""`)
	f("event over the limit", line+"\n"+line+"\ndata: 1234567890\n\n", ErrEventTooLong)
	f("many empty data lines", strings.Repeat("data\n", 41), ErrEventTooLong)
	f("type counts", line+"\n"+line+"\nevent: 1234567890\n", ErrEventTooLong)
	f("id counts", line+"\n"+line+"\nid: 1234567890\n", ErrEventTooLong)
	f("blank lines and comments count nothing", strings.Repeat(": x\n\n", 2), nil, `comment "x"`, `comment "x"`)
}

func TestCallbackErrorEndsTheStream(t *testing.T) {
	stop := errors.New("stop")
	d, calls := new(Decoder), 0
	for range 2 {
		err := d.Feed([]byte(": a\n: b\n"), func(Item) error {
			calls++
			return stop
		})
		if !errors.Is(err, stop) {
			t.Error(err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

func TestLastEventID(t *testing.T) {
	d := new(Decoder)
	for _, step := range []struct{ in, want string }{
		{"id: s:0:1\ndata: x\n", ""},
		{"\n", "s:0:1"},
		{"id: s:0:2\n", "s:0:1"},
		{"\n", "s:0:2"},
		{"id\n\n", ""},
	} {
		if _, err := decode(d, []byte(step.in)); err != nil || string(d.LastEventID()) != step.want {
			t.Errorf("after %q: %q, %v", step.in, d.LastEventID(), err)
		}
	}
}

// TestManyLinesAreLinear covers the streams that are costly to a decoder which
// looks for each end character from the start of each line.
func TestManyLinesAreLinear(t *testing.T) {
	for _, line := range []string{"\r", ":\r", ":\n", "\n", "\r\n"} {
		stream := bytes.Repeat([]byte(line), 1<<20/len(line))
		count := 0
		err := new(Decoder).Feed(stream, func(Item) error {
			count++
			return nil
		})
		if want := strings.Count(line, ":") * len(stream) / len(line); err != nil || count != want {
			t.Errorf("%q: %d items, %v", line, count, err)
		}
	}
}

func TestDecoderDoesNotAllocate(t *testing.T) {
	stream := AppendComment(nil, "ping")
	stream = AppendEvent(stream, "tool.started", bytes.Repeat([]byte("x"), 600), []byte("s:0:1"))
	stream = AppendEvent(stream, "", []byte("y"), nil)
	for _, size := range []int{len(stream), 100} {
		d, pieces, count := new(Decoder), cut(stream, size), 0
		deliver := func(Item) error { count++; return nil }
		n := testing.AllocsPerRun(100, func() {
			for _, p := range pieces {
				if err := d.Feed(p, deliver); err != nil {
					t.Fatal(err)
				}
			}
		})
		if n != 0 || count != 3*101 {
			t.Errorf("pieces of %d: %v allocations, %d items", size, n, count)
		}
	}
}
