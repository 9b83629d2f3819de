package profiles

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	if got, want := Names(), []string{"edge", "large-node"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every preset is in the format, which demands a reason above each value, and
// gives something.
func TestEveryPresetReads(t *testing.T) {
	for _, name := range Names() {
		values, err := Lookup(name)
		if err != nil || len(values) == 0 {
			t.Errorf("%s: %d values, %v", name, len(values), err)
		}
		clear(values) // the caller's: the next one gets its own
		if again, _ := Lookup(name); len(again) == 0 {
			t.Errorf("%s: a caller emptied the preset", name)
		}
	}
}

// A reason is more than a word.
func TestEveryValueHasAReason(t *testing.T) {
	for _, name := range Names() {
		text, err := files.ReadFile(name + suffix)
		if err != nil {
			t.Fatal(err)
		}
		reason, set := "", 0
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			comment, isComment := strings.CutPrefix(line, "#")
			switch {
			case isComment:
				reason += comment
				if len(line) > 80 {
					t.Errorf("%s: over 80 columns: %q", name, line)
				}
				continue
			case line != "" && len(strings.Fields(reason)) < 8:
				t.Errorf("%s: %s: no reason in %q", name, line, reason)
			}
			if line != "" {
				set++
			}
			reason = ""
		}
		if values, _ := Lookup(name); set != len(values) {
			t.Errorf("%s: %d lines give %d values", name, set, len(values))
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	for _, name := range []string{
		"", "Edge", "edge ", "edge.env", "none", "../profiles/edge", "./edge", "large", "\x00", "*", "[e]dge",
	} {
		values, err := Lookup(name)
		if !errors.Is(err, ErrUnknown) || values != nil {
			t.Errorf("%q: %v, %v", name, values, err)
			continue
		}
		for _, known := range Names() {
			if !strings.Contains(err.Error(), known) {
				t.Errorf("%q: the error does not list %s: %v", name, known, err)
			}
		}
	}
}

// P1, P2, P3: what the format takes, and the line that it refuses.
func TestParse(t *testing.T) {
	ok := func(text string, want ...string) {
		t.Helper()
		values, err := parse(text)
		var got []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			got = append(got, name+"="+values[name])
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	ok("")
	ok("\n\n# only a comment\n")
	ok("# why\nA=1", "A=1")
	ok("# why\nA=1\n", "A=1")
	ok("#why\n# and more\nA_2=x=y\n\n# why\nB=unix:/run/s,off\n", "A_2=x=y", "B=unix:/run/s,off")
	ok("#\n# why\nA=1\n", "A=1")

	bad := func(text string, line int, want error) {
		t.Helper()
		values, err := parse(text)
		if !errors.Is(err, want) || values != nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("line %d: ", line)) {
			t.Errorf("%q: %v, %v, want line %d: %v", text, values, err, line, want)
		}
	}
	for _, line := range []string{
		"A", "=1", "A=", "a=1", "1A=1", "_A=1", "A-B=1", "A =1", "A= 1", "A=1 ", " A=1", "A=1 # x", "A=1\r", "A=\"1\"",
		"A='1'", "A=`x`", "A=a\\", "A=\t", "A=\x00", "A=caf\u00e9", "export A=1", " ", "\t", " # why", "\u00c4=1",
	} {
		bad("# why\n"+line+"\n", 2, ErrLine)
	}
	bad("A=1", 1, ErrNoReason)
	bad("# why\n\nA=1", 3, ErrNoReason)
	bad("# why\nA=1\nB=2\n", 3, ErrNoReason)
	bad("#\nA=1\n", 2, ErrNoReason)
	bad("# why\n#  \nA=1\n", 3, ErrNoReason)
	bad("# why\nA=1\n# why\nA=2\n", 4, ErrTwice)
}

func FuzzParse(f *testing.F) {
	f.Add("# why\nA=1\n")
	f.Add("A=1\n#\n\nB")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parse(text)
		if err != nil {
			if values != nil || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%q: %v, %v", text, values, err)
			}
			return
		}
		for name, value := range values {
			if !strings.Contains("\n"+text+"\n", "\n"+name+"="+value+"\n") {
				t.Errorf("%q: no line gives %s=%s", text, name, value)
			}
		}
	})
}
