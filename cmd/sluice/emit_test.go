package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/cmdline"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// runClient runs a command that speaks to a relay, with an environment of
// NAME=value texts, and returns its exit code as main would.
func runClient(t *testing.T, stdin io.Reader, env []string, command func(*app) *cli.Command, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{
		lookup: func(name string) (string, bool) {
			for _, pair := range env {
				if n, value, _ := strings.Cut(pair, "="); n == name {
					return value, true
				}
			}
			return "", false
		},
		stdout: &stdout, stderr: &stderr,
	}
	root := a.command()
	root.Commands = []*cli.Command{command(a)}
	root.Reader = stdin
	err := root.Run(t.Context(), append([]string{"sluice"}, args...))
	o := outcome{stdout: stdout.String(), stderr: stderr.String()}
	if err != nil {
		o.stderr += err.Error() + "\n"
		o.code = exitFailed
		if _, ok := errors.AsType[cmdline.UsageError](err); ok {
			o.code = exitUsage
		}
		if coder, ok := errors.AsType[cli.ExitCoder](err); ok {
			o.code = coder.ExitCode()
		}
	}
	if strings.Contains(o.stdout+o.stderr, secret) {
		t.Errorf("R15: token shown: %q %q", o.stdout, o.stderr)
	}
	return o
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What emit prints and returns: files and standard input, good and bad lines,
// with and without --strict and --ws.
func TestEmit(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	env := []string{"SLUICE_URL=http://" + p.addr, "AEP_TOKEN=" + secret}
	event := func(n uint64) string { return relaytest.Event{Session: "s", Seq: n}.JSON() + "\n" }
	good := writeFile(t, "good.ndjson", event(0)+event(1)+"\n"+event(2))
	bad := writeFile(t, "bad.ndjson", event(3)+"\n{\"aep\":1}\n"+event(4))
	empty := writeFile(t, "empty.ndjson", "")
	missing := filepath.Join(t.TempDir(), "missing")

	f := func(name string, code int, stderr, stdin string, args ...string) {
		t.Helper()
		o := runClient(t, strings.NewReader(stdin), env, (*app).emitCommand, append([]string{"emit"}, args...)...)
		if o.code != code || o.stdout != "" || !regexp.MustCompile(stderr).MatchString(o.stderr) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %d, %s", name, o.code, o.stdout, o.stderr, code, stderr)
		}
	}
	const rest = `, \d+\.\d\d s, \d+ events/s\n`
	f("a file", exitOK, `^sluice emit: 3 events in, 0 refused`+rest+`$`, "", good)
	f("files", exitRefused, `^.*/bad\.ndjson:3: invalid-event: .*R101.*\nsluice emit: 5 events in, 1 refused`+rest, "", good, bad)
	f("standard input", exitRefused, `^stdin:2: invalid-json: .*\nsluice emit: 1 events in, 1 refused`+rest, event(5)+"x\n")
	f("named standard input", exitOK, `4 events in`, event(6), good, "-")
	f("nothing", exitOK, `^sluice emit: 0 events in, 0 refused`+rest, "", empty)
	f("socket", exitRefused, `^.*/bad\.ndjson:3: invalid-event: .*\nsluice emit: 2 events in, 1 refused`+rest, "", "--ws", bad)
	f("strict", exitFailed, `(?s)/bad\.ndjson:3: .* 1 events in, 1 refused.*emit .*bad\.ndjson: a line is refused, line 3`, "", "--strict", bad, good)
	f("missing", exitFailed, `(?s)3 events in.*\nemit: open .*/missing: no such file`, "", good, missing)
	odd := filepath.Join(t.TempDir(), "odd\x1b[2J\u202e")
	const oddShown = `odd\\x1b\[2J\\u202e`
	f("an odd name, missing", exitFailed, `\nemit: open .*/`+oddShown+`: no such file`, "", odd)
	if err := os.WriteFile(odd, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f("an odd name", exitFailed, `(?s)^[^\n]*/`+oddShown+`:1: .*\nemit .*/`+oddShown+`: a line is refused`, "", "--strict", odd)
	f("strict by socket", exitFailed, `(?s)/mixed\.ndjson:3: .* 2 events in, 1 refused.*a line is refused, line 3`, "", "--ws", "--strict",
		writeFile(t, "mixed.ndjson", event(7)+event(8)+"x\n"+event(9)))
	f("usage: batch", exitUsage, `at least 1`, "", "--batch", "0", good)
	f("usage: timeout", exitUsage, `not negative`, "", "--timeout", "-1s", good)
	f("usage: accept", exitUsage, `--accept needs --ws`, "", "--accept", "control.cancel", good)
	f("usage: flag", exitUsage, `see sluice emit --help`, "", "--nonsense")
	env[1] = "AEP_TOKEN=wrong"
	f("token", exitFailed, `set AEP_TOKEN or --token-file`, "", good)
	f("token by socket", exitFailed, `set AEP_TOKEN or --token-file`, "", "--ws", good)
	env[0] = "SLUICE_URL=http://127.0.0.1:" + testrelay.FixedPort(t)
	f("nobody there", exitFailed, `(?s)no answer from the relay: .*trying again.*gave up after`, "", "--timeout", "50ms", good)
}

// The help tells what the reader of printed commands has to reckon with.
func TestEmitHelp(t *testing.T) {
	o := runClient(t, nil, nil, (*app).emitCommand, "emit", "--help")
	if text := strings.Join(strings.Fields(o.stdout), " "); !strings.Contains(text, "printed, again with the same id") {
		t.Errorf("%q", o.stdout)
	}
}

// The first signal ends the input; what was read is in.
func TestEmitSignal(t *testing.T) {
	p := startProcess(t, "")
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	done := make(chan outcome, 1)
	go func() {
		done <- runClient(t, r, []string{"SLUICE_URL=http://" + p.addr}, (*app).emitCommand, "emit", "--linger", "1h")
	}()
	// The second write returns once the first was read; signals are caught
	// before the reading begins.
	for _, text := range []string{relaytest.Event{Session: "s"}.JSON() + "\n", "rest of a line", " that has no end"} {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	raise(t, syscall.SIGINT)
	select {
	case o := <-done:
		if o.code != exitOK || !strings.Contains(o.stderr, "1 events in") {
			t.Errorf("exit %d, %q", o.code, o.stderr)
		}
	case <-time.After(patience):
		t.Fatal("does not end")
	}
}

// With --ws a command that is accepted is printed for the agent, which
// acknowledges it on the input.
func TestEmitCommands(t *testing.T) {
	p := startProcess(t, "", "AEP_TOKEN="+secret)
	env := []string{"SLUICE_URL=http://" + p.addr, "AEP_TOKEN=" + secret}
	in, feedIn := io.Pipe()
	out, feedOut := io.Pipe()
	a := &app{lookup: func(name string) (string, bool) {
		if name == "AEP_TOKEN" {
			return secret, true
		}
		return "", false
	}, stdout: feedOut, stderr: io.Discard}
	root := a.command()
	root.Commands, root.Reader = []*cli.Command{a.emitCommand()}, in
	done := make(chan error, 1)
	go func() {
		done <- root.Run(context.Background(), []string{
			"sluice", "emit", "--url", "http://" + p.addr, "--ws", "--accept", "control.pause",
		})
	}()
	if _, err := io.WriteString(feedIn, relaytest.Event{Session: "s"}.JSON()+"\n"); err != nil {
		t.Fatal(err)
	}
	go func() { // the agent
		buf := make([]byte, 64<<10)
		n, err := out.Read(buf)
		command, parseErr := relaytest.ParseEnvelope(string(buf[:n]))
		if err != nil || parseErr != nil || !strings.HasSuffix(string(buf[:n]), "}\n") {
			t.Errorf("got %q, %v, %v", buf[:n], err, parseErr)
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		_, _ = io.WriteString(feedIn, relaytest.Event{
			Type: "control.accepted", Session: "s", Seq: 1, Cause: command.IDString(),
		}.JSON()+"\n")
	}()
	deadline := time.Now().Add(patience)
	for {
		o := runClient(t, nil, env, (*app).controlCommand, "control", "pause", "--session", "s")
		if o.code == exitOK && o.stdout == "accepted\n" {
			break
		}
		if !strings.Contains(o.stderr, "no-route") || time.Now().After(deadline) { // not claimed yet
			t.Fatalf("exit %d, %q, %q", o.code, o.stdout, o.stderr)
		}
	}
	_ = feedIn.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
