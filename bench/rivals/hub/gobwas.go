package hub

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gobwas/ws"

	"github.com/sluice-relay/sluice/bench/rivals/intake"
)

const (
	// queueFrames is how many frames wait for one consumer; then the hub waits.
	queueFrames = 256
	// maxVector is how many frames one writev(2) takes.
	maxVector = 64
)

// frame is one event, encoded once. Shared, immutable.
type frame struct{ bytes []byte }

// Gobwas is a hub with two goroutines a connection over net/http and
// github.com/gobwas/ws: one reads, one writes what its channel brings, joined.
// Any goroutine.
type Gobwas struct {
	// immutable after construction
	mux        *http.ServeMux
	publishers *publishers
	consumers  registry[*gobwasConsumer]

	// atomic
	closed atomic.Bool
}

// gobwasConsumer is one consumer.
type gobwasConsumer struct {
	// immutable after construction
	conn  net.Conn
	queue chan *frame
	gone  chan struct{} // closed by leave
	leave func()
}

// NewGobwas makes the hub.
func NewGobwas() *Gobwas {
	h := &Gobwas{mux: http.NewServeMux()}
	h.publishers = newPublishers(h)
	h.mux.HandleFunc("GET /ws", h.consume)
	h.mux.Handle("GET /pub", h.publishers)
	h.mux.Handle("POST /events", intake.NewIngest(h))
	return h
}

// ServeHTTP answers /ws, /pub and /events.
func (h *Gobwas) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close disconnects all.
func (h *Gobwas) Close() {
	h.closed.Store(true)
	h.publishers.close()
	for _, c := range h.consumers.all() {
		c.leave()
	}
}

// Publish encodes each event once and puts it in the queue of each consumer of
// its topic. It waits for a consumer whose queue is full.
func (h *Gobwas) Publish(batch []intake.Event) {
	h.consumers.mu.RLock()
	defer h.consumers.mu.RUnlock()
	for i := range batch {
		if !h.consumers.wantedLocked(batch[i].Topic) {
			continue
		}
		f := &frame{bytes: intake.TextFrame(batch[i].Payload)}
		h.consumers.eachLocked(batch[i].Topic, func(c *gobwasConsumer) { c.put(f) })
	}
}

// put queues a frame.
func (c *gobwasConsumer) put(f *frame) {
	select {
	case c.queue <- f:
	default:
		select {
		case c.queue <- f:
		case <-c.gone:
		}
	}
}

// consume upgrades a consumer and starts its goroutines. The handler returns,
// so that net/http frees what belongs to the request.
func (h *Gobwas) consume(w http.ResponseWriter, r *http.Request) {
	e, err := h.consumers.join(r.URL.Query().Get("topic"), func() (*gobwasConsumer, error) {
		conn, _, _, err := ws.UpgradeHTTP(r, w)
		if err == nil && h.closed.Load() {
			err = errClosed
		}
		if err != nil {
			if conn != nil {
				_ = conn.Close()
			}
			return nil, err
		}
		c := &gobwasConsumer{
			conn:  conn,
			queue: make(chan *frame, queueFrames),
			gone:  make(chan struct{}),
		}
		c.leave = sync.OnceFunc(func() {
			close(c.gone) // first: the hub may wait for this consumer's queue
			_ = c.conn.Close()
		})
		return c, nil
	})
	if err != nil {
		return
	}
	go e.consumer.write()
	go func() {
		_ = readClient(e.consumer.conn, func([]byte) bool { return true })
		e.consumer.leave()
		h.consumers.leave(e)
	}()
}

// write writes the frames of the queue, as many as wait in one writev(2).
func (c *gobwasConsumer) write() {
	defer c.leave()
	var vector net.Buffers
	for {
		select {
		case f := <-c.queue:
			vector = append(vector[:0], f.bytes)
		case <-c.gone:
			return
		}
	drain:
		for len(vector) < maxVector {
			select {
			case f := <-c.queue:
				vector = append(vector, f.bytes)
			default:
				break drain
			}
		}
		if !c.send(vector) {
			return
		}
	}
}

// send writes frames; the vector's place is free for others afterwards.
func (c *gobwasConsumer) send(vector net.Buffers) bool {
	var err error
	if len(vector) == 1 {
		_, err = c.conn.Write(vector[0])
	} else {
		rest := vector // WriteTo takes its slices away one by one
		_, err = rest.WriteTo(c.conn)
	}
	clear(vector)
	return err == nil
}
