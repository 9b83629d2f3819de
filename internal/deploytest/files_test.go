package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/config"
)

// settings returns the values of a key in a unit file, in order.
func settings(unit, key string) (values []string) {
	for line := range strings.SplitSeq(unit, "\n") {
		if value, ok := strings.CutPrefix(line, key+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

// R464: systemd waits longer than the relay needs at most, which is 5 s for
// the farewell and 5 s for loops that hang.
func TestUnit(t *testing.T) {
	t.Parallel()
	unit := readDeploy(t, "sluice.service")
	want := func(key, value string) {
		t.Helper()
		if got := settings(unit, key); !slices.Equal(got, []string{value}) {
			t.Errorf("%s: %q, want %q once", key, got, value)
		}
	}
	want("KillSignal", "SIGTERM")
	want("LimitNOFILE", "1048576")
	want("ProtectSystem", "strict")
	want("NoNewPrivileges", "yes")
	// Needed by the JSON library's machine code, on amd64.
	want("MemoryDenyWriteExecute", "no")
	stop := settings(unit, "TimeoutStopSec")
	if d, err := time.ParseDuration(strings.Join(stop, " ")); err != nil || d <= 10*time.Second {
		t.Errorf("TimeoutStopSec %q (%v), want more than 10 s", stop, err)
	}
	// The code of a wrong setting; 2 is that of a crash.
	want("RestartPreventExitStatus", "78")
}

// What the unit and its environment file set, or propose in a comment, exists,
// and together it is a valid configuration.
func TestUnitSettings(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"GOMEMLIMIT": true}
	for _, v := range config.Variables() {
		known[v.Env] = true
	}
	env := map[string]string{}
	lines := settings(readDeploy(t, "sluice.service"), "Environment")
	for line := range strings.SplitSeq(readDeploy(t, "sluice.env"), "\n") {
		comment, isComment := strings.CutPrefix(line, "#")
		if !isComment || strings.Contains(comment, "=") && !strings.Contains(comment, " ") {
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		if name == "" {
			continue
		}
		if bare, isComment := strings.CutPrefix(name, "#"); isComment {
			name = bare
		} else {
			env[name] = value
		}
		if !known[name] {
			t.Errorf("no such setting: %q", name)
		}
	}
	if env["AEP_TOKEN_FILE"] != "/etc/sluice/tokens" || env["AEP_HOST"] != "127.0.0.1" {
		t.Errorf("the unit sets %q", env)
	}
	if _, err := config.FromEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok }); err != nil {
		t.Error(err)
	}
}

// systemd itself finds nothing to complain about.
func TestUnitVerifies(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	path := filepath.Join(t.TempDir(), "sluice.service")
	unit := exchange(t, readDeploy(t, "sluice.service"), "ExecStart=/usr/local/bin/sluice ", "ExecStart=/bin/true ")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) != 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The image is built as "make build" builds, by a Go that go.mod allows.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	dockerfile := readDeploy(t, "Dockerfile")
	makefile, gomod := readDeploy(t, "../../Makefile"), readDeploy(t, "../../go.mod")
	for _, flag := range []string{"CGO_ENABLED=0", "-trimpath", "-buildvcs=false", "-X main.buildVersion=", "./cmd/sluice"} {
		if !strings.Contains(dockerfile, flag) || !strings.Contains(makefile, flag) {
			t.Errorf("%s is not in both Dockerfile and Makefile", flag)
		}
	}
	_, version, _ := strings.Cut(gomod, "\ngo ")
	version, _, _ = strings.Cut(version, "\n")
	minor := version[:strings.LastIndexByte(version, '.')]
	if want := "ARG BUILDER=golang:" + minor + "."; !strings.Contains(dockerfile, want) {
		t.Errorf("no %q in the Dockerfile: go.mod asks for Go %s", want, version)
	}
	for line := range strings.SplitSeq(readDeploy(t, "Dockerfile.dockerignore"), "\n") {
		if name, ok := strings.CutPrefix(line, "!"); ok {
			if _, err := os.Stat(filepath.Join("..", "..", name)); err != nil {
				t.Errorf("Dockerfile.dockerignore: %v", err)
			}
		}
	}
}
