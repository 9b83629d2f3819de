package timeline

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/client/render"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata, or rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run with -update", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// sessionsOf returns the sessions of a file in order of appearance.
func sessionsOf(events []byte) []string {
	var names []string
	for line := range bytes.Lines(events) {
		if e, ok := render.Parse(line); ok && e.Session != "" && !slices.Contains(names, e.Session) {
			names = append(names, e.Session)
		}
	}
	return names
}

// timelineOf reads one session of a file.
func timelineOf(t *testing.T, events []byte, session string) *Timeline {
	t.Helper()
	b := New(session)
	if _, err := b.Read(bytes.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	return b.Timeline()
}

// texts renders all sessions of a file.
func texts(t *testing.T, events []byte, o TextOptions) []byte {
	t.Helper()
	var out []byte
	for _, session := range sessionsOf(events) {
		out = append(timelineOf(t, events, session).AppendText(out, o), '\n')
	}
	return out
}

// The sessions of the published events, commands among them.
func TestGoldenPublished(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no go.mod above the package")
		}
		dir = filepath.Dir(dir)
	}
	events, err := os.ReadFile(filepath.Join(dir, "..", "shared/aep/conformance/fixtures/golden/golden.jsonl"))
	if err != nil {
		t.Skipf("published fixtures are absent: %v", err)
	}
	golden(t, "published.txt", texts(t, events, TextOptions{}))
}

// The project's own sessions, each one a case: see testdata/README.md.
func TestGoldenOwn(t *testing.T) {
	events, err := os.ReadFile("testdata/sessions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "sessions.txt", texts(t, events, TextOptions{}))
	golden(t, "narrow-color.txt", texts(t, events, TextOptions{Options: render.Options{Width: 60, Color: true}}))
	golden(t, "all.txt", timelineOf(t, events, "many-alike").AppendText(nil, TextOptions{All: true}))
	tree, err := json.MarshalIndent(timelineOf(t, events, "interleaved"), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "interleaved.json", append(tree, '\n'))
}

// A text of any width is escaped: no control character of an event gets out.
func TestTextIsSafe(t *testing.T) {
	events, err := os.ReadFile("testdata/sessions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{0, 1, 5, 20, 80} {
		text := string(texts(t, events, TextOptions{Options: render.Options{Width: width}}))
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == '\u202e' }); i >= 0 {
			t.Errorf("width %d: %q", width, text[i:min(len(text), i+40)])
		}
		for line := range strings.Lines(text) {
			if n := render.Columns(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("width %d: %d columns in %q", width, n, line)
			}
		}
	}
}
