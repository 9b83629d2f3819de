package nodetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must come. It is only used up
	// when a test fails, and is long because Node starts slowly on a busy machine.
	patience = time.Minute
	// lineBytes bounds a line of a script.
	lineBytes = 1 << 20
)

// Script is a program for Node that runs. Owned by the test.
type Script struct {
	t     testing.TB
	name  string
	lines chan []byte // closed at its end
}

// Run starts the first of files, which lie in the package's testdata, with an
// argument in JSON, beside the others and the modules that Modules returned. It is
// killed when the test ends, and until then must not write to its error output.
// What it writes is taken as lines of JSON.
func Run(t testing.TB, modules string, argument any, files ...string) *Script {
	t.Helper()
	script := files[0]
	cmd := command(t, modules, argument, files)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &Script{t: t, name: script, lines: make(chan []byte)}
	over, read := make(chan struct{}), make(chan error, 1)
	go func() { read <- s.read(stdout, over) }()
	t.Cleanup(func() {
		close(over)
		_ = cmd.Process.Kill()
		if err := <-read; err != nil {
			t.Errorf("%s: %v", script, err)
		}
		_ = cmd.Wait() // it was killed
		if stderr.Len() > 0 {
			t.Errorf("%s says: %s", script, stderr.String())
		}
	})
	return s
}

// command is node with a script beside its packages: Node looks for them from
// where the script lies.
func command(t testing.TB, modules string, argument any, files []string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(argument)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", files[0], string(text))
	cmd.Dir = dir
	return cmd
}

// read hands the lines over until the script or the test ends.
func (s *Script) read(r io.Reader, over <-chan struct{}) error {
	defer close(s.lines)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, lineBytes)
	for scanner.Scan() {
		select {
		case s.lines <- append([]byte(nil), scanner.Bytes()...):
		case <-over:
			return nil // what else it says is of no interest
		}
	}
	return scanner.Err()
}

// Next reads the next line into v.
func (s *Script) Next(v any) {
	s.t.Helper()
	select {
	case l, ok := <-s.lines:
		if !ok {
			s.t.Fatalf("%s has ended", s.name)
		}
		if err := json.Unmarshal(l, v); err != nil {
			s.t.Fatalf("%s says %q: %v", s.name, l, err)
		}
	case <-time.After(patience):
		s.t.Fatalf("%s says nothing for %v", s.name, patience)
	}
}
