package nodetest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Packages are packages of npm that tests run, at pinned versions.
type Packages struct {
	// Variable names the environment variable that says where they are installed.
	Variable string
	// Names are the packages as npm takes them, "ws@8.23.0".
	Names []string
	// Before is a day. What the packages need in turn is pinned by it: nothing that
	// was published later is taken.
	Before string
}

const (
	// leastNode is the first major version of Node that runs all of them.
	leastNode = 20
	// installTime bounds the installation, which takes 20 s.
	installTime = 3 * time.Minute
)

// unreachable are npm's codes for a registry that does not answer, which is no
// fault of ours.
var unreachable = []string{
	"ENOTFOUND", "EAI_AGAIN", "EAI_FAIL", "ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT", "ENETUNREACH",
	"EHOSTUNREACH", "ERR_SOCKET_TIMEOUT", "ERR_STREAM_PREMATURE_CLOSE", "FETCH_ERROR", "ENOTCACHED",
	"E408", "E429", "E500", "E502", "E503", "E504",
}

// Modules returns the node_modules directory with the packages, or skips the
// test: without the variable, Node or npm, or a registry that answers. The first
// call installs them. Any goroutine that may use t.
func (p Packages) Modules(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(p.Variable)
	if dir == "" {
		t.Skipf("%s is not set: run make test-clients", p.Variable)
	}
	result := p.installOnce(dir)
	if result.skip != "" {
		t.Skip(result.skip)
	}
	if result.err != nil {
		t.Fatal(result.err)
	}
	return result.modules
}

// installed is how an installation ended: one of the three is set.
type installed struct {
	modules string
	skip    string
	err     error
}

var (
	installing sync.Mutex
	done       = map[string]installed{} // by what home returns, of which there is one
)

func (p Packages) installOnce(dir string) installed {
	installing.Lock()
	defer installing.Unlock()
	home := p.home(dir)
	result, ok := done[home]
	if !ok {
		result = p.install(dir, home)
		done[home] = result
	}
	return result
}

// home is the directory below dir that is named for the packages.
func (p Packages) home(dir string) string {
	names := strings.NewReplacer("@", "", "/", "-").Replace(strings.Join(p.Names, "_"))
	return filepath.Join(dir, names+"_"+p.Before)
}

// install brings the packages into their home, unless they are there.
func (p Packages) install(dir, home string) installed {
	if reason := lacks(); reason != "" {
		return installed{skip: reason}
	}
	home, err := filepath.Abs(home)
	if err != nil {
		return installed{err: err}
	}
	if _, err := os.Stat(home); err == nil {
		return installed{modules: filepath.Join(home, "node_modules")}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return installed{err: err}
	}
	// It takes its name when it is whole: an interrupted one is never used.
	part, err := os.MkdirTemp(dir, "part-")
	if err != nil {
		return installed{err: err}
	}
	defer func() { _ = os.RemoveAll(part) }()
	if result := p.npm(part); result.skip != "" || result.err != nil {
		return result
	}
	if err := os.Rename(part, home); err != nil {
		return installed{err: err}
	}
	return installed{modules: filepath.Join(home, "node_modules")}
}

// lacks says what is missing on this machine, if anything is.
func lacks() string {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed"
		}
	}
	version, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "node does not run: " + err.Error()
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(version)), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastNode {
		return "node " + strings.TrimSpace(string(version)) + " is too old"
	}
	return ""
}

// npm installs the packages in dir. No script of theirs is run.
func (p Packages) npm(dir string) installed {
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"private\":true}\n"), 0o644); err != nil {
		return installed{err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	args := slices.Concat([]string{
		"install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock",
		"--save-exact", "--before=" + p.Before, "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=3000",
	}, p.Names)
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	output, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return installed{modules: filepath.Join(dir, "node_modules")}
	case ctx.Err() != nil:
		return installed{skip: "npm did not finish in time"}
	}
	if code := npmCode(output); slices.Contains(unreachable, code) {
		return installed{skip: "no registry for npm: " + code}
	}
	return installed{err: errors.New("npm install: " + err.Error() + "\n" + string(output))}
}

// npmCode returns the code that npm ended with, as in "npm error code E404".
func npmCode(output []byte) string {
	for line := range bytes.Lines(output) {
		fields := bytes.Fields(line)
		if len(fields) == 4 && string(fields[0]) == "npm" && string(fields[2]) == "code" {
			return string(fields[3])
		}
	}
	return ""
}
