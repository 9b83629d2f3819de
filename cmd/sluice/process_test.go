package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// asProgram makes the test binary run the program instead of the tests.
const asProgram = "SLUICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = time.Minute

// process is a relay in a process of its own.
type process struct {
	cmd  *exec.Cmd
	addr string
}

// startProcess runs "sluice serve" on a free port under a shell that first runs
// setup.
func startProcess(t *testing.T, setup string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", setup+` exec "$0" serve`, self)
	cmd.Env = append(os.Environ(), asProgram+"=1", "AEP_PORT=0", "AEP_HOST=127.0.0.1", "AEP_TOKEN=", "SLUICE_ADMIN=off")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = io.Discard
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
		t.Fatalf("R12: no line on standard output: %v", err)
	}
	addr, ok := strings.CutPrefix(line, "aep-relay listening on ")
	if !ok {
		t.Fatalf("R12: first line is %q", line)
	}
	addr, _, _ = strings.Cut(addr, ",")
	return &process{cmd: cmd, addr: addr}
}

// post publishes a body of NDJSON.
func (p *process) post(t *testing.T, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+p.addr+"/events", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("AEP-Version", "0.1")
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Fatalf("POST /events: %s", res.Status)
	}
}

// status returns a number from /proc, in KiB for memory.
func (p *process) status(t *testing.T, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in /proc", field)
	return 0
}

// cpuTime returns the processor time that the process has used.
func (p *process) cpuTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+2:])
	ticks := 0
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(string(f))
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// exit waits for the end of the process and returns its exit code. A relay that
// has not ended in order within 5 s says so by that (R464).
func (p *process) exit(t *testing.T) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case err := <-done:
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("still running after %v", patience)
	}
	return 0
}

