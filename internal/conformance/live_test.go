package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	token   = "conformance-token"
	session = "conformance-control"
	run     = "conformance-run"
)

// report is the part of the checker's --json output that is judged.
type report struct {
	Summary struct{ Pass, Fail, Skip int }
	Checks  []struct{ Name, Status, Detail string }
}

func TestLiveChecker(t *testing.T) {
	f := func(name string, env, args []string, pass, skip int) {
		t.Run(name, func(t *testing.T) {
			addr := startRelay(t, env)
			if slices.Contains(args, "--control-session") {
				startTarget(t, addr)
			}
			r, output := check(t, append([]string{"http://" + addr}, args...))
			t.Logf("%d passed, %d failed, %d skipped", r.Summary.Pass, r.Summary.Fail, r.Summary.Skip)
			if r.Summary.Pass != pass || r.Summary.Fail != 0 || r.Summary.Skip != skip {
				t.Errorf("want %d passed, 0 failed, %d skipped\n%s", pass, skip, output)
			}
			for _, c := range r.Checks {
				if c.Name == "evict-byte-identity" && c.Status == "pass" && !strings.HasPrefix(c.Detail, "byte-identical") {
					t.Errorf("R194: events are not delivered as received: %s", c.Detail)
				}
			}
		})
	}
	small := []string{"AEP_TOKEN=" + token, "AEP_BUFFER=64"}
	withToken := []string{"--token", token, "--evict"}
	f("plain", nil, nil, 12, 7)
	f("token and eviction", small, withToken, 14, 5)
	f("control target", small, append([]string{"--control-session", session, "--control-cancel", run}, withToken...), 18, 1)
}

// need returns the value of a variable that make conformance sets.
func need(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skipf("%s is not set: run make conformance", name)
	}
	return value
}

// startRelay runs the binary on a port that the kernel chooses, and returns
// the address that its first line names (R12). The relay must end in order.
func startRelay(t *testing.T, env []string) string {
	t.Helper()
	// Its own context, ended by a cleanup: that of the test ends before the
	// cleanups run, and so before the control target has left.
	ctx, stop := context.WithCancel(context.Background())
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, need(t, "SLUICE_BIN"), "serve", "--port", "0", "--host", "127.0.0.1")
	cmd.Env = append([]string{}, env...) // nil would mean that of the test
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute // its own limits are 5 s each (R464)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		stop()
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	first, err := lines.ReadString('\n')
	t.Cleanup(func() {
		stop()
		_, _ = io.Copy(io.Discard, lines)
		// Wait reports the ended context even where the process did well.
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("R464: exit %d after SIGTERM: %v\n%s", code, cmd.ProcessState, stderr.String())
		}
	})
	after, found := strings.CutPrefix(first, "aep-relay listening on ")
	if err != nil || !found {
		t.Fatalf("R12: first line %q, %v\n%s", first, err, stderr.String())
	}
	addr, _, _ := strings.Cut(after, " ")
	addr = strings.TrimRight(addr, ",;\n")
	if _, _, err := net.SplitHostPort(addr); err != nil {
		t.Fatalf("R12: %q names no address: %v", first, err)
	}
	return addr
}

// startTarget connects the cooperating target that the control checks need.
func startTarget(t *testing.T, addr string) {
	t.Helper()
	target, err := relaytest.StartControlTarget(relaytest.TargetConfig{
		Addr: addr, Token: token, Session: session,
		Accepts: []string{"control.attention.respond", "control.cancel"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	})
}

// check runs the checker and returns its report and what it said.
func check(t *testing.T, args []string) (report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	args = append(args, "--json", file)
	output, runErr := exec.CommandContext(t.Context(), "node", append(nodeArgs(t), args...)...).CombinedOutput()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no report: %v, %v\n%s", err, runErr, output)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("report: %v\n%s", err, text)
	}
	if runErr != nil {
		t.Errorf("the checker ended with %v", runErr)
	}
	return r, string(output)
}

// nodeArgs returns the arguments that run the checker. It uses the global
// WebSocket, which Node has had behind a flag since 20.10 and without one
// since 22.
func nodeArgs(t *testing.T) []string {
	t.Helper()
	checker := need(t, "AEP_LIVE_JS")
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 20 {
		t.Fatal(fmt.Errorf("node %s is too old", strings.TrimSpace(string(version))))
	}
	if n < 22 {
		return []string{"--experimental-websocket", checker}
	}
	return []string{checker}
}
