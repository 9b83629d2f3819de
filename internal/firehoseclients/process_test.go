package firehoseclients

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
	// lineBytes bounds a line of a script, which has a frame in several forms.
	lineBytes = 1 << 20
)

// line is what a script saw: one kind of all that they print.
type line struct {
	Event string

	// A message, in the form of the client or of what it hands over.
	Message map[string]any

	// Of frames.mjs.
	Hex, Again, Fault, XrpcFault string
	Header, Body                 map[string]any
	Xrpc                         struct{ Header, Body map[string]any }
	Server, Protocol, Extensions string

	// Of an end, of whatever kind. The code is a number or a name.
	Text, Cause, Name, Reason string
	Code                      any
	Cursor                    string

	// Of @atproto/sync: the number that was handed over, or reached.
	Seq int64
}

// client is a script that runs. Owned by the test.
type client struct {
	t     *testing.T
	name  string
	lines chan line // closed at its end
}

// run starts a script. It is killed when the test ends, and until then must not
// write to its error output.
func run(t *testing.T, script string, argument any) *client {
	t.Helper()
	cmd := command(t, script, argument)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, name: script, lines: make(chan line)}
	over, read := make(chan struct{}), make(chan error, 1)
	go func() { read <- c.read(stdout, over) }()
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
	return c
}

// command is node with a script beside the clients' packages: Node looks for
// them from where the script lies.
func command(t *testing.T, script string, argument any) *exec.Cmd {
	t.Helper()
	packages, dir := modules(t), t.TempDir()
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{script, "print.mjs"} {
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
	cmd := exec.Command("node", script, string(text))
	cmd.Dir = dir
	return cmd
}

// read hands the lines over until the script or the test ends.
func (c *client) read(r io.Reader, over <-chan struct{}) error {
	defer close(c.lines)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, lineBytes)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return err
		}
		select {
		case c.lines <- l:
		case <-over:
			return nil // what else it says is of no interest
		}
	}
	return scanner.Err()
}

// next returns the next line, whatever it is.
func (c *client) next() line {
	c.t.Helper()
	select {
	case l, ok := <-c.lines:
		if !ok {
			c.t.Fatalf("%s has ended", c.name)
		}
		return l
	case <-time.After(patience):
		c.t.Fatalf("%s says nothing for %v", c.name, patience)
	}
	return line{}
}

// expect returns the next line, which must be of this event.
func (c *client) expect(event string) line {
	c.t.Helper()
	l := c.next()
	if l.Event != event {
		c.t.Fatalf("%s: got %+v, want the event %s", c.name, l, event)
	}
	return l
}