func dialSocket(t *testing.T, addr string, recvBytes int) *relaytest.WS {
	t.Helper()
	w, err := relaytest.DialWS(addr, "/socket", relaytest.WSOptions{RecvBytes: recvBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	for _, frame := range []string{
		`{"type":"hello","versions":["0.1"],"role":"consumer"}`,
		`{"type":"subscribe","id":"s"}`,
	} {
		if err := w.SendText(frame); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`"hello"`, `"subscribed"`} {
		m, err := w.Next(patience)
		if err != nil || !strings.Contains(string(m.Data), want) {
			t.Fatalf("got %q, %v, want %s", string(m.Data), err, want)
		}
	}
	return w
}

// TestR460ToR464Signal: SIGTERM with streams and sockets open ends the process
// in an orderly way, with status 0, in under 5 s; further signals change
// nothing.
func TestR460ToR464Signal(t *testing.T) {
	p := startProcess(t, "")
	var streams []*relaytest.Stream
	var sockets []*relaytest.WS
	for range 20 {
		s, err := relaytest.OpenStream(p.addr, "/stream", relaytest.StreamOptions{})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
		sockets = append(sockets, dialSocket(t, p.addr, 0))
	}
	p.post(t, relaytest.Padded("s1", 0, "info", 300).JSON()+"\n")
	for range 3 {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for _, s := range streams {
		wg.Go(func() { farewellOfStream(t, s) })
	}
	for _, w := range sockets {
		wg.Go(func() { farewellOfSocket(t, w) })
	}
	wg.Wait()
	if code := p.exit(t); code != 0 {
		t.Errorf("R464: exit code %d, want 0", code)
	}
}

func farewellOfStream(t *testing.T, s *relaytest.Stream) {
	var last relaytest.Block
	for {
		b, err := s.Next(patience)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Errorf("R461: stream ended with %v", err)
			return
		}
		last = b
	}
	if len(last.Comments) != 1 || last.Comments[0] != "shutting-down" {
		t.Errorf("R461: last block %+v, want the comment shutting-down", last)
	}
}

func farewellOfSocket(t *testing.T, w *relaytest.WS) {
	var before string
	for {
		m, err := w.Next(patience)
		if err != nil {
			t.Errorf("R462: socket ended with %v", err)
			return
		}
		if m.Opcode == relaytest.OpClose {
			if m.Code != 1001 || m.Reason != "shutting down" {
				t.Errorf("R462: close %d %q, want 1001 shutting down", m.Code, m.Reason)
			}
			break
		}
		before = string(m.Data)
	}
	want := `{"type":"closing","reason":"shutting-down","delivered":[{"sub":"s","session":"s1","epoch":0,"seq":0}]}`
	if before != want {
		t.Errorf("R462: before the close came %q, want %q", before, want)
	}
	_ = w.SendClose(1001, "")
}

// TestFewDescriptors: 150 dials to a relay with 64 descriptors neither end it
// nor make it spin, and it serves again after (R14, C51).
func TestFewDescriptors(t *testing.T) {
	p := startProcess(t, "ulimit -n 64;")
	var conns []net.Conn
	for range 150 {
		c, err := net.DialTimeout("tcp", p.addr, patience)
		if err != nil {
			continue // refused at once is fine
		}
		conns = append(conns, c)
	}
	// What it does for those that it took may go on for a while; a relay that
	// spins never comes to rest.
	for deadline := time.Now().Add(patience); ; {
		before := p.cpuTime(t)
		time.Sleep(time.Second) // the span over which processor time is measured
		used := p.cpuTime(t) - before
		if used <= 300*time.Millisecond {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("uses %v of processor time in one second while full", used)
		}
	}
	for _, c := range conns {
		_ = c.Close()
	}
	deadline := time.Now().Add(patience)
	for {
		res, err := relaytest.Do(p.addr, "GET", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", patience)
		if err == nil && res.Status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("does not serve after the flood: %v %v", res, err)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

const (
	floodEvents = 25_000
	floodSize   = 4_000 // bytes of an event: 100 MB in all
	floodBatch  = 100
)

// flood publishes 100 MB of notice events of one session, never more than half
// of what a consumer may owe ahead of the healthy one.
func flood(t *testing.T, p *process, seen *atomic.Int64) {
	t.Helper()
	var b strings.Builder
	for seq := range uint64(floodEvents) {
		b.WriteString(relaytest.Padded("flood", seq, "notice", floodSize).JSON())
		b.WriteByte('\n')
		if seq%floodBatch == floodBatch-1 {
			p.post(t, b.String())
			b.Reset()
			for int64(seq)-seen.Load() > 1000 && !t.Failed() {
				time.Sleep(time.Millisecond) // pacing
			}
		}
	}
}

// followStream reads a socket until it has seen all of a flood.
func followStream(t *testing.T, w *relaytest.WS, seen *atomic.Int64) {
	for want := range uint64(floodEvents) {
		m, err := nextEvent(w)
		if err != nil {
			t.Errorf("healthy consumer, at seq %d: %v", want, err)
			return
		}
		env, err := relaytest.ParseEnvelope(string(m.Data))
		if err != nil || env.SeqNumber() != want {
			t.Errorf("healthy consumer got %.100q (%v), want seq %d", string(m.Data), err, want)
			return
		}
		seen.Store(int64(want))
	}
}

// nextEvent returns the next message that is no ping.
func nextEvent(w *relaytest.WS) (relaytest.Message, error) {
	for {
		m, err := w.Next(patience)
		if err != nil || m.Opcode != relaytest.OpPing && !strings.HasPrefix(string(m.Data), `{"type":"ping"`) {
			return m, err
		}
	}
}

// peakOfFlood runs a flood past one healthy consumer, and past slow if that is
// not nil, and returns the relay's peak memory in KiB.
func peakOfFlood(t *testing.T, slow func(*process, *relaytest.WS)) int {
	t.Helper()
	p := startProcess(t, "", "AEP_BUFFER=100", "GOGC=25")
	var wg sync.WaitGroup
	healthy := dialSocket(t, p.addr, 0) // first: one socket must mean that the slow one was cut
	if slow != nil {
		w := dialSocket(t, p.addr, 4<<10)
		wg.Go(func() { slow(p, w) })
	}
	var seen atomic.Int64
	wg.Go(func() { followStream(t, healthy, &seen) })
	flood(t, p, &seen)
	wg.Wait()
	return p.status(t, "VmHWM")
}

// TestR422StalledReader: a reader with a receive buffer of 4 KiB that stalls
// under 100 MB of notice events costs the relay less than 32 MiB over the same
// flood without it, disturbs nobody, and is told its positions when it reads
// again, up to 5 s after it was cut (R422 to R430).
func TestR422StalledReader(t *testing.T) {
	if testing.Short() {
		t.Skip("floods two relays with 100 MB each")
	}
	without := peakOfFlood(t, nil)
	with := peakOfFlood(t, func(p *process, slow *relaytest.WS) {
		awaitCut(t, p)
		readFarewell(t, slow)
	})
	t.Logf("peak memory: %d KiB without the stalled reader, %d KiB with it", without, with)
	if with-without > 32<<10 {
		t.Errorf("R426: the stalled reader cost %d KiB, want less than 32 MiB", with-without)
	}
}

// awaitCut waits until the relay has ended one of two sockets.
func awaitCut(t *testing.T, p *process) {
	for deadline := time.Now().Add(4 * patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		res, err := relaytest.Do(p.addr, "GET", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", patience)
		if err != nil {
			t.Error(err)
			return
		}
		if strings.Contains(string(res.Body), `"connections":1`) {
			return
		}
	}
	t.Error("R422: the stalled reader was not cut")
}

// readFarewell reads what a cut reader has still to get.
func readFarewell(t *testing.T, slow *relaytest.WS) {
	next := uint64(0)
	for {
		m, err := nextEvent(slow)
		if err != nil {
			t.Errorf("R428: no closing after %d events: %v", next, err)
			return
		}
		if strings.HasPrefix(string(m.Data), `{"type":"closing"`) {
			checkClosing(t, string(m.Data), next-1)
			break
		}
		env, err := relaytest.ParseEnvelope(string(m.Data))
		if err != nil || env.SeqNumber() != next {
			t.Errorf("got %.100q (%v), want seq %d", string(m.Data), err, next)
			return
		}
		next++
	}
	if m, err := nextEvent(slow); err != nil || m.Opcode != relaytest.OpClose || m.Code != 1013 {
		t.Errorf("R428: after closing came %+v, %v, want Close 1013", m, err)
	}
}

// checkClosing wants a closing that names last as the position of session
// flood.
func checkClosing(t *testing.T, text string, last uint64) {
	t.Helper()
	var closing struct {
		Reason    string
		Delivered []struct {
			Sub, Session string
			Epoch, Seq   uint64
		}
	}
	if err := json.Unmarshal([]byte(text), &closing); err != nil {
		t.Error(err)
		return
	}
	if closing.Reason != "backpressure" || len(closing.Delivered) != 1 {
		t.Errorf("R430: %s, want reason backpressure and one position", text)
		return
	}
	if d := closing.Delivered[0]; d.Sub != "s" || d.Session != "flood" || d.Seq != last {
		t.Errorf("R430: delivered %+v, want sub s, session flood, seq %d", d, last)
	}
}
