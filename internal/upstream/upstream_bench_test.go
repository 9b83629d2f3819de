package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
	ring "github.com/sluice-relay/sluice/engine/stream"
	proto "github.com/sluice-relay/sluice/internal/proto/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// marks is the record of the numbers in memory.
type marks struct{ state proto.State }

func (m *marks) Load() (proto.State, error)               { return m.state, nil }
func (m *marks) Reserve(upTo int64) error                 { m.state.Reserved = upTo; return nil }
func (m *marks) EraseClean() error                        { m.state.Clean = false; return nil }
func (m *marks) StoreClean(int64, int64, time.Time) error { return nil }

// producer is the real one, with a ring of the default bounds.
func producer(t testing.TB) *proto.Producer {
	t.Helper()
	numbers, err := proto.OpenNumbers(&marks{}, proto.NumbersConfig{Mode: proto.FloorNumber, Floor: 1 << 50})
	if err != nil {
		t.Fatal(err)
	}
	p := proto.NewProducer(proto.Config{Ring: ring.NewRing(ring.Bounds{Frames: 65_536, Bytes: 128 << 20}), Numbers: numbers})
	if err := errors.Join(p.Booting(), p.Listening()); err != nil {
		t.Fatal(err)
	}
	return p
}

// traffic is commits of about 1,100 bytes of many repositories, each from one
// revision to the next.
func traffic(t testing.TB, repos, revs int) [][]byte {
	t.Helper()
	leaf := make([]byte, 470)
	var frames [][]byte
	for n := 1; n <= revs; n++ {
		for i := range repos {
			did := fmt.Sprintf("did:plc:%024d", i)
			c := commitOf(did, rev(n-1), rev(n))
			c.Commit, c.Blocks = repository(did, rev(n), leaf)
			frames = append(frames, frame(t, c, int64(len(frames)+1)))
		}
	}
	return frames
}

// benchManager is a Manager that publishes to a real producer.
func benchManager(b *testing.B, upstreams ...string) (*Manager, *proto.Producer) {
	b.Helper()
	p := producer(b)
	m, err := New(Config{
		Upstreams: upstreams, Store: newMemory(b), Persist: time.Hour,
		Publish: func(f *firehose.Frame) (int64, error) { return p.Publish(f) },
	})
	if err != nil {
		b.Fatal(err)
	}
	return m, p
}

// BenchmarkHandle is a frame decoded, verified, held against its state,
// renumbered and published, without a socket.
func BenchmarkHandle(b *testing.B) {
	frames := traffic(b, 1000, 20)
	m, p := benchManager(b)
	defer func() { _ = p.Stop(nil, nil) }()
	h := newHost(m, state.Host{ID: 1, Hostname: "h.example.com", Status: state.Active, LastSeq: state.NoSeq})
	m.addLocked(h)
	c := newConnection(h, nil)
	b.SetBytes(int64(len(frames[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(frames) == 0 { // begin anew, as after another connection
			c.last = 0
			m.repos = newCache(m.cfg.RepoCount, m.cfg.DirtyCount)
		}
		c.message = append(c.message[:0], frames[i%len(frames)]...)
		if err := c.handle(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	if dropped := h.counts.dropped; len(dropped) > 0 {
		b.Fatalf("dropped %v", dropped)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

// BenchmarkSocket is the same over a WebSocket on this machine, one message a
// frame, 20,000 frames an operation, from the start of a Manager on. The sender
// shares the processors.
func BenchmarkSocket(b *testing.B) {
	frames := traffic(b, 1000, 20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		for _, message := range frames {
			if err := ws.Write(context.Background(), websocket.MessageBinary, message); err != nil {
				return
			}
		}
		_, _, _ = ws.Read(context.Background())
	}))
	defer server.Close()
	b.SetBytes(int64(len(frames) * len(frames[0])))
	b.ReportAllocs()
	for b.Loop() {
		m, p := benchManager(b, strings.Replace(server.URL, "http", "ws", 1))
		if err := m.Start(); err != nil {
			b.Fatal(err)
		}
		await(b, "all frames", func() bool { return m.Stats().Hosts[0].Published == int64(len(frames)) })
		if err := errors.Join(m.Stop(context.Background()), p.Stop(nil, nil)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(frames))/b.Elapsed().Seconds(), "frames/s")
}
