package sync

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/store"
)

// simWire is a connection on a simulated loop.
type simWire struct {
	loop.Handler
	*simloop.Socket
}

// TestBodyTimeout: hard case 41: a body that trickles is ended by the read
// timeout, also one that other surfaces would let pass; one that makes progress
// is not.
func TestBodyTimeout(t *testing.T) {
	for _, c := range []struct {
		name    string
		perTick int // octets every 5 s
		within  time.Duration
		want    string // the answer's first line begins so, "" for none
	}{
		{"one octet a second", 5, readTimeout + time.Second, "HTTP/1.1 503 "},
		{"nothing for 50 s", 0, 50 * time.Second, ""},
		{"500 octets a second", 2500, readTimeout + time.Second, "HTTP/1.1 503 "},
		{"8 KiB a second", 40 << 10, 4 * readTimeout, ""},
	} {
		clock := simloop.NewClock()
		l := simloop.NewLoop(0, clock)
		s := New(DefaultConfig(), Parts{Log: slog.New(slog.DiscardHandler)})
		events := stream.NewLog(64, 1<<20)
		set := fanout.NewSet(l.Loop, events, session.New(session.Config{EventsPerSession: 1, Sessions: 1}, events), fanout.Limits{})
		budget := serve.NewBudget(64 << 20)
		w := serve.NewWorker(serve.Config{Handler: s, Budget: budget, Refusals: s.Refusals}, l.Loop, set)
		s.Attach(nil, []*serve.Worker{w}) // the owner is not known: the store is not asked
		var wire simWire
		wire.Socket = l.NewSocket(simloop.Unlimited, &wire)
		wire.Handler = w.Accept(wire.Socket)
		wire.OnData([]byte(head("POST", "/v1/events", tokenA, "Content-Length: 200000000") + `{"x":"`))
		for passed := time.Duration(0); passed < c.within; passed += 5 * time.Second {
			if !wire.Gone() {
				wire.OnData([]byte(strings.Repeat("x", c.perTick)))
			}
			clock.Advance(5 * time.Second)
			l.Run(1000)
		}
		if got := string(wire.Received()); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: answered %.200q, want %q", c.name, got, c.want)
		}
		wire.Reset()
		l.Run(1000)
		if l.Panics() != 0 || budget.UsedBytes() != 0 {
			t.Errorf("%s: %d panics, %d bytes kept", c.name, l.Panics(), budget.UsedBytes())
		}
	}
}

// TestHeldEvents: what is held comes out in order however it is laid out over
// memory, file and tail, in each run from the start, and a broken file is an
// error and no event.
func TestHeldEvents(t *testing.T) {
	var want []string
	var memory, tail, inFile []byte
	for i := range 60 {
		size := []int{1, 300, 70_000, 300_000}[i%4]
		e := syncwire.Envelope{EventID: []byte{byte('A' + i)}, Stored: []byte(strings.Repeat(string(rune('A'+i)), size))}
		want = append(want, string(e.EventID)+string(e.Stored))
		switch {
		case i < 5:
			memory = syncwire.AppendRecord(memory, &e)
		case i < 55:
			inFile = syncwire.AppendRecord(inFile, &e)
		default:
			tail = syncwire.AppendRecord(tail, &e)
		}
	}
	h := held{memory: memory, tail: tail, inFile: int64(len(inFile)), file: spool{dir: t.TempDir()}}
	defer h.file.close()
	if err := h.file.write([][]byte{inFile[:100_001], inFile[100_001:]}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var got []string
		for e, err := range h.events() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.ID+string(e.Envelope))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d events, want %d, the same", len(got), len(want))
		}
	}
	for range h.events() {
		break // the store may stop at any event
	}
	for _, broken := range []held{
		{inFile: h.inFile - 1, file: h.file}, // ends inside a record
		{inFile: h.inFile + 1, file: h.file}, // shorter than it should be
		{inFile: 5},                          // was never written
		{memory: memory[:len(memory)-1]},
		{tail: []byte("0123456789abcdef")},
	} {
		var failed error
		for e, err := range broken.events() {
			if failed = err; err != nil && e.ID != "" {
				t.Errorf("an event and an error: %v", err)
			}
		}
		if failed == nil {
			t.Errorf("%d bytes of file, %d in memory: no error", broken.inFile, len(broken.memory))
		}
	}
}

// TestSpoolDir: the directory of spool files is made when it is needed; a file
// that cannot be made is an error.
func TestSpoolDir(t *testing.T) {
	dir := t.TempDir() + "/missing"
	sp := spool{dir: dir}
	if err := sp.write([][]byte{{1}}); err != nil || sp.file == nil {
		t.Fatal(err)
	}
	sp.close()
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left of a spool file: %v, %v", left, err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sp = spool{dir: dir + "/file/x"}
	if err := sp.write([][]byte{{1}}); err == nil || sp.file != nil {
		t.Errorf("%v", err)
	}
}

// BenchmarkHeldEvents is the way of a large push from the spool into the store.
func BenchmarkHeldEvents(b *testing.B) {
	var records []byte
	e := syncwire.Envelope{EventID: []byte("event"), Stored: []byte(strings.Repeat("x", 1024))}
	for range 8192 {
		records = syncwire.AppendRecord(records, &e)
	}
	h := held{inFile: int64(len(records)), file: spool{dir: b.TempDir()}}
	defer h.file.close()
	if err := h.file.write([][]byte{records}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(records)))
	b.ReportAllocs()
	var last store.Event
	for b.Loop() {
		for e, err := range h.events() {
			if err != nil {
				b.Fatal(err)
			}
			last = e
		}
	}
	_ = last
}
