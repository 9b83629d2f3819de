package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// A command line that cannot be meant is refused before anything is asked.
func TestTailUsage(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		o := run(t, nil, append([]string{"tail"}, args...)...)
		if o.code != exitUsage || !strings.Contains(o.stderr, want) || o.stdout != "" {
			t.Errorf("%q: exit %d, %q, want %q", args, o.code, o.stderr, want)
		}
	}
	f(`takes no argument, got "demo"`, "demo")
	f("neither all nor SESSION:EPOCH:SEQ", "--since", "demo")
	f("--since all has the sessions", "--since", "all", "--since", "demo:0:1")
	f("severity", "--severity", "loud")
	f("invalid filter", "--type", "tool*")
	f("invalid filter", "--filter", `{"data":1}`)
	f("filter is not JSON", "--filter", `{`)
	f("--filter takes the place", "--filter", `{}`, "--session", "s")
	f("--filter is empty", "--filter", "")
	f("--state is empty", "--state", "")
	f("--session is empty", "--session", "")
	f("--agent is empty", "--agent", "a", "--agent", "")
	f("--type is empty", "--type=")
	f("--severity is empty", "--severity", "")
	f("capture", "--capture", "some")
	f("bad relay URL", "--url", "ftp://x")
	f("names no file", "--token-file", "")
	f("no such file", "--token-file", "/nonexistent")
}

// The relay's address and token come from the flags or the environment.
func TestRelayFlags(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	file := tokenFile(t, "# comment\n"+secret+"\nother\n")
	wrong := tokenFile(t, "other\n")
	url := "SLUICE_URL=http://" + p.addr
	f := func(name string, want int, env []string, args ...string) {
		t.Helper()
		o := run(t, env, append([]string{"tail", "--no-follow"}, args...)...)
		if o.code != want {
			t.Errorf("%s: exit %d, %q", name, o.code, o.stderr)
		}
		if want == exitFailed && !strings.Contains(o.stderr, "see --token-file in sluice tail --help") {
			t.Errorf("%s: no advice: %q", name, o.stderr)
		}
	}
	f("variable", exitOK, []string{url, "AEP_TOKEN=" + secret})
	f("file", exitOK, []string{url}, "--token-file", file)
	f("file of the environment", exitOK, []string{url, "AEP_TOKEN_FILE=" + file})
	f("flag before variable", exitOK, []string{url, "AEP_TOKEN=other"}, "--token-file", file)
	f("variable before its file", exitOK, []string{url, "AEP_TOKEN=" + secret, "AEP_TOKEN_FILE=" + wrong})
	f("empty variables", exitFailed, []string{url, "AEP_TOKEN=", "AEP_TOKEN_FILE="})
	f("no token", exitFailed, []string{url})
	f("wrong token", exitFailed, []string{url}, "--token-file", wrong)
	f("flag before variable of the address", exitOK, []string{"SLUICE_URL=http://127.0.0.1:1", "AEP_TOKEN=" + secret}, "--url", p.addr)
	f("not a token", exitUsage, []string{url, "AEP_TOKEN=a\nb"})
}

// tail runs "sluice tail" in a process of its own.
func tail(t *testing.T, p *process, stdout io.Writer, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"tail", "--url", p.addr}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "AEP_TOKEN=", "AEP_TOKEN_FILE=")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, &stderr
}

// Events are printed as they are, or readable, and what was printed is not
// printed again.
func TestTail(t *testing.T) {
	p := startProcess(t, "")
	one := relaytest.Event{Session: "a,b", Type: "run.started"}.JSON()
	two := relaytest.Event{Session: "c", Seq: 4, Severity: "error", Type: "tool.failed", Data: `{"x": "\u001b[31m"}`}.JSON()
	p.post(t, one+"\n"+two+"\n")
	f := func(want string, args ...string) {
		t.Helper()
		o := run(t, nil, append([]string{"tail", "--url", p.addr, "--no-follow"}, args...)...)
		if o.code != exitOK || o.stdout != want || o.stderr != "" {
			t.Errorf("%q: exit %d\n%q\nwant\n%q\n%s", args, o.code, o.stdout, want, o.stderr)
		}
	}
	f(one+"\n", "--json", "--session", "a,b")
	f(two+"\n", "--json", "--severity", "warning")
	f(two+"\n", "--json", "--type", "tool.*", "--type", "error.raised")
	f(two+"\n", "--json", "--since", "c:0:3")
	f("", "--json", "--since", "c:0:4")
	f("", "--json", "--agent", "nobody")
	f(one+"\n", "--json", "--filter", `{"type":"run.started"}`)
	o := run(t, nil, "tail", "--url", p.addr, "--no-follow", "--utc")
	if o.code != exitOK || strings.Count(o.stdout, "\n") != 2 || !strings.Contains(o.stdout, "tool.failed") ||
		strings.ContainsRune(o.stdout, '\x1b') {
		t.Errorf("readable: exit %d, %q", o.code, o.stdout)
	}
	state := filepath.Join(t.TempDir(), "state")
	f(two+"\n", "--json", "--state", state, "--session", "c")
	f("", "--json", "--state", state, "--session", "c")
	if err := os.WriteFile(state, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	o = run(t, nil, "tail", "--url", p.addr, "--state", state)
	if o.code != exitFailed || !strings.Contains(o.stderr, "move it away to begin anew") {
		t.Errorf("corrupt state: exit %d, %q", o.code, o.stderr)
	}
}

// SIGINT ends with 0, after the positions were saved.
func TestTailSignal(t *testing.T) {
	for _, way := range []string{"--ws=false", "--ws"} {
		p := startProcess(t, "")
		state := filepath.Join(t.TempDir(), "state")
		event := relaytest.Event{Session: "s"}.JSON()
		p.post(t, event)
		out, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd, stderr := tail(t, p, w, "--since", "all", "--json", "--state", state, way)
		_ = w.Close()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != event+"\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("%s: %v, %q", way, err, stderr)
		}
		_ = out.Close()
		o := run(t, nil, "tail", "--url", p.addr, "--no-follow", "--state", state)
		if o.code != exitOK || o.stdout != "" {
			t.Errorf("%s: again: exit %d, %q", way, o.code, o.stdout)
		}
	}
}

// A reader of the pipe that has seen enough ends it with 0 and no word.
func TestTailBrokenPipe(t *testing.T) {
	p := startProcess(t, "")
	event := relaytest.Event{Session: "s"}.JSON()
	p.post(t, event)
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stderr := tail(t, p, w, "--since", "all", "--json")
	_ = w.Close()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	p.post(t, relaytest.Event{Session: "s", Seq: 1}.JSON())
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %q", err, stderr)
	}
}

// A relay that is killed and comes back is told of, one line each.
func TestTailRestart(t *testing.T) {
	port := "AEP_PORT=" + testrelay.FixedPort(t)
	p := startProcess(t, "", port)
	first := relaytest.Event{Session: "s"}.JSON()
	p.post(t, first)
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stderr := tail(t, p, w, "--since", "all", "--json")
	_ = w.Close()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != first+"\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	http.DefaultClient.CloseIdleConnections() // the next relay has the same address
	next := startProcess(t, "", port)
	second := relaytest.Event{Session: "t", Seq: 7}.JSON()
	next.post(t, second)
	if line, err := lines.ReadString('\n'); err != nil || line != second+"\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"sluice tail: connection lost: ", "\nsluice tail: connected\n",
		"\nsluice tail: the relay was restarted: events that it had and that were not read before are lost\n",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
}
