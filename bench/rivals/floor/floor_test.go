package floor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-relay/sluice/bench/rivals/intake"
)

// patience bounds every wait of a test; none is expected to need it.
const patience = 2 * time.Minute

// configs are all floors.
var configs = map[string]Config{
	"single":       {Loops: 1},
	"joined":       {Loops: 1, Joined: true},
	"single-uring": {Loops: 1, Uring: true},
	"joined-uring": {Loops: 1, Joined: true, Uring: true},
}

// forEach runs a test on all floors.
func forEach(t *testing.T, test func(t *testing.T, f *Floor)) {
	for name, c := range configs {
		t.Run(name, func(t *testing.T) {
			f, err := New(c)
			if errors.Is(err, ErrUringUnavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			test(t, f)
		})
	}
}

// connect joins a consumer to the floor's thread and returns its other end.
// The floor's send buffer is small, so that writes fall short.
func connect(t *testing.T, f *Floor, topic string) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = near.Close() }()
	_ = near.(*net.TCPConn).SetWriteBuffer(64 << 10)
	_ = far.SetDeadline(time.Now().Add(patience))
	fd, err := duplicate(near)
	if err != nil {
		t.Fatal(err)
	}
	f.threads[0].join(&consumer{fd: fd, topic: topic})
	return far
}

// publish publishes events of the given length and returns their frames.
func publish(f *Floor, first, count, size int, topics ...string) [][]byte {
	var batch []intake.Event
	var frames [][]byte
	for i := range count {
		payload := fmt.Appendf(nil, "%d ", first+i)
		payload = append(payload, bytes.Repeat([]byte{byte('a' + i%26)}, size)...)
		e := intake.Event{Payload: payload}
		if len(topics) > 0 {
			e.Topic = topics[i%len(topics)]
		}
		batch = append(batch, e)
		frames = append(frames, intake.TextFrame(payload))
	}
	f.Publish(batch)
	return frames
}

// expect reads the frames and nothing else.
func expect(t *testing.T, who string, c net.Conn, frames [][]byte) {
	t.Helper()
	for i, want := range frames {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatalf("%s: frame %d: %v", who, i, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%s: frame %d: got %.40q, want %.40q", who, i, got, want)
		}
	}
}

// TestShortWrites gives a consumer far more than its buffers hold, before it
// reads a byte (F2), while another reads on.
func TestShortWrites(t *testing.T) {
	forEach(t, func(t *testing.T, f *Floor) {
		slow, quick := connect(t, f, ""), connect(t, f, "")
		var frames [][]byte
		for i := range 20 {
			next := publish(f, i*10, 10, 10_000)
			expect(t, "quick", quick, next)
			frames = append(frames, next...)
		}
		expect(t, "slow", slow, frames)
		last := publish(f, 200, 3, 10)
		expect(t, "slow again", slow, last)
		expect(t, "quick", quick, last)
	})
}

// TestMoreThanARing fills more than one batch of SENDs.
func TestMoreThanARing(t *testing.T) {
	forEach(t, func(t *testing.T, f *Floor) {
		conns := make([]net.Conn, 2*ringEntries+3)
		for i := range conns {
			conns[i] = connect(t, f, "")
		}
		frames := publish(f, 0, 5, 300)
		for i, c := range conns {
			expect(t, fmt.Sprint("consumer ", i), c, frames)
		}
	})
}

// TestTopics checks who gets what, with joined frames of several topics.
func TestTopics(t *testing.T) {
	forEach(t, func(t *testing.T, f *Floor) {
		all, a, b := connect(t, f, ""), connect(t, f, "a"), connect(t, f, "b")
		frames := publish(f, 0, 30, 100, "a", "b", "nobody")
		expect(t, "all", all, frames)
		var ofA, ofB [][]byte
		for i := 0; i < len(frames); i += 3 {
			ofA, ofB = append(ofA, frames[i]), append(ofB, frames[i+1])
		}
		expect(t, "a", a, ofA)
		expect(t, "b", b, ofB)
		expect(t, "b again", b, publish(f, 30, 4, 10, "b"))
	})
}

// TestTooFarBehind checks that a consumer who never reads is disconnected at
// maxBacklogBytes (F3), and that one who goes away is dropped.
func TestTooFarBehind(t *testing.T) {
	forEach(t, func(t *testing.T, f *Floor) {
		stuck, gone, good := connect(t, f, ""), connect(t, f, ""), connect(t, f, "")
		_ = gone.Close()
		const size = 1 << 20
		for i := range maxBacklogBytes/size + 8 {
			expect(t, "good", good, publish(f, i, 1, size))
		}
		n, err := io.Copy(io.Discard, stuck)
		if n >= maxBacklogBytes {
			t.Errorf("stuck got %d bytes, %v", n, err)
		}
		expect(t, "good", good, publish(f, 1000, 1, 10))
		f.Close()
		if th := f.threads[0]; len(th.byFD) != 1 || len(th.groups[""]) != 1 || th.behind != 0 {
			t.Errorf("%d consumers, %d in the group, %d behind", len(th.byFD), len(th.groups[""]), th.behind)
		}
	})
}

// TestCloseEndsConsumers checks that Close disconnects and may be repeated.
func TestCloseEndsConsumers(t *testing.T) {
	forEach(t, func(t *testing.T, f *Floor) {
		c := connect(t, f, "")
		expect(t, "before", c, publish(f, 0, 1, 10))
		f.Close()
		f.Close()
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read %d, %v, want EOF", n, err)
		}
		publish(f, 1, 1, 10) // to nobody
	})
}

func TestConfigIsChecked(t *testing.T) {
	if f, err := New(Config{}); err == nil {
		f.Close()
		t.Error("no error for 0 loops")
	}
}

// TestRingErrors checks that a ring's failure is told from a result's.
func TestRingErrors(t *testing.T) {
	r, err := newRing()
	if errors.Is(err, ErrUringUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var result int32
	r.prepare(submission{opcode: opSend, fd: -1})
	if err := r.flush(func(_ uint64, res int32) { result = res }); err != nil {
		t.Fatal(err)
	}
	if result != -int32(unix.EBADF) {
		t.Errorf("SEND to no descriptor: %d, want %d", result, -int32(unix.EBADF))
	}
	r.close()
	r.filled, r.sqTail = 1, new(uint32)
	if err := r.flush(func(uint64, int32) {}); !errors.Is(err, unix.EBADF) {
		t.Errorf("closed ring: %v", err)
	}
}
