package simloop

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzDriver runs scripts of any bytes: whatever they ask for, nothing panics
// or hangs, and what Check tests holds at the end.
func FuzzDriver(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(script))
	}
	f.Fuzz(func(t *testing.T, script string) {
		d := NewDriver()
		d.Budget = 256 << 10
		lines := strings.SplitN(script, "\n", 201)
		for _, line := range lines[:min(len(lines), 200)] {
			if err := d.Do(line); errors.Is(err, ErrRestless) {
				t.Fatal(err)
			}
		}
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
		mayPanic := strings.Contains(script, "panic:") || strings.Contains(script, "broken=frame")
		if n := d.Engine().Panics(); n > 0 && !mayPanic {
			t.Fatalf("%d panics", n)
		}
	})
}

// TestDriverErrors: a line that cannot be read, or that expects something else,
// is named.
func TestDriverErrors(t *testing.T) {
	f := func(script string, want error) {
		t.Helper()
		err := NewDriver().Run(script)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", script, err, want)
		}
	}
	f("jump", ErrCommand)
	f("socket", ErrCommand)
	f("socket c1\nsocket c1", ErrCommand)
	f("socket c1 loop=1", ErrCommand)
	f("socket c1 accept=-4", ErrCommand)
	f("socket c1 speed=3", ErrCommand)
	f("socket c9..c1", ErrCommand)
	f("subscribe c1", ErrCommand)
	f("socket c1\nsubscribe c1 filter=odd", ErrFilter)
	f("socket c1\nsubscribe c1 filter=sev:loud", ErrFilter)
	f("socket c1\nsubscribe c1 from=s1", ErrCommand)
	f("socket c1\nsubscribe c1 form=99", ErrCommand)
	f("append s1 0:1\nloops 2", ErrCommand)
	f("append s1 0:1 sev=loud", ErrCommand)
	f("append s1 0:1 n=4000 size=1000000", ErrCommand)
	f("advance yesterday", ErrCommand)
	f("socket c1\nexpect c1 [s1 0:1", ErrCommand)
	f("socket c1\nexpect c1 [s1 0:1]..[s2 0:4]", ErrCommand)
	f("socket c1\nexpect c1 [s1 0:1]", ErrExpect)
	f("socket c1\nsubscribe c1\nexpect c1 nothing", ErrExpect)
	f("socket c1\nexpect-queued c1 7", ErrExpect)
	f("socket c1\nexpect-live c1 yes", ErrExpect)
	f("socket c1\nexpect-cut c1 hard", ErrExpect)
	f("expect-groups 1", ErrExpect)
	f("socket c1\nsubscribe c1 filter=panic:k=v\nappend s1 0:1 k=v\ndrain", ErrExpect)
}
