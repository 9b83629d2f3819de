package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/client/validate"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

// runOne runs one command with standard input and returns what it leaves.
func runOne(t *testing.T, command func(*app) *cli.Command, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{lookup: func(string) (string, bool) { return "", false }, stdout: &stdout, stderr: &stderr}
	c := command(a)
	root := &cli.Command{
		Name: "sluice", Writer: io.Discard, ErrWriter: io.Discard, Reader: strings.NewReader(stdin),
		HideHelpCommand: true, ExitErrHandler: func(context.Context, *cli.Command, error) {}, OnUsageError: cmdline.OnUsageError,
		Commands: []*cli.Command{c},
	}
	err := root.Run(t.Context(), append([]string{"sluice", c.Name}, args...))
	o := outcome{stdout: stdout.String(), stderr: stderr.String()}
	if err == nil {
		return o
	}
	o.code = exitFailed
	if coder, ok := errors.AsType[cli.ExitCoder](err); ok {
		o.code = coder.ExitCode()
	} else if _, ok := errors.AsType[cmdline.UsageError](err); ok {
		o.code = exitUsage
	}
	o.stderr += err.Error()
	return o
}

// write writes a file in a directory of the test.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The exit status and the report of sluice validate.
func TestValidateCommand(t *testing.T) {
	good, bad := write(t, exampleEvent+"\n"), write(t, exampleEvent+"\n{\"\u202e\":1}\n"+exampleEvent)
	absent := filepath.Join(t.TempDir(), "absent")
	f := func(name string, stdin string, code int, stdout, stderr string, args ...string) {
		t.Helper()
		o := runOne(t, (*app).validateCommand, stdin, args...)
		if o.code != code || o.stdout != stdout || !strings.Contains(o.stderr, stderr) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, o.code, o.stdout, o.stderr)
		}
	}
	const again = "warning: R161: same source and id as line 1: a relay keeps the first only\n"
	badLine := bad + `:2: R111: member name "\u202e" is not 1 to 20 of a-z and 0-9` + "\n"
	f("good", "", exitOK, "", "files: 1, events: 1, bad lines: 0, warnings: 0 (", good)
	f("bad", "", exitInvalid, badLine+bad+":3: "+again, "events: 2, bad lines: 1, warnings: 1", bad)
	f("no warnings", "", exitInvalid, badLine, "events: 2, bad lines: 1, warnings: 0", "--no-warnings", bad)
	f("warnings do not count", exampleEvent+"\n"+exampleEvent, exitOK, "stdin:2: "+again, "warnings: 1", "-")
	f("too long", exampleEvent, exitInvalid, "stdin:1: R76: line is longer than 10 bytes\n", "", "--max-bytes", "10", "-")
	f("absent, and the rest is checked", "", exitFailed, badLine, "absent", "--no-warnings", absent, bad)
	f("no file", "", exitUsage, "", "no file")
	f("no such flag", "", exitUsage, "", "--help", "--nonsense", good)
	f("no bytes", "", exitUsage, "", "--max-bytes", "--max-bytes", "0", good)

	o := runOne(t, (*app).validateCommand, "", "--json", bad)
	first, _, _ := strings.Cut(o.stdout, "\n")
	var p validate.Problem
	if err := json.Unmarshal([]byte(first), &p); err != nil || p.Line != 2 || p.Rule != "R111" || p.File != bad || p.Warning {
		t.Errorf("%v, %+v of %s", err, p, o.stdout)
	}
}
