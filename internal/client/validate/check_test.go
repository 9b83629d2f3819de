package validate

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// check checks one text and returns the report and the counts.
func check(t testing.TB, o Options, text string) (string, Counts) {
	t.Helper()
	var b strings.Builder
	c := New(o, func(p Problem) { fmt.Fprintln(&b, p) })
	if err := c.Check("f", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return b.String(), c.Counts()
}

// event returns a valid event.
func event(session, id string, epoch, seq int) string {
	return fmt.Sprintf(`{"aep":"0.1","id":%q,"type":"progress.status","time":"t","source":"s","agent":"a",`+
		`"session":%q,"epoch":%d,"seq":%d}`, id, session, epoch, seq)
}

// Each rule that a line may break has its name, its place and a reason.
func TestReport(t *testing.T) {
	good := event("x", "1", 0, 0)
	f := func(name, text, want string, good, bad int64) {
		t.Helper()
		got, n := check(t, Options{MaxBytes: 4000}, text)
		if got != want || n.Events != good || n.Bad != bad {
			t.Errorf("%s: %+v, got\n%swant\n%s", name, n, got, want)
		}
	}
	f("nothing", "", "", 0, 0)
	f("R74 blank lines", "\n \t\r\n\n", "", 0, 0)
	f("R74 CRLF and space", " "+good+"\t\r\n\r\n"+event("x", "2", 0, 1)+"\r\n", "", 2, 0)
	f("no line end at the end", good, "", 1, 0)
	f("R100", good+"\n7\n", "f:2: R100: an event is a JSON object\n", 1, 1)
	f("R101", "{}\n", "f:1: R101: aep is missing\n", 0, 1)
	f("R102", strings.Replace(good, `"id":"1"`, `"id":""`, 1), "f:1: R102: id is not a non-empty string\n", 0, 1)
	f("R107", "\n\n"+strings.Replace(good, `,"seq":0`, ``, 1)+"\n", "f:3: R107: seq is missing\n", 0, 1)
	f("R70 and column", good+"\n  {\"a\" 1}\n", "f:2:8: R70: not JSON: expected a colon\n", 1, 1)
	f("R70 UTF-8", good+"\n{\"a\":\"\xff\"}\n", "f:2:7: R70: not JSON: invalid UTF-8\n", 1, 1)
	f("R70 torn at the end", good+"\n{\"a\":", "f:2:6: R70: not JSON: unexpected end of text\n", 1, 1)
	f("R70 two events on a line", good+good+"\n", fmt.Sprintf("f:1:%d: R70: not JSON: text goes on after its value\n", len(good)+1), 0, 1)
	f("R76", good+"\n"+strings.Repeat("x", 4001)+"\n"+event("x", "2", 0, 1), "f:2: R76: line is longer than 4000 bytes\n", 2, 1)
	f("R76 first", strings.Repeat("x", 200_000)+"\n"+good, "f:1: R76: line is longer than 4000 bytes\n", 1, 1)
	f("R80", good+"\n"+strings.Repeat("[", 1500)+"\n", "f:2:1001: R80: not JSON: nested too deep\n", 1, 1)
}

// A file may be one event over many lines; a torn first line does not hide the
// rest.
func TestDocuments(t *testing.T) {
	pretty := "{\n" + strings.ReplaceAll(strings.TrimPrefix(event("x", "1", 0, 0), "{"), ",", ",\n  ")
	f := func(name, text, want string, good int64) {
		t.Helper()
		got, n := check(t, Options{MaxBytes: 4000}, text)
		if got != want || n.Events != good {
			t.Errorf("%s: %+v, got\n%swant\n%s", name, n, got, want)
		}
	}
	f("one event", "\n"+pretty+"\n\n", "", 1)
	f("one bad event", "\n"+strings.Replace(pretty, `"0.1"`, `"9"`, 1), "f:2: R101: aep is not the string \"0.1\"\n", 0)
	f("one torn event", pretty[:len(pretty)-1], "f:10:10: R70: not JSON: unexpected end of text\n", 0)
	f("a fault within", strings.Replace(pretty, `"source":`, `"source"`, 1), "f:6:11: R70: not JSON: expected a colon\n", 0)
	f("an array", "[\n"+event("x", "1", 0, 0)+",\n"+event("x", "2", 0, 1)+"\n]\n", "f:1: R100: an event is a JSON object"+arrayHint+"\n", 0)
	f("an array on a line", "["+event("x", "1", 0, 0)+"]\n", "f:1: R100: an event is a JSON object"+arrayHint+"\n", 0)
	torn := "f:1:8: R70: not JSON: unexpected end of text\n"
	f("a torn first line", "{\"aep\":\n"+event("x", "1", 0, 0)+"\n"+event("x", "2", 0, 1)+"\n", torn, 2)
	f("a torn first line, then space", "{\"aep\":\n  "+event("x", "1", 0, 0)+"\n", torn, 1)
	f("torn and too long", "{\"aep\":\n"+strings.Repeat("x", 5000)+"\n"+event("x", "1", 0, 0), torn+
		"f:2: R76: line is longer than 4000 bytes\n", 1)
	var bad strings.Builder
	bad.WriteString(torn)
	for line := 2; line <= 1001; line++ {
		fmt.Fprintf(&bad, "f:%d:1: R70: not JSON: expected a value\n", line)
	}
	f("torn and over the limit", "{\"aep\":\n"+strings.Repeat("no\n", 1000)+strings.Repeat("\n", 4000), bad.String(), 0)
}

// Warnings are of what a relay takes (R161, R162), within one file and over
// several, and can be left out.
func TestWarnings(t *testing.T) {
	f := func(name string, lines []string, want ...string) {
		t.Helper()
		text := strings.Join(lines, "\n")
		got, n := check(t, Options{}, text)
		for i := range want {
			want[i] = "f:" + want[i] + "\n"
		}
		if got != strings.Join(want, "") || n.Bad != 0 || n.Warnings != int64(len(want)) || n.Events != int64(len(lines)) {
			t.Errorf("%s: %+v, got\n%s", name, n, got)
		}
		if got, n := check(t, Options{NoWarnings: true}, text); got != "" || n.Warnings != 0 {
			t.Errorf("%s: without warnings: %s", name, got)
		}
	}
	f("R161 again", []string{event("x", "1", 0, 0), event("x", "2", 0, 1), event("x", "1", 0, 0)},
		"3: warning: R161: same source and id as line 1: a relay keeps the first only")
	f("R162 back", []string{event("x", "1", 0, 5), event("x", "2", 0, 3), event("x", "3", 0, 6)},
		"2: warning: R162: seq 3 after seq 5 at line 1")
	f("R162 equal", []string{event("x", "1", 0, 5), event("x", "2", 0, 5)}, "2: warning: R162: seq 5 again, as at line 1")
	f("R162 epoch", []string{event("x", "1", 2, 5), event("x", "2", 3, 0), event("x", "3", 2, 6)},
		"3: warning: R162: epoch 2 after epoch 3 at line 2")
	f("R160 two sources", []string{event("x", "1", 0, 5), strings.Replace(event("x", "1", 0, 5), `"source":"s"`, `"source":"t"`, 1)})
	f("two sessions", []string{event("x", "1", 0, 5), event("y", "2", 0, 0), event("x", "3", 0, 6), event("y", "4", 0, 1)})

	var last Problem
	c := New(Options{}, func(p Problem) { last = p })
	for _, file := range []string{"a", "b"} {
		if err := c.Check(file, strings.NewReader("\n"+event("x", "1", 0, 0))); err != nil {
			t.Fatal(err)
		}
	}
	if got := last.String(); !strings.HasPrefix(got, "b:2: warning: R161: same source and id as a:2:") {
		t.Error(got)
	}
}

// V1: the memory of what was seen is bounded, and the recent is kept.
func TestRecentIsBounded(t *testing.T) {
	r := newRecent[int](100)
	for i := range 1000 {
		r.put("k", fmt.Sprint(i), i)
		for back := range min(i+1, 100) {
			if v, ok := r.get("k", fmt.Sprint(i-back)); !ok || v != i-back {
				t.Fatalf("at %d: %d back is lost", i, back)
			}
		}
		if len(r.young)+len(r.old) > 200 {
			t.Fatalf("%d entries", len(r.young)+len(r.old))
		}
	}
	if _, ok := r.get("kk", "1"); ok {
		t.Error("keys are not apart")
	}
}

// R100 to R118: the vectors of the codec, one a line, and the report of them.
func TestGoldenEnvelope(t *testing.T) {
	content, err := os.ReadFile("../../../codec/aep/testdata/envelope.txt")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	rejected := int64(0)
	for block := range strings.SplitSeq(string(content), "\n\n") {
		head, event, _ := strings.Cut(strings.TrimSuffix(block, "\n"), "\n")
		if !strings.HasPrefix(head, "#") && !strings.ContainsAny(event, "\r\n") {
			text.WriteString(event + "\n")
			if strings.HasPrefix(head, "reject") {
				rejected++
			}
		}
	}
	got, n := check(t, Options{NoWarnings: true}, text.String())
	if n.Bad != rejected || n.Events < 50 {
		t.Errorf("%+v, want %d bad", n, rejected)
	}
	path := filepath.Join("testdata", "envelope.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s", got)
	}
}

