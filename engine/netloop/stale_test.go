package netloop

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a log of any goroutine.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A turn that ends connections whose input came in the same round of the
// reactor does not leave it with events of descriptors that are closed.
func TestNoStaleEvents(t *testing.T) {
	log := &lockedBuffer{}
	old := quiet
	quiet = slog.New(slog.NewTextHandler(log, nil))
	defer func() { quiet = old }()
	peers := make(chan *peer, 64)
	gate, in := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{}, with(peers, func(p *peer) {
		p.data = func(_ *peer, b []byte) {
			if b[0] == 'b' {
				close(in)
				<-gate
			}
		}
	}))
	first := s.dial(t)
	keeper := recv(t, "connection", peers)
	var doomed []*peer
	var conns []net.Conn
	for range 20 {
		conns = append(conns, s.dial(t))
		doomed = append(doomed, recv(t, "connection", peers))
	}
	send(t, first, "b")
	recv(t, "input", in)
	// While the loop is held: the doorbell rings, then input comes for all.
	_ = keeper.l.Post(func() {
		for _, p := range doomed {
			p.Close()
		}
	})
	for _, c := range conns {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}
	close(gate)
	for _, p := range doomed {
		recv(t, "close", p.closed)
	}
	// What came behind the last close has been looked at once this has run.
	done := make(chan struct{})
	_ = keeper.l.Post(func() { close(done) })
	recv(t, "a further turn", done)
	if text := log.String(); strings.Contains(text, "stale connection") {
		t.Errorf("%d warnings, the first: %.200s", strings.Count(text, "stale connection"), text)
	}
}
