package aepwsfaults

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

var seedFlag = flag.Uint64("aepwsfaults.seed", 0, "seed of what is random, 0 for a new one")

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 30 * time.Second

// program is the real binary, built once.
var program string

func TestMain(m *testing.M) { os.Exit(testrelay.MainWithProgram(m, &program)) }

// newRand returns a generator whose seed the test logs.
func newRand(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d, repeat with -aepwsfaults.seed", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// start runs the program on a data directory.
func start(t *testing.T, dir string, settings ...string) *faults.Process {
	t.Helper()
	return startAs(t, program, []string{"serve"}, dir, settings...)
}

// startAs runs a command that becomes the program.
func startAs(t *testing.T, name string, args []string, dir string, settings ...string) *faults.Process {
	t.Helper()
	p, err := faults.Start(name, args, append([]string{"SLUICE_SURFACES=aepws", "SLUICE_DATA=" + dir}, settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// startFails starts the program on a data directory that must stop it, with exit
// code 1, and returns what it says.
func startFails(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(program, "serve", "--port", "0", "--admin", "off", "--data", dir)
	cmd.Env = append(os.Environ(), "SLUICE_SURFACES=aepws")
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the relay started, or failed otherwise: %v\n%s", err, out)
	}
	return string(out)
}

// healthy fails a test whose relay has logged an error.
func healthy(t *testing.T, p *faults.Process) {
	t.Helper()
	if lines := p.Problems(); len(lines) > 0 {
		t.Fatalf("log of the relay: %s", strings.Join(lines, "\n"))
	}
}

// stop ends a relay that is well, in an orderly way.
func stop(t *testing.T, p *faults.Process) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	healthy(t, p)
}

// database returns the path of the log in a data directory.
func database(dir string) string { return filepath.Join(dir, "aepws.db") }

// removeState deletes the log of a relay that is not running: the database and
// SQLite's own files.
func removeState(t *testing.T, dir string) {
	t.Helper()
	list, err := filepath.Glob(database(dir) + "*")
	if err != nil || len(list) == 0 {
		t.Fatalf("no %s, %v", database(dir), err)
	}
	for _, name := range list {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// await polls until ok, and fails the test if that takes too long.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
