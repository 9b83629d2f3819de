package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/cli.md anew")

// docs/cli.md is made of the help texts, so that it says what they say.
func TestCLIDocument(t *testing.T) {
	const file = "../../docs/cli.md"
	text := "# The command line\n\nWhat `--help` says, command by command. Made by\n" +
		"`go test ./cmd/sluice -run CLIDocument -update`.\n"
	text += section(t, "sluice")
	for _, c := range helpOnly().command().Commands {
		text += section(t, "sluice", c.Name)
	}
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Errorf("%s is not what the help says: run the test with -update", file)
	}
}

// section is the help of one command under its name.
func section(t *testing.T, command ...string) string {
	t.Helper()
	var out bytes.Buffer
	a := helpOnly()
	a.stdout = &out
	if code := a.main(t.Context(), append(command, "--help")); code != exitOK {
		t.Fatalf("%v --help: exit %d", command, code)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n```\n", strings.Join(command, " "))
	for line := range strings.Lines(strings.TrimSpace(out.String())) {
		// The version is of a build, not of the commands.
		if line = strings.TrimRight(line, " \n"); strings.TrimSpace(line) != version() {
			b.WriteString(line + "\n")
		}
	}
	return b.String() + "```\n"
}

func helpOnly() *app {
	return &app{lookup: func(string) (string, bool) { return "", false }, stdout: io.Discard, stderr: io.Discard}
}

// Each command says what it does, and shows how it is called.
func TestCommandsExplainThemselves(t *testing.T) {
	for _, c := range helpOnly().command().Commands {
		if c.Usage == "" || c.OnUsageError == nil {
			t.Errorf("%s: usage %q", c.Name, c.Usage)
		}
		if c.Name != "version" && !strings.Contains(c.Description, "sluice "+c.Name) {
			t.Errorf("%s: its help has no example", c.Name)
		}
	}
}
