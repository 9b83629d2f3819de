package testrelay

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// MainWithProgram runs a package's tests with the real program, whose path it
// sets first: it is built from cmd/sluice, two directories above the package. It
// returns the exit code of TestMain.
func MainWithProgram(m *testing.M, program *string) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "sluice-program")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*program = filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", *program, "../../cmd/sluice")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
