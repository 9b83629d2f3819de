package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
		gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range max(len(gotLines), len(wantLines)) {
			if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
				t.Fatalf("%s, line %d:\ngot  %q\nwant %q", name, i+1, at(gotLines, i), at(wantLines, i))
			}
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(none)"
}

// shared reads a file of the protocol's published data, which lies beside the
// checkout.
func shared(t *testing.T, name string) []byte {
	t.Helper()
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
	content, err := os.ReadFile(filepath.Join(dir, "..", "shared", "aep", filepath.FromSlash(name)))
	if err != nil {
		t.Skipf("published data is absent: %v", err)
	}
	return content
}

// lines renders each line of a text.
func lines(events []byte, o Options) []byte {
	var out []byte
	for text := range bytes.Lines(events) {
		out = append(Line(out, bytes.TrimSuffix(text, []byte("\n")), o), '\n')
	}
	return out
}

// The published events, one for each registered type at least.
func TestGoldenPublished(t *testing.T) {
	golden(t, "published.txt", lines(shared(t, "conformance/fixtures/golden/golden.jsonl"), Options{}))
}

// The project's own events: odd ones, vendor types, payloads of wrong shapes.
func TestGoldenOwn(t *testing.T) {
	events, err := os.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plain.txt", lines(events, Options{}))
	golden(t, "color.txt", lines(events, Options{Color: true}))
	golden(t, "narrow.txt", lines(events, Options{Width: 72}))
	golden(t, "narrow-color.txt", lines(events, Options{Width: 72, Color: true}))
	zone := time.FixedZone("here", 2*60*60)
	golden(t, "zone.txt", lines(events[:bytes.IndexByte(events, '\n')+1], Options{Location: zone}))
}

// What is appended leaves what was there alone, cut or not.
func TestLineAppends(t *testing.T) {
	event := []byte(`{"type":"progress.status","time":"2026-07-03T10:00:00Z","data":{"message":"hello"}}`)
	for width := range 80 {
		got := Line([]byte("before "), event, Options{Width: width})
		if !bytes.HasPrefix(got, []byte("before ")) {
			t.Fatalf("width %d: %q", width, got)
		}
		line := string(got[len("before "):])
		if width > 0 && Columns(line) > width {
			t.Errorf("width %d: %q has %d columns", width, line, Columns(line))
		}
		if cut := strings.HasSuffix(line, "…"); cut != (width > 0 && width < Columns(string(Line(nil, event, Options{})))) {
			t.Errorf("width %d: %q", width, line)
		}
	}
}

// Each registered type that has a payload is told of in its own way, and no
// other name is in the table (AEP-0002, section 4).
func TestTellersAreTheRegistry(t *testing.T) {
	var registry struct {
		Types []struct {
			Type   string
			Schema *string
		}
	}
	if err := json.Unmarshal(shared(t, "schemas/registry/types.json"), &registry); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range registry.Types {
		known[r.Type] = true
		if r.Schema != nil && tellers[r.Type] == nil {
			t.Errorf("%s has a schema, and nothing to be told", r.Type)
		}
	}
	for name := range tellers {
		if !known[name] {
			t.Errorf("%s is not registered", name)
		}
	}
	if len(known) < 40 {
		t.Errorf("%d types", len(known))
	}
}
