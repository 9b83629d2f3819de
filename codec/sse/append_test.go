package sse

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

// table reads a file of testdata: names and quoted columns.
func table(t testing.TB, file string) (names []string, columns [][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, "|")
		names = append(names, strings.TrimSpace(name))
		var row []string
		for rest = strings.TrimLeft(rest, " |\n"); rest != ""; rest = strings.TrimLeft(rest, " |\n") {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("%s: %q: %v", file, rest, err)
			}
			value, _ := strconv.Unquote(quoted)
			row = append(row, value)
			rest = rest[len(quoted):]
		}
		columns = append(columns, row)
	}
	return names, columns
}

func TestR272R274Blocks(t *testing.T) {
	id, ok := AppendID(nil, "s-1", 2, 7)
	if !ok {
		t.Fatal("no id")
	}
	got := map[string][]byte{
		"R272 event with id":    AppendEvent(nil, "tool.started", []byte(`{"seq":7}`), id),
		"R272 event without id": AppendEvent(nil, "agent.online", []byte(`{}`), nil),
		"R273 id with LF":       AppendEvent(nil, "run.started", []byte(`{}`), []byte("a\nb:0:1")),
		"R274 open":             AppendRetryOpen(nil, "open 01JD3Z8Q", 2500),
		"R274 ping":             AppendComment(nil, "ping"),
		"R274 replay-exhausted": AppendComment(nil, "replay-exhausted a\r\nb\x00c 3:9"),
		"R274 replay-complete":  AppendComment(nil, "replay-complete"),
		"R274 shutting-down":    AppendComment(nil, "shutting-down"),
	}
	names, columns := table(t, "blocks.txt")
	if len(names) != len(got) {
		t.Errorf("%d vectors for %d blocks", len(names), len(got))
	}
	for i, name := range names {
		if want := columns[i][0]; string(got[name]) != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// TestE1NothingBreaksOut covers what callers should not pass.
func TestE1NothingBreaksOut(t *testing.T) {
	f := func(typ, data, id, want string) {
		t.Helper()
		if got := AppendEvent([]byte("<"), typ, []byte(data), []byte(id)); string(got) != "<"+want {
			t.Errorf("%q %q %q: %q, want %q", typ, data, id, got, want)
		}
	}
	f("", "x", "", "data: x\n\n")
	f("", "", "", "data: \n\n")
	for _, c := range []string{"\r", "\n", "\x00"} {
		f("a"+c+"data: b", "x", "1", "data: x\nid: 1\n\n")
		f("a", "x", "1"+c, "event: a\ndata: x\n\n")
	}
	f("a", "x\n\nevent: b", "", "event: a\ndata: x\ndata: \ndata: event: b\n\n")
	f("a", "x\ry\r\nz\n", "", "event: a\ndata: x\ndata: y\ndata: z\ndata: \n\n")
	f("a", "\r", "", "event: a\ndata: \ndata: \n\n")

	if got := AppendRetryOpen(nil, "open a\n\ndata: x", -1); string(got) != ": open a%0A%0Adata: x\n\n" {
		t.Errorf("%q", got)
	}
	if got := AppendRetryOpen(nil, "", 0); string(got) != ": \nretry: 0\n\n" {
		t.Errorf("%q", got)
	}
	// Linear, also for the worst text: 1 MiB of CR.
	data := bytes.Repeat([]byte("\r"), 1<<20)
	if got := AppendEvent(nil, "", data, nil); len(got) != 7*(len(data)+1)+1 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestIsOneLine(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "abc": true, "\u2028\u0085\v\f": true, "a\n": false, "\ra": false, "a\r\nb": false,
	} {
		if IsOneLine([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	long := bytes.Repeat([]byte("x"), 300)
	for i := range long {
		for _, c := range []byte("\r\n") {
			long[i] = c
			if IsOneLine(long) {
				t.Errorf("%q at %d not seen", c, i)
			}
			long[i] = 'x'
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	dst, data := make([]byte, 0, 4096), make([]byte, 600)
	for i := range data {
		data[i] = 'x'
	}
	id := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		id, _ = AppendID(id[:0], "session-1", 3, 99)
		dst = AppendEvent(dst[:0], "tool.started", data, id)
		dst = AppendComment(dst, "ping")
		dst = AppendRetryOpen(dst, "open x", 1234)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
