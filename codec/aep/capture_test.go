package aep

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestResultLevel is the table of R242.
func TestResultLevel(t *testing.T) {
	type result struct {
		to      Level
		rewrite bool
	}
	same := func(l Level) result { return result{l, false} }
	to := func(l Level) result { return result{l, true} }
	none, meta, redacted, full := LevelNone, LevelMetadata, LevelRedacted, LevelFull
	for _, c := range []struct {
		ceiling Ceiling
		want    [4]result // for an event at none, metadata, redacted, full
	}{
		{NoCeiling, [4]result{same(none), same(meta), same(redacted), same(full)}},
		{CeilingAt(none), [4]result{to(none), to(none), to(none), to(none)}},
		{CeilingAt(meta), [4]result{same(none), same(meta), to(meta), to(meta)}},
		{CeilingAt(redacted), [4]result{same(none), same(meta), same(redacted), to(meta)}},
		{CeilingAt(full), [4]result{same(none), same(meta), same(redacted), same(full)}},
	} {
		for event, want := range c.want {
			got := result{}
			got.to, got.rewrite = ResultLevel(Level(event), true, c.ceiling)
			if got != want {
				t.Errorf("R242: event %v, ceiling %q: got %v, want %v",
					Level(event), c.ceiling, got, want)
			}
		}
	}
	if _, rewrite := ResultLevel(none, false, CeilingAt(none)); rewrite {
		t.Error("R242: an event at none without data stays as it is")
	}
	if l, rewrite := ResultLevel(meta, false, CeilingAt(none)); l != none || !rewrite {
		t.Error("R242: an event at metadata without data is relabelled")
	}
}

func TestCeilingLevels(t *testing.T) {
	for l := LevelNone; l <= LevelFull; l++ {
		if got, ok := CeilingAt(l).Level(); got != l || !ok || CeilingAt(l).String() != l.String() {
			t.Errorf("ceiling at %v gives %v, %v", l, got, ok)
		}
	}
	if _, ok := NoCeiling.Level(); ok || NoCeiling.String() != "" {
		t.Error("NoCeiling has a level")
	}
}

// TestCaptureFieldsEqualPublished compares the embedded data with the data
// derived from the published schemas.
func TestCaptureFieldsEqualPublished(t *testing.T) {
	var published struct {
		Types      map[string]map[string]string
		Exceptions map[string]map[string]string
	}
	if err := json.Unmarshal(fixture(t, "capture-fields.json"), &published); err != nil {
		t.Fatal(err)
	}
	ruleNames := map[string]string{
		"synthesized-prompt":        "synthesized-prompt",
		"id-of-element":             "id-of-element",
		"numbers-and-booleans-only": "numbers-and-booleans",
	}
	for typ, fields := range published.Types {
		own, ok := fieldsFile.Types[typ]
		if ok != (fields != nil) {
			t.Errorf("R245: %s: listed %v", typ, ok)
			continue
		}
		if len(own) != len(fields) {
			t.Errorf("%s: %d paths, want %d", typ, len(own), len(fields))
		}
		for path, level := range fields {
			if level == "metadata*" {
				level = ruleNames[published.Exceptions[typ][path]]
			}
			if own[path] != level {
				t.Errorf("%s: %s is %q, want %q", typ, path, own[path], level)
			}
		}
	}
	for typ := range fieldsFile.Types {
		if _, ok := published.Types[typ]; !ok {
			t.Errorf("%s is not published", typ)
		}
	}
}

// TestFieldRange walks the table by joined strings, in any split (R246).
func TestFieldRange(t *testing.T) {
	for typ, table := range captureFields {
		if !slices.IsSorted(table.paths) {
			t.Fatalf("%s: paths are not sorted", typ)
		}
		for i, path := range table.paths {
			if r := table.root().member(path); r.rule() != table.rules[i] {
				t.Errorf("%s: %s: rule %v", typ, path, r.rule())
			}
			for cut := range path {
				if path[cut] != '.' || cut == 0 {
					continue
				}
				r := table.root().member(path[:cut]).member(path[cut+1:])
				if r.rule() != table.rules[i] {
					t.Errorf("%s: %s cut at %d: rule %v", typ, path, cut, r.rule())
				}
			}
			if r := table.root().member(path + "x"); r.rule() != fieldKeep {
				t.Errorf("%s: %sx has a rule", typ, path)
			}
		}
	}
}

func TestBrokenCaptureFieldsPanic(t *testing.T) {
	for _, text := range []string{`{`, `{"types":{"a.b":{"c":"most"}}}`} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken", text)
				}
			}()
			mustCaptureFields([]byte(text))
		}()
	}
}
