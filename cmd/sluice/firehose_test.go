package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/codec/firehose"
)

const publishToken = "pub-SECRET123"

// startFirehose starts a relay that serves a firehose whose numbers begin at 1,
// and returns it with the environment of its clients.
func startFirehose(t *testing.T) (*process, []string) {
	t.Helper()
	p := startProcess(t, "", "SLUICE_SURFACES=firehose", "FIREHOSE_PUBLISH_TOKEN="+publishToken, "FIREHOSE_SEQ_FLOOR=1",
		"SLUICE_DATA="+t.TempDir())
	return p, []string{"SLUICE_URL=ws://" + p.addr, "FIREHOSE_PUBLISH_TOKEN=" + publishToken}
}

// firehoseOf runs a command of firehose.
func firehoseOf(t *testing.T, stdin io.Reader, env []string, args ...string) outcome {
	t.Helper()
	o := runClient(t, stdin, env, func(a *app) *cli.Command { return a.firehoseCommand() }, append([]string{"firehose"}, args...)...)
	if strings.Contains(o.stdout+o.stderr, publishToken) {
		t.Errorf("token shown: %q %q", o.stdout, o.stderr)
	}
	return o
}

// identityFrame is an #identity frame with a hostile handle.
func identityFrame(t *testing.T, name string) []byte {
	t.Helper()
	frame, err := (&firehose.Identity{DID: "did:web:" + name, Time: "2024-07-09T10:00:00Z"}).Append(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func numbered(t *testing.T, name string, seq int64) string {
	t.Helper()
	frame, err := (&firehose.Identity{DID: "did:web:" + name, Time: "2024-07-09T10:00:00Z"}).Append(nil, seq)
	if err != nil {
		t.Fatal(err)
	}
	return string(frame)
}

// What publish reads and tail prints: files, hexadecimal, standard input;
// lines, JSON, raw frames.
func TestFirehose(t *testing.T) {
	_, env := startFirehose(t)
	a, b, c := identityFrame(t, "a.example"), identityFrame(t, "b.example"), identityFrame(t, "c.example")
	publish := func(name string, code int, stdout, stderr, stdin string, args ...string) {
		t.Helper()
		o := firehoseOf(t, strings.NewReader(stdin), env, append([]string{"publish"}, args...)...)
		if o.code != code || o.stdout != stdout || !regexp.MustCompile(stderr).MatchString(o.stderr) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %d, %q, %s", name, o.code, o.stdout, o.stderr, code, stdout, stderr)
		}
	}
	const rest = `, \d+\.\d\d s, \d+ frames/s\n`
	publish("a file", exitOK, "1\n2\n", `^sluice firehose publish: 2 frames in, \d+ bytes`+rest+`$`, "", writeFile(t, "two", string(a)+string(b)))
	publish("hexadecimal", exitOK, "3\n", `^sluice firehose publish: 1 frames in`, hex.EncodeToString(c)+"\n", "--hex", "-")
	token := writeFile(t, "token", publishToken+"\n")
	if err := os.Chmod(token, 0o600); err != nil {
		t.Fatal(err)
	}
	env[1] = "FIREHOSE_PUBLISH_TOKEN="
	publish("token file", exitOK, "4\n", `1 frames in`, string(a), "--token-file", token, "-")
	publish("no token", exitUsage, "", `FIREHOSE_PUBLISH_TOKEN is not set`, "", "-")
	publish("empty token file", exitUsage, "", `--token-file `, "", "--token-file", "", "-")
	env[1] = "FIREHOSE_PUBLISH_TOKEN=wrong"
	publish("wrong token", exitFailed, "", `publish stdin: frame 1 at byte 0: the relay refuses with 401 Unauthorized: AuthenticationRequired`, string(a), "-")
	env[1] = "FIREHOSE_PUBLISH_TOKEN=" + publishToken
	publish("cut file", exitFailed, "", `^firehose publish .*/cut: nothing is published: frame 2 at byte \d+: the input ends inside a frame\n$`,
		"", writeFile(t, "cut", string(a)+string(b[:9])))
	publish("cut stream", exitFailed, "5\n", `1 frames in(.*\n)+firehose publish stdin: frame 2 at byte \d+: the input ends inside`, string(a)+string(b[:9]), "-")
	publish("refused", exitFailed, "6\n", `publish stdin: frame 2 at byte \d+: the relay refuses with 400 Bad Request: InvalidRequest: `, string(a)+"\xa0\xa0"+string(b), "-")
	publish("no file", exitFailed, "", `publish: open .*/none: no such file`, "", filepath.Join(t.TempDir(), "none"))
	publish("nothing named", exitUsage, "", `takes one file`, "")
	publish("two named", exitUsage, "", `takes one file`, "", "-", "-")

	tail := func(name string, code int, stdout, stderr string, args ...string) {
		t.Helper()
		o := firehoseOf(t, nil, env, append([]string{"tail"}, args...)...)
		if o.code != code || o.stdout != stdout || !regexp.MustCompile(stderr).MatchString(o.stderr) {
			t.Errorf("%s: exit %d\n%q\nwant %d\n%q\nstderr %q, want %s", name, o.code, o.stdout, code, stdout, o.stderr, stderr)
		}
	}
	tail("lines", exitOK, "2                2024-07-09T10:00:00Z identity did:web:b.example\n"+
		"3                2024-07-09T10:00:00Z identity did:web:c.example\n", `^$`, "--cursor", "1", "--count", "2")
	tail("raw", exitOK, numbered(t, "a.example", 1)+numbered(t, "b.example", 2), `^$`, "--cursor", "0", "--count", "2", "--raw")
	tail("json", exitOK, `{"header":{"t":"#identity","op":1},"body":{"did":"did:web:c.example","seq":3,"time":"2024-07-09T10:00:00Z"}}`+"\n",
		`^$`, "--cursor", "2", "--count", "1", "--json")
	file := filepath.Join(t.TempDir(), "cursor")
	for _, n := range []string{"2", "3"} {
		o := firehoseOf(t, nil, env, "tail", "--cursor", "1", "--cursor-file", file, "--count", "1", "--exclude", "commit,sync")
		if text, err := os.ReadFile(file); err != nil || string(text) != n+"\n" || !strings.HasPrefix(o.stdout, n+" ") {
			t.Errorf("cursor file: %q, %v, %q", text, err, o.stdout)
		}
	}
	tail("future", exitFailed, "", `^firehose tail: the relay refuses: FutureCursor: `, "--cursor", "99")
	tail("elsewhere", exitFailed, "", `404 Not Found: there is no repository stream`, "--url", strings.TrimPrefix(env[0], "SLUICE_URL=")+"/none")
	tail("usage: cursor", exitUsage, "", `--cursor: cursor is not a decimal number .*"-1"`, "--cursor=-1")
	tail("usage: empty", exitUsage, "", `--cursor is empty`, "--cursor", "")
	tail("usage: exclude", exitUsage, "", `"info" is none of commit, sync, identity, account`, "--exclude", "sync,info")
	tail("usage: both", exitUsage, "", `--json or --raw`, "--json", "--raw")
	tail("usage: count", exitUsage, "", `at least 1`, "--count", "0")
	tail("usage: argument", exitUsage, "", `takes no argument`, "x")
	tail("usage: address", exitUsage, "", `bad relay URL`, "--url", "ftp://x")
	for _, args := range [][]string{{}, {"nothing"}} {
		if o := firehoseOf(t, nil, env, args...); o.code != exitUsage || !strings.Contains(o.stderr, "see sluice firehose --help") {
			t.Errorf("%q: exit %d, %q", args, o.code, o.stderr)
		}
	}
}

// sluiceProcess prepares "sluice" in a process of its own.
func sluiceProcess(t *testing.T, env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, &stderr
}

// tail --raw | publish - carries one relay's frames to another as they come,
// and a SIGINT for both, as a terminal sends it, loses nothing between them:
// what tail's cursor file has is published.
func TestFirehosePipe(t *testing.T) {
	_, from := startFirehose(t)
	_, to := startFirehose(t)
	file := filepath.Join(t.TempDir(), "cursor")
	tail, tailErr := sluiceProcess(t, from, "firehose", "tail", "--raw", "--cursor", "0", "--cursor-file", file)
	publish, publishErr := sluiceProcess(t, to, "firehose", "publish", "-")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	tail.Stdout, publish.Stdin = w, r
	numbers, err := publish.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{tail, publish} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = w.Close(), r.Close()
	if o := firehoseOf(t, bytes.NewReader(bytes.Repeat(identityFrame(t, "a.example"), 50)), from, "publish", "-"); o.code != exitOK {
		t.Fatal(o.stderr)
	}
	one := make([]byte, 2)
	if _, err := io.ReadFull(numbers, one); err != nil || string(one) != "1\n" {
		t.Fatalf("%q, %v", one, err)
	}
	for _, cmd := range []*exec.Cmd{tail, publish} {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	rest, err := io.ReadAll(numbers)
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{tail, publish} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", cmd.Args[1:], err)
		}
	}
	lines := strings.Fields(string(one) + string(rest))
	cursor, err := os.ReadFile(file)
	if err != nil || lines[len(lines)-1]+"\n" != string(cursor) {
		t.Errorf("published up to %s, the cursor is %q, %v\n%s%s", lines[len(lines)-1], cursor, err, tailErr, publishErr)
	}
}

