package firehosefaults

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

const subscribePath = "/xrpc/com.atproto.sync.subscribeRepos"

// noCursor stands for none (F19).
const noCursor = -1

// item is what a consumer is sent: a frame or the close.
type item struct {
	kind   firehose.Kind
	seq    int64  // 0 of #info, an error and a close
	id     string // of a message
	name   string // of #info and an error, the reason of a close
	closed int    // code of a close frame, or 0
}

func (i item) String() string {
	switch {
	case i.closed != 0:
		return fmt.Sprintf("close %d %s", i.closed, i.name)
	case i.seq == 0:
		return firehose.KindName(i.kind) + " " + i.name
	}
	return fmt.Sprintf("%s %d", firehose.KindName(i.kind), i.seq)
}

// isInfo tells whether an item is the one of F22.
func (i item) isInfo() bool { return i.kind == firehose.KindInfo && i.name == firehose.OutdatedCursor }

// consumer reads one stream. One goroutine.
type consumer struct {
	ws      *relaytest.WS
	scanner firehose.Scanner
	frame   firehose.Frame
}

// subscribe opens a stream. receiveBytes is the kernel's buffer, 0 for its
// default.
func subscribe(addr string, cursor int64, receiveBytes int) (*consumer, error) {
	target := subscribePath
	if cursor != noCursor {
		target += "?cursor=" + strconv.FormatInt(cursor, 10)
	}
	ws, err := relaytest.DialWS(addr, target, relaytest.WSOptions{RecvBytes: receiveBytes})
	if err != nil {
		return nil, err
	}
	return &consumer{ws: ws}, nil
}

func (c *consumer) close() { _ = c.ws.Close() }

// errFrame tells of something that is no frame of the stream (F9).
var errFrame = errors.New("not a frame of the stream")

// next returns the next item. Any other end of the stream than a close frame is
// the error of the read.
func (c *consumer) next() (item, error) {
	for {
		m, err := c.ws.Next(patience)
		switch {
		case err != nil:
			return item{}, err
		case m.Opcode == relaytest.OpPing:
			continue
		case m.Opcode == relaytest.OpClose:
			return item{closed: max(m.Code, 1), name: m.Reason, kind: firehose.KindUnknown}, nil
		case m.Opcode != relaytest.OpBinary || m.Frames != 1:
			return item{}, fmt.Errorf("%w: opcode %d in %d frames", errFrame, m.Opcode, m.Frames)
		}
		if err := c.scanner.Scan(m.Data, &c.frame); err != nil {
			return item{}, fmt.Errorf("%w: %w", errFrame, err)
		}
		f := &c.frame
		if f.Kind() >= firehose.KindInfo {
			return item{kind: f.Kind(), name: string(f.Name)}, nil
		}
		return item{kind: f.Kind(), seq: f.Seq, id: idOf(f)}, nil
	}
}

// follower reads a stream in a goroutine until it ends.
type follower struct {
	c    *consumer
	done chan struct{} // closed at the end

	mu    sync.Mutex
	items []item
	err   error // why it ended; nil after a close frame
}

// follow opens a stream and reads all of it.
func follow(t *testing.T, addr string, cursor int64) *follower {
	t.Helper()
	c, err := subscribe(addr, cursor, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c.follow(t)
}

// follow reads all of a stream from now on.
func (c *consumer) follow(t *testing.T) *follower {
	f := &follower{c: c, done: make(chan struct{})}
	t.Cleanup(f.stop)
	go func() {
		defer close(f.done)
		defer c.close() // the relay waits for that, a little
		for {
			i, err := c.next()
			f.mu.Lock()
			if err != nil {
				f.err = err
				f.mu.Unlock()
				return
			}
			f.items = append(f.items, i)
			f.mu.Unlock()
			if i.closed != 0 {
				return
			}
		}
	}()
	return f
}

// stop closes the stream and waits for the reader.
func (f *follower) stop() {
	f.c.close()
	<-f.done
}

// got returns what came so far.
func (f *follower) got() []item {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.items)
}

// last returns the highest number that came so far, or 0.
func (f *follower) last() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.items) == 0 {
		return 0
	}
	return f.items[len(f.items)-1].seq
}

// count returns how many items came so far.
func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.items)
}

// end waits for the end of a stream and returns all of it. The stream must end
// without a close frame (F48), and with nothing that is no frame.
func (f *follower) end(t *testing.T) []item {
	t.Helper()
	<-f.done // each read has a deadline
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || errors.Is(f.err, errFrame) || relaytest.IsTimeout(f.err) {
		t.Fatalf("stream ended with %v, last %v", f.err, f.items[max(0, len(f.items)-3):])
	}
	return f.items
}

// run holds what a consumer was sent to N1 and N2: one #info first if told is
// set, then every number from first on, each with the message that it had for
// everybody else.
func (l *ledger) run(t *testing.T, who string, items []item, told bool, first int64) {
	t.Helper()
	if told {
		if len(items) == 0 || !items[0].isInfo() {
			t.Fatalf("N2: %s: no #info first, but %v", who, items[:min(len(items), 3)])
		}
		items = items[1:]
	}
	for n, i := range items {
		if want := first + int64(n); i.seq != want {
			t.Fatalf("N2: %s: %v where %d is due, after %v", who, i, want, items[max(0, n-3):n])
		}
		if err := l.enter(i.seq, i.id); err != nil {
			t.Fatalf("%s: %v", who, err)
		}
	}
}

// wantFuture wants a stream to be refused as one of the future, and nothing else
// (F23, F49).
func wantFuture(t *testing.T, f *follower) {
	t.Helper()
	<-f.done
	got := f.got()
	if len(got) != 2 || got[0].kind != firehose.KindError || got[0].name != firehose.FutureCursor ||
		got[1].closed != 1008 || got[1].name != firehose.FutureCursor {
		t.Errorf("F23: %v, %v", got, f.err)
	}
}