// Reading that fails says where, and what came before counts.
func TestReadFails(t *testing.T) {
	c := New(Options{}, func(Problem) {})
	err := c.Check("f", io.MultiReader(strings.NewReader(event("x", "1", 0, 0)+"\n"), iotest.ErrReader(io.ErrClosedPipe)))
	if !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "f, line 2") || c.Counts().Events != 1 {
		t.Errorf("%v, %+v", err, c.Counts())
	}
}

// The report does not depend on how the input is cut.
func TestSplitReads(t *testing.T) {
	text := "\r\n{\"aep\":\n " + event("x", "1", 0, 0) + "\r\n" + strings.Repeat("y", 300) + "\n\n" +
		event("x", "1", 0, 0) + "\n" + strings.Repeat("z", 70_000) + "\n{}\nnull"
	want, n := check(t, Options{MaxBytes: 250}, text)
	if n.Bad != 5 || n.Events != 2 {
		t.Fatalf("%+v\n%s", n, want)
	}
	for cut := range len(text) + 1 {
		if cut > 600 && cut < len(text)-100 && cut%997 != 0 {
			continue // within the long line
		}
		var b strings.Builder
		c := New(Options{MaxBytes: 250}, func(p Problem) { fmt.Fprintln(&b, p) })
		if err := c.Check("f", io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:]))); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Fatalf("cut at %d: got\n%s", cut, b.String())
		}
	}
	var b strings.Builder
	c := New(Options{MaxBytes: 250}, func(p Problem) { fmt.Fprintln(&b, p) })
	if err := c.Check("f", iotest.OneByteReader(strings.NewReader(text))); err != nil || b.String() != want {
		t.Fatalf("%v, got\n%s", err, b.String())
	}
}