// A reader of the pipe that has seen enough ends tail with 0 and no word.
func TestFirehoseTailBrokenPipe(t *testing.T) {
	_, env := startFirehose(t)
	cmd, stderr := sluiceProcess(t, env, "firehose", "tail", "--json", "--cursor", "0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	post := func() {
		t.Helper()
		if o := firehoseOf(t, bytes.NewReader(identityFrame(t, "a.example")), env, "publish", "-"); o.code != exitOK {
			t.Fatal(o.stderr)
		}
	}
	post()
	var line struct{ Body struct{ Seq int64 } }
	if err := json.NewDecoder(out).Decode(&line); err != nil || line.Body.Seq != 1 {
		t.Fatalf("%+v, %v", line, err)
	}
	_ = out.Close()
	post()
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %q", err, stderr)
	}
}

// The first signal ends a file behind the frame that is under way, and the exit
// code says that it was not all.
func TestFirehosePublishSignal(t *testing.T) {
	_, env := startFirehose(t)
	const frames = 1_000_000
	file := filepath.Join(t.TempDir(), "many")
	one := identityFrame(t, "a.example")
	if err := os.WriteFile(file, bytes.Repeat(one, frames), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := sluiceProcess(t, env, "firehose", "publish", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer deadline.Stop()
	numbers, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "interrupted before everything was published") {
		t.Errorf("%v\n%s", cmd.ProcessState, stderr)
	}
	if n := strings.Count(string(numbers), "\n"); n >= frames-1 {
		t.Errorf("%d numbers: it went on", n)
	}
}
