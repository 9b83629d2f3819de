package firehoseclients

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

// directoryVariable names where the packages are installed. It is the name of
// a variable that make test-firehose-clients sets.
const directoryVariable = "SLUICE_FIREHOSE_CLIENTS"

// packages are the clients (section 11 of the contract).
var packages = []string{
	"@skyware/firehose@0.5.2",
	"ws@8.23.0",
	"@atproto/sync@0.1.40",
	"@atproto/xrpc-server@0.10.21",
	"@ipld/dag-cbor@10.0.2",
}

const (
	// before pins what the packages need in turn: nothing published later is
	// taken. It is after the newest of packages.
	before = "2026-11-20"
	// leastNode is the first major version of Node that runs all of them.
	leastNode = 20
	// installTime bounds the installation, which takes 20 s.
	installTime = 3 * time.Minute
)

// unreachable are npm's codes for a registry that does not answer, which is no
// fault of ours.
var unreachable = []string{
	"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH",
	"ERR_SOCKET_TIMEOUT", "FETCH_ERROR", "ENOTCACHED", "E429", "E502", "E503", "E504",
}

// modules returns the node_modules directory with the clients, or skips the
// test. The first call installs them.
func modules(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(directoryVariable)
	if dir == "" {
		t.Skipf("%s is not set: run make test-firehose-clients", directoryVariable)
	}
	result := installOnce(dir)
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
	done       = map[string]installed{} // by directory, of which there is one
)

func installOnce(dir string) installed {
	installing.Lock()
	defer installing.Unlock()
	result, ok := done[dir]
	if !ok {
		result = install(dir)
		done[dir] = result
	}
	return result
}

// install brings the packages into a directory below dir that is named for
// them, unless they are there.
func install(dir string) installed {
	if reason := lacks(); reason != "" {
		return installed{skip: reason}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return installed{err: err}
	}
	names := strings.NewReplacer("@", "", "/", "-").Replace(strings.Join(packages, "_"))
	home := filepath.Join(dir, names+"_"+before)
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
	if result := npm(part); result.skip != "" || result.err != nil {
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
func npm(dir string) installed {
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"private\":true}\n"), 0o644); err != nil {
		return installed{err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	args := slices.Concat([]string{
		"install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock",
		"--save-exact", "--before=" + before, "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=3000",
	}, packages)
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

// TestNpmCode tells a registry that is away from one that says no.
func TestNpmCode(t *testing.T) {
	f := func(output, want string, skip bool) {
		t.Helper()
		got := npmCode([]byte(output))
		if got != want || slices.Contains(unreachable, got) != skip {
			t.Errorf("%q: got %q, want %q, skip %v", output, got, want, skip)
		}
	}
	f("npm error code ENOTFOUND\nnpm error syscall getaddrinfo\n", "ENOTFOUND", true)
	f("npm warn old\nnpm ERR! code EAI_AGAIN\n", "EAI_AGAIN", true)
	f("npm error code E404\nnpm error 404 Not Found\n", "E404", false)
	f("npm error code ETARGET\nnpm error notarget No matching version\n", "ETARGET", false)
	f("Killed\n", "", false)
}
