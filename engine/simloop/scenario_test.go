package simloop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScenarios runs the scripts in testdata: each file is one behaviour, and
// its comment says which. Whatever a script expects, what Driver.Check tests
// must hold at its end.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(script), "# ") {
				t.Error("a scenario begins with a comment that says what it shows")
			}
			d := NewDriver()
			if err := d.Run(string(script)); err != nil {
				t.Fatal(err)
			}
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
