package aep

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// fixture reads a file of the protocol's published fixtures, which lie beside
// the checkout.
func fixture(t *testing.T, name string) []byte {
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
	path := filepath.Join(dir, "..", "shared", "aep", filepath.FromSlash(name))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("published fixtures are absent: %v", err)
	}
	return content
}

// TestGoldenEvents is R119: all 64 published events pass, each with its text
// as it was.
func TestGoldenEvents(t *testing.T) {
	count := 0
	for line := range bytes.Lines(fixture(t, "conformance/fixtures/golden/golden.jsonl")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		count++
		e := mustAdmit(t, string(line))
		if !bytes.Equal(e.Text(), line) {
			t.Errorf("line %d: text changed", count)
		}
		if command := count == 7 || count == 21; command != (e.Class() == ClassCommand) {
			t.Errorf("line %d: class %d", count, e.Class())
		}
		if _, hasSeq := e.Seq(); count == 6 && (hasSeq || e.Class() != ClassForeign) {
			t.Error("line 6 is attention.routed without seq (R106)")
		}
	}
	if count != 64 {
		t.Errorf("%d events, want 64", count)
	}
}

// TestInvalidCases is R119: of the published invalid cases those are refused
// that break the envelope, under the rule that relay-verdicts.json names.
func TestInvalidCases(t *testing.T) {
	var invalid struct {
		Cases []struct {
			Name   string
			Event  json.RawMessage
			Events []json.RawMessage
		}
	}
	var verdicts struct {
		Cases []struct {
			Name, Verdict, Rule string
			Events              int
		}
	}
	if err := json.Unmarshal(fixture(t, "conformance/fixtures/invalid/cases.json"), &invalid); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(fixture(t, "relay-verdicts.json"), &verdicts); err != nil {
		t.Fatal(err)
	}
	if len(invalid.Cases) != 35 || len(verdicts.Cases) != 35 {
		t.Fatalf("%d cases, %d verdicts", len(invalid.Cases), len(verdicts.Cases))
	}
	for i, c := range invalid.Cases {
		v := verdicts.Cases[i]
		events := c.Events
		if c.Event != nil {
			events = append(events, c.Event)
		}
		if v.Name != c.Name || v.Events != len(events) {
			t.Fatalf("case %q has verdict %q", c.Name, v.Name)
		}
		t.Run(c.Name, func(t *testing.T) {
			for _, text := range events {
				_, err := admit(string(text))
				switch v.Verdict {
				case "reject":
					checkRule(t, err, v.Rule)
				case "accept":
					if err != nil {
						t.Error(err)
					}
				default:
					t.Errorf("verdict %q", v.Verdict)
				}
			}
		})
	}
}

// TestCategories is R116: the embedded list is the published registry, whose x
// has a grammar of its own.
func TestCategories(t *testing.T) {
	if len(categories) != 13 {
		t.Errorf("%d categories, want 13", len(categories))
	}
	var registry struct{ Categories []struct{ Name string } }
	if err := json.Unmarshal(fixture(t, "schemas/registry/categories.json"), &registry); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range registry.Categories {
		if c.Name != "x" {
			want = append(want, c.Name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(categories)); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestCoreNames: the seventeen core names are those of the published schema,
// and each is found under its own name.
func TestCoreNames(t *testing.T) {
	for c := range coreNone {
		if coreOf(coreNames[c]) != c {
			t.Errorf("%s is another attribute", coreNames[c])
		}
	}
	var schema struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(fixture(t, "schemas/aep-event.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(maps.Keys(schema.Properties))
	if got := slices.Sorted(slices.Values(coreNames[:])); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
