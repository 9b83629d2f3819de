package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/bench/report"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// asProgram makes the test binary run the program instead of the tests.
const asProgram = "SLUICEBENCH_TEST_AS_PROGRAM"

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run runs the program in this process, with a context that has ended: what
// would serve ends at once.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	a := app{stdout: &out, stderr: &errs}
	code = a.main(ctx, append([]string{"sluicebench"}, args...))
	return code, out.String(), errs.String()
}

// TestCommandLine: exit codes, and what goes to which output.
func TestCommandLine(t *testing.T) {
	f := func(args string, code int, stdout, stderr string) {
		t.Helper()
		gotCode, out, errs := run(t, strings.Fields(args)...)
		if gotCode != code || !strings.Contains(out, stdout) || !strings.Contains(errs, stderr) {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want %d, %q, %q", args, gotCode, out, errs, code, stdout, stderr)
		}
		if code == exitUsage && (out != "" || strings.Count(errs, "\n") != 1) {
			t.Errorf("%q: an error of the command line is one line: %q %q", args, out, errs)
		}
	}
	f("", exitOK, "echo", "")
	f("--help", exitOK, "serve WebSocket echo", "")
	f("echo --help", exitOK, "--listen", "")
	f("echo --listen 127.0.0.1:0", exitOK, "sluicebench echo listening on 127.0.0.1:", "")
	f("echo --listen 127.0.0.1:0 --limit 1", exitOK, "listening on", "")

	f("list", exitOK, "fanout-ws-10k-one ", "")
	f("list", exitOK, "    fanout-ws-10k-sat ", "")
	f("run --help", exitOK, "--quick", "")
	f("profile --help", exitOK, "--length", "")

	f("firehose --help", exitOK, "--quick", "")
	f("firehose x", exitUsage, "", "takes no argument")
	f("firehose --relay /nonexistent --out "+t.TempDir(), exitFailed, "", "no such file")
	f("firehose-floor", exitOK, "listening on 127.0.0.1:", "")
	f("firehose-source", exitOK, "listening on 127.0.0.1:", "")

	f("aepws --help", exitOK, "--quick", "")
	f("aepws x", exitUsage, "", "takes no argument")
	f("aepws --relay /nonexistent --out "+t.TempDir(), exitFailed, "", "no such file")

	f("list all", exitUsage, "", "takes no argument")
	f("run fanout-ws-1k", exitUsage, "", "takes no argument")
	f("run --only nothing --relay "+os.Args[0]+" --rivals= --out "+t.TempDir(), exitUsage, "", "nothing to run")
	f("run --relay /nonexistent --rivals= --out "+t.TempDir(), exitFailed, "", "no such file")
	f("profile --length 10ms", exitUsage, "", "less than 1s")
	f("profile x", exitUsage, "", "takes no argument")
	f("report", exitUsage, "", "takes FILE")
	f("report /nonexistent", exitFailed, "", "no such file")
	f("compare x", exitUsage, "", "takes OLD NEW")
	f("compare /nonexistent /nonexistent", exitFailed, "", "no such file")

	f("nothing", exitUsage, "", `unknown command "nothing"`)
	f("--nothing", exitUsage, "", "nothing")
	f("echo --nothing", exitUsage, "", "see sluicebench echo --help")
	f("echo 127.0.0.1:0", exitUsage, "", "takes no argument")
	f("echo --listen nonsense", exitUsage, "", "bad address")
	f("echo --listen 127.0.0.1:0 --limit 0", exitUsage, "", "message limit")
	f("echo --listen 127.0.0.1:0 --limit -1", exitUsage, "", "message limit")
	f("echo --listen 127.0.0.1:0 --limit 268435457", exitUsage, "", "message limit")
	f("echo --limit many", exitUsage, "", "many")
}

// TestReport: a run is rendered again next to its results, and compared.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, resultsFile)
	r := &report.Report{Format: report.Format, Suite: report.SuiteFull, Results: []report.Result{{
		Scenario: report.FanoutWS1kOne, Title: "1000 consumers", Target: report.TargetSluice, Round: 1, Consumers: 1000,
		Events: 10, Deliveries: 10_000, Wall: time.Second, ServerCPU: 50 * time.Millisecond,
	}}}
	if err := report.WriteFile(results, r); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "report", results)
	if code != exitOK || !strings.Contains(out, "| Scenario |") || !strings.Contains(out, "not measured") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, markdownFile))
	if err != nil || !strings.Contains(string(text), "1000 consumers") {
		t.Errorf("%v, %.200q", err, text)
	}
	if code, out, errs := run(t, "compare", results, results); code != exitOK || !strings.Contains(out, report.FanoutWS1kOne) {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// TestAddressInUse: an address that is taken is no error of the command line.
func TestAddressInUse(t *testing.T) {
	p := start(t)
	if code, _, errs := run(t, "echo", "--listen", p.addr); code != exitFailed || !strings.Contains(errs, "in use") {
		t.Errorf("exit %d, stderr %q", code, errs)
	}
}

// process is the program in a process of its own.
type process struct {
	cmd  *exec.Cmd
	addr string
}

func start(t *testing.T) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "echo", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no line on standard output: %v", err)
	}
	addr, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "sluicebench echo listening on ")
	if !ok {
		t.Fatalf("first line is %q", line)
	}
	return &process{cmd, addr}
}

// TestSignal: SIGTERM and SIGINT close the sockets with 1001 and end the process
// with 0.
func TestSignal(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t)
		w, err := relaytest.DialWS(p.addr, "/", relaytest.WSOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if err := w.SendText("hello"); err != nil {
			t.Fatal(err)
		}
		if m, err := w.Next(patience); err != nil || string(m.Data) != "hello" {
			t.Fatalf("echo: %+v, %v", m, err)
		}
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		m, err := w.Next(patience)
		if err != nil || m.Opcode != relaytest.OpClose || m.Code != 1001 || m.Reason != "shutting down" {
			t.Errorf("%v: got %+v, %v; want Close 1001", sig, m, err)
		}
		if err := w.SendClose(1001, ""); err != nil {
			t.Error(err)
		}
		if code := p.exit(t); code != exitOK {
			t.Errorf("%v: exit %d", sig, code)
		}
	}
}

// TestSecondSignal: a second signal ends the process at once, though a peer does
// not answer its Close.
func TestSecondSignal(t *testing.T) {
	p := start(t)
	w, err := relaytest.DialWS(p.addr, "/", relaytest.WSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if m, err := w.Next(patience); err != nil || m.Code != 1001 {
		t.Fatalf("got %+v, %v; want Close 1001", m, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != -1 { // ended by the signal
		t.Errorf("exit %d, want the signal", code)
	}
}

// exit waits for the end of the process and returns its exit code, -1 when a
// signal ended it.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	done := make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("still running after %v", patience)
	}
	return p.cmd.ProcessState.ExitCode()
}
