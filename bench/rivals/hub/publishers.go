package hub

import (
	"errors"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/gobwas/ws"

	"github.com/sluice-relay/sluice/bench/rivals/intake"
)

var errClosed = errors.New("hub is closed")

// publishers serves GET /pub over gobwas, for the hubs whose library has no
// publishing of its own that fits. Any goroutine.
type publishers struct {
	// immutable after construction
	sink intake.Sink

	// guarded by mu
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func newPublishers(sink intake.Sink) *publishers {
	return &publishers{sink: sink, conns: make(map[net.Conn]struct{})}
}

// ServeHTTP reads a publisher's connection to its end.
func (p *publishers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, rw, _, err := ws.UpgradeHTTP(r, w)
	if conn != nil {
		defer func() { _ = conn.Close() }()
	}
	if err != nil || !p.track(conn) {
		return
	}
	defer p.forget(conn)
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
	if err := intake.ServePublisher(conn, buffered, r.URL.Query().Has("topics"), p.sink); err != nil {
		log.Printf("publisher: %v", err)
	}
}

func (p *publishers) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return !p.closed
}

func (p *publishers) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// close ends all publishers and lets no other in.
func (p *publishers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
}