// Every line that is not blank is an event or bad, whatever it holds, unless
// the file is a document.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(event("x", "1", 0, 0) + "\n{}\n"))
	f.Add([]byte("{\n\"aep\":\"0.1\"\n}"))
	f.Add([]byte("[\n{}\n]\nx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, limit := range []int{1, 20, 1 << 20} {
			last := int64(0)
			c := New(Options{MaxBytes: limit}, func(p Problem) {
				if p.Line < last || p.Line < 1 || p.Column < 0 || p.Rule == "" || p.Reason == "" {
					t.Errorf("%+v after line %d", p, last)
				}
				last = p.Line
			})
			if err := c.Check("f", bytes.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			lines := int64(0)
			for line := range bytes.Lines(text) {
				if len(bytes.Trim(line, " \t\r\n")) > 0 || len(line) > limit {
					lines++
				}
			}
			if n := c.Counts(); n.Events+n.Bad > lines || lines > 0 && limit == 1<<20 && n.Events+n.Bad == 0 {
				t.Errorf("limit %d: %+v for %d lines", limit, n, lines)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	var text bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintln(&text, event(fmt.Sprint("s", i%100), fmt.Sprint("id", i), 0, i))
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		c := New(Options{}, func(p Problem) { b.Fatal(p) })
		if err := c.Check("f", bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}
