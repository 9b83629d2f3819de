package publish

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// drain reads a feed to its end as "number:text" of each line, "number!" for
// one that is too long, and "|" behind each batch.
func drain(t *testing.T, f *feed) (string, int64, error) {
	t.Helper()
	var got []string
	input := int64(0)
	for {
		b, err := f.next()
		if b == nil {
			return strings.Join(got, " "), input, err
		}
		for i, l := range b.lines {
			got = append(got, fmt.Sprintf("%d:%s", l.number, b.text(i)))
		}
		for _, r := range b.refused {
			got = append(got, fmt.Sprintf("%d!", r.Line))
		}
		if len(b.lines) > 0 {
			if all := b.bytes(0, len(b.lines)); len(all) > f.limits.bytes && len(b.lines) > 1 || !bytes.Equal(all, b.body) {
				t.Errorf("batch %q, limit %d bytes", all, f.limits.bytes)
			}
		}
		if !b.empty() {
			got = append(got, "|")
		}
		input += b.input
		f.give(b)
	}
}

// splitReader returns a text in two pieces.
func splitReader(text string, at int) io.Reader {
	return io.MultiReader(strings.NewReader(text[:at]), strings.NewReader(text[at:]))
}

// P2, R74: lines are numbered as in the input, blank ones and white space
// around lines count for nothing, batches keep their bounds; however the input
// is cut.
func TestFeedLines(t *testing.T) {
	f := func(input, want string) {
		t.Helper()
		for at := range len(input) + 1 {
			fd := newFeed(limits{lines: 3, bytes: 12, lineBytes: 10, linger: time.Hour})
			go fd.read(splitReader(input, at))
			got, n, err := drain(t, fd)
			if got != want || n != int64(len(input)) || err != nil {
				t.Fatalf("%q cut at %d: got %q of %d bytes, %v, want %q of %d", input, at, got, n, err, want, len(input))
			}
		}
	}
	f("", "")
	f("\n\n \t\r\n", "")
	f("a\n", "1:a |")
	f("a", "1:a |")
	f("a\r\n\n b \r\nc", "1:a 3:b 4:c |")
	f("a\nb\nc\nd\n", "1:a 2:b 3:c | 4:d |")
	f("12345\n12345\n1\n", "1:12345 2:12345 | 3:1 |")
	f("1234567890\n1\n", "1:1234567890 | 2:1 |")
	f("12345678901\n1\n", "2:1 1! |")
	f("x\n12345678901234567890\n\n1\n", "1:x 4:1 2! |")
	f(strings.Repeat("z", 50)+"\n"+strings.Repeat("z", 50), "1! 2! |")
	space := strings.Repeat(" ", 20)
	f(space+"\na\n"+space, "2:a |")
	f(space+"a"+space+"\n"+space+"b"+space, "1:a 2:b |")
	f(space+"12345678901\n"+space+strings.Repeat("z", 20)+space, "1! 2! |")
	f("a"+space+"b\na\n", "2:a 1! |")
}

// A line that is longer than the bound is not held.
func TestFeedBoundsLine(t *testing.T) {
	fd := newFeed(limits{lines: 3, bytes: 12, lineBytes: 1 << 10, linger: time.Hour})
	go fd.read(io.LimitReader(zeros{}, 64<<20))
	if got, _, err := drain(t, fd); got != "1! |" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if cap(fd.part) > 8<<10 {
		t.Errorf("holds %d bytes of a line of which 1024 are allowed", cap(fd.part))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'z'
	}
	return len(p), nil
}

// A line does not wait longer than the linger for others, and one that comes
// within it goes along.
func TestFeedLinger(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	fd := newFeed(limits{lines: 1000, bytes: 1 << 20, lineBytes: 1000, linger: 50 * time.Millisecond})
	go fd.read(r)
	begun := time.Now()
	if _, err := io.WriteString(w, "a\nb\n"); err != nil {
		t.Fatal(err)
	}
	b, err := fd.next()
	if err != nil || len(b.lines) != 2 {
		t.Fatalf("got %+v, %v", b, err)
	}
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("did not wait for others: %v", took)
	}
}

// The input's error comes behind its lines; end gives what was read, stop
// nothing; and a reader that waits for room does not outlive either.
func TestFeedEnds(t *testing.T) {
	boom := errors.New("boom")
	fd := newFeed(limits{lines: 10, bytes: 100, lineBytes: 100, linger: time.Hour})
	go fd.read(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(boom)))
	if got, _, err := drain(t, fd); got != "1:a 2:b |" || !errors.Is(err, boom) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, c := range []struct {
		name string
		end  func(*feed)
		want string
	}{
		{"end", (*feed).end, "1:a |"},
		{"stop", (*feed).stop, ""},
	} {
		fd := newFeed(limits{lines: 1, bytes: 100, lineBytes: 100, linger: time.Hour})
		done := make(chan struct{})
		go func() { defer close(done); fd.read(strings.NewReader("a\nb\nc\n")) }()
		fd.mu.Lock()
		for !fd.full {
			fd.changed.Wait()
		}
		fd.mu.Unlock()
		c.end(fd)
		if got, _, err := drain(t, fd); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
		select {
		case <-done:
		case <-time.After(patience):
			t.Errorf("%s: the reader still waits", c.name)
		}
	}
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte("a\n\r\n bc\t\nlonger than the bound of a line\nd"), 3)
	f.Fuzz(func(t *testing.T, input []byte, at int) {
		l := limits{lines: 2, bytes: 16, lineBytes: 8, linger: time.Hour}
		var all []string
		for _, cut := range []int{0, min(max(at, 0), len(input))} {
			fd := newFeed(l)
			go fd.read(splitReader(string(input), cut))
			got, n, err := drain(t, fd)
			if err != nil || n != int64(len(input)) {
				t.Fatalf("%d bytes of %d, %v", n, len(input), err)
			}
			all = append(all, got)
		}
		if all[0] != all[1] {
			t.Errorf("cut at %d: %q and %q", at, all[0], all[1])
		}
		want := 0
		for _, line := range bytes.Split(input, []byte("\n")) {
			if len(bytes.Trim(line, " \t\r")) > 0 {
				want++
			}
		}
		if got := strings.Count(all[0], ":") + strings.Count(all[0], "!"); got != want && !bytes.ContainsAny(input, ":!") {
			t.Errorf("%q has %d lines that are not blank: %q", input, want, all[0])
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat("x", 299)+"\n", 10_000))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		fd := newFeed(limits{lines: 10_000, bytes: 4 << 20, lineBytes: 1 << 20, linger: time.Second})
		go fd.read(bytes.NewReader(text))
		for {
			batch, _ := fd.next()
			if batch == nil {
				break
			}
			fd.give(batch)
		}
	}
}
