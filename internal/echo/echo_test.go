package echo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/netloop"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// goroutines counts those that are not idle workers of the reactor library's
// process-wide pool, which stay for up to 10 s.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !strings.Contains(stack, "panjf2000/ants") {
			n++
		}
	}
	return n
}

// patience bounds every wait; nothing waits for it when all is well.
const patience = 30 * time.Second

// start serves with a limit. The end of the test checks that everything was
// given back.
func start(t *testing.T, limitBytes int64) *Server {
	t.Helper()
	before := goroutines()
	s, err := New(Config{Addr: "127.0.0.1:0", LimitBytes: limitBytes})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		await(t, "no connection is left", func() bool { return s.Conns() == 0 })
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if <-s.Failed(); s.Err() != nil {
			t.Errorf("serving ended with %v", s.Err())
		}
		if n := s.HeldBytes(); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
		await(t, "goroutines have ended", func() bool { return goroutines() <= before })
	})
	return s
}

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not within %v: %s", patience, what)
			return
		}
	}
}

func dial(t *testing.T, s *Server, o relaytest.WSOptions) *relaytest.WS {
	t.Helper()
	w, err := relaytest.DialWS(s.Addr(), "/", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func wantMessage(t *testing.T, w *relaytest.WS, op byte, data string) {
	t.Helper()
	m, err := w.Next(patience)
	if err != nil || m.Opcode != op || string(m.Data) != data || m.Frames != 1 {
		t.Fatalf("got opcode %d, %d octets in %d frames, %v; want opcode %d, %d octets", m.Opcode, len(m.Data), m.Frames, err, op, len(data))
	}
}

func wantClose(t *testing.T, w *relaytest.WS, code int) {
	t.Helper()
	if m, err := w.Next(patience); err != nil || m.Opcode != relaytest.OpClose || m.Code != code {
		t.Fatalf("got %+v, %v; want Close %d", m, err, code)
	}
}

// TestEcho: text and binary come back as one frame each, in order, on any path.
func TestEcho(t *testing.T) {
	s := start(t, 0)
	w, err := relaytest.DialWS(s.Addr(), "/any/path?case=1", relaytest.WSOptions{
		Glued: relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte("glued")}.Bytes(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	wantMessage(t, w, relaytest.OpText, "glued")
	big := strings.Repeat("\xff\x00", 100_000)
	for _, f := range []relaytest.Frame{
		{Opcode: relaytest.OpBinary, Payload: []byte(big)},
		{Opcode: relaytest.OpText, NotFinal: true, Payload: []byte("two ")},
		{Opcode: relaytest.OpContinuation, Payload: []byte("parts")},
		{Opcode: relaytest.OpText},
	} {
		if err := w.SendFrame(f); err != nil {
			t.Fatal(err)
		}
	}
	wantMessage(t, w, relaytest.OpBinary, big)
	wantMessage(t, w, relaytest.OpText, "two parts")
	wantMessage(t, w, relaytest.OpText, "")
}

// TestNoHandshake: what is no handshake is answered as HTTP.
func TestNoHandshake(t *testing.T) {
	s := start(t, 0)
	for _, c := range []struct {
		method, request string
		status          int
	}{
		{"GET", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404},
		{"POST", "POST / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n", 405},
		{"GET", "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 400},
	} {
		res, err := relaytest.Do(s.Addr(), c.method, c.request, patience)
		if err != nil || res.Status != c.status {
			t.Errorf("%.60q: %+v, %v; want %d", c.request, res, err, c.status)
		}
	}
}

// TestLimit: a message of the limit comes back, a longer one is 1009.
func TestLimit(t *testing.T) {
	s := start(t, 1000)
	w := dial(t, s, relaytest.WSOptions{})
	most := strings.Repeat("m", 1000)
	for _, text := range []string{most, most + "m"} {
		if err := w.SendText(text); err != nil {
			t.Fatal(err)
		}
	}
	wantMessage(t, w, relaytest.OpText, most)
	wantClose(t, w, 1009)
	for _, limit := range []int64{-1, MaxLimitBytes + 1} {
		if _, err := New(Config{Addr: "127.0.0.1:0", LimitBytes: limit}); !errors.Is(err, ErrLimit) {
			t.Errorf("limit %d: %v, want %v", limit, err, ErrLimit)
		}
	}
}

// TestAddress: a bad address and one in use are errors.
func TestAddress(t *testing.T) {
	if _, err := New(Config{Addr: "no port"}); !errors.Is(err, netloop.ErrAddress) {
		t.Errorf("got %v, want %v", err, netloop.ErrAddress)
	}
	s := start(t, 0)
	if _, err := New(Config{Addr: s.Addr()}); err == nil {
		t.Error("an address in use gives no error")
	}
	path := "unix:" + t.TempDir() + "/echo.sock"
	u, err := New(Config{Addr: path})
	if err != nil {
		t.Fatal(err)
	}
	if u.Addr() != path {
		t.Errorf("address %q, want %q", u.Addr(), path)
	}
	u.Start()
	if err := u.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLateReader: a peer that reads only after it has sent everything gets all
// of it, in order: its input waited meanwhile (E1).
func TestLateReader(t *testing.T) {
	s := start(t, 0)
	w := dial(t, s, relaytest.WSOptions{RecvBytes: 16 << 10})
	const count, size = 40, 512 << 10 // 20 MiB, of which sockets take some
	message := func(i int) string { return strings.Repeat(fmt.Sprintf("%07d,", i), size/8) }
	for i := range count {
		if err := w.SendText(message(i)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "input waits", func() bool { return s.HeldBytes() > 0 })
	for i := range count {
		wantMessage(t, w, relaytest.OpText, message(i))
	}
	if err := w.SendClose(1000, ""); err != nil { // what is owed at a Close is dropped
		t.Fatal(err)
	}
	wantClose(t, w, 1000)
}

// TestNeverReads: a peer that sends and never reads is closed with 1013 once a
// quarter of the budget waits, and disturbs no other (E1, E2). What it is told
// comes at a frame boundary.
func TestNeverReads(t *testing.T) {
	s := start(t, 1<<20) // a budget of 64 MiB
	w := dial(t, s, relaytest.WSOptions{RecvBytes: 16 << 10})
	other := dial(t, s, relaytest.WSOptions{})
	frame := relaytest.Frame{Opcode: relaytest.OpBinary, Payload: bytes.Repeat([]byte("n"), 256<<10)}.Bytes()
	for range 4 * leastBudget / 4 / len(frame) { // four times what may wait
		if held := s.HeldBytes(); held > leastBudget/4 {
			t.Fatalf("%d bytes wait, more than a quarter of the budget", held)
		}
		if err := w.Send(frame); err != nil {
			break // reset, by its own fault
		}
	}
	if err := other.SendText("still here"); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, other, relaytest.OpText, "still here")
	if err := other.SendClose(1000, ""); err != nil {
		t.Fatal(err)
	}
	wantClose(t, other, 1000)
	await(t, "the waiting input is given up", func() bool { return s.HeldBytes() == 0 })
	for {
		m, err := w.Next(patience)
		if err != nil {
			// It did not read within the 5 s that it had: the reset may come
			// before what the kernel still had for it.
			t.Logf("cut: %v", err)
			break
		}
		if m.Opcode == relaytest.OpClose {
			if m.Code != 1013 {
				t.Errorf("close %d, want 1013", m.Code)
			}
			break
		}
		if len(m.Data) != 256<<10 {
			t.Fatalf("an echo of %d octets", len(m.Data))
		}
	}
}

// TestShutdown: open sockets get 1001 behind what they are owed; one that does
// not answer is cut in time, and idle connections end at once.
func TestShutdown(t *testing.T) {
	s, err := New(Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	answers := dial(t, s, relaytest.WSOptions{})
	silent := dial(t, s, relaytest.WSOptions{})
	idle, err := relaytest.Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if err := answers.SendText("before"); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, answers, relaytest.OpText, "before")
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- s.Shutdown(context.Background()) }()
	wantClose(t, answers, 1001)
	if err := answers.SendClose(1001, ""); err != nil { // it has two seconds
		t.Fatal(err)
	}
	wantClose(t, silent, 1001)
	if _, err := answers.Next(patience); !errors.Is(err, io.EOF) {
		t.Errorf("after the handshake came %v", err)
	}
	if err := idle.AwaitEOF(patience); err != nil {
		t.Errorf("idle connection: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	t.Logf("shutdown took %v", time.Since(began))
	if <-s.Failed(); s.Err() != nil {
		t.Errorf("serving ended with %v", s.Err())
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("second shutdown: %v", err)
	}
}

// TestShutdownCut: a peer that neither reads nor answers does not hold the
// shutdown up past its context, and is told of.
func TestShutdownCut(t *testing.T) {
	s, err := New(Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	w := dial(t, s, relaytest.WSOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, ErrNotDrained) {
		t.Errorf("got %v, want %v", err, ErrNotDrained)
	}
	if <-s.Failed(); s.Conns() != 0 {
		t.Errorf("%d connections are left", s.Conns())
	}
	_ = w.Close()
}
