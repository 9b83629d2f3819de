package hub

import (
	"bytes"
	"net/http"
	"sync/atomic"

	"github.com/lxzan/gws"

	"github.com/sluice-relay/sluice/bench/rivals/intake"
)

// Gws is a hub over github.com/lxzan/gws with its Broadcaster: one goroutine a
// connection reads, and one writes while there is something to write. Any
// goroutine.
type Gws struct {
	// immutable after construction
	mux       *http.ServeMux
	consume   *gws.Upgrader
	publish   *gws.Upgrader
	consumers registry[*gws.Conn]
	sources   registry[*gws.Conn]

	// atomic
	closed atomic.Bool
}

// NewGws makes the hub.
func NewGws() *Gws {
	h := &Gws{mux: http.NewServeMux()}
	// Parallel reading stays off, which would change the order of events.
	option := func() *gws.ServerOption {
		return &gws.ServerOption{
			Recovery:          gws.Recovery,
			PermessageDeflate: gws.PermessageDeflate{Enabled: false},
		}
	}
	h.consume = gws.NewUpgrader(gwsEvents{list: &h.consumers}, option())
	h.publish = gws.NewUpgrader(gwsEvents{list: &h.sources, sink: h}, option())
	h.mux.HandleFunc("GET /ws", func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, &h.consumers, h.consume, r.URL.Query().Get("topic"))
	})
	h.mux.HandleFunc("GET /pub", func(w http.ResponseWriter, r *http.Request) {
		topics := ""
		if r.URL.Query().Has("topics") {
			topics = withTopics
		}
		h.serve(w, r, &h.sources, h.publish, topics)
	})
	h.mux.Handle("POST /events", intake.NewIngest(h))
	return h
}

// withTopics is the registry's topic of publishers whose events have topics.
const withTopics = "topics"

// entryKey is where a connection's session storage has its registry entry.
const entryKey = "entry"

// ServeHTTP answers /ws, /pub and /events.
func (h *Gws) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close disconnects all.
func (h *Gws) Close() {
	h.closed.Store(true)
	for _, c := range append(h.sources.all(), h.consumers.all()...) {
		_ = c.NetConn().Close()
	}
}

// serve upgrades a connection, lists it and starts its reading, in a goroutine
// of its own as the library's documentation advises.
func (h *Gws) serve(w http.ResponseWriter, r *http.Request, list *registry[*gws.Conn],
	upgrader *gws.Upgrader, topic string,
) {
	e, err := list.join(topic, func() (*gws.Conn, error) {
		if h.closed.Load() {
			return nil, errClosed
		}
		return upgrader.Upgrade(w, r)
	})
	if err != nil {
		return
	}
	e.consumer.Session().Store(entryKey, e)
	go e.consumer.ReadLoop()
}

// Publish gives each event to a Broadcaster, which encodes it once and queues
// it at each connection. The queues have no bound.
func (h *Gws) Publish(batch []intake.Event) {
	h.consumers.mu.RLock()
	defer h.consumers.mu.RUnlock()
	for i := range batch {
		if !h.consumers.wantedLocked(batch[i].Topic) {
			continue
		}
		// The library refers to the payload until the last write.
		b := gws.NewBroadcaster(gws.OpcodeText, bytes.Clone(batch[i].Payload))
		h.consumers.eachLocked(batch[i].Topic, func(c *gws.Conn) { _ = b.Broadcast(c) })
		_ = b.Close()
	}
}

// gwsEvents handles the events of consumers and, with a sink, of publishers.
type gwsEvents struct {
	gws.BuiltinEventHandler
	list *registry[*gws.Conn]
	sink intake.Sink
}

// OnClose takes the connection off its list.
func (e gwsEvents) OnClose(c *gws.Conn, _ error) {
	if v, ok := c.Session().Load(entryKey); ok {
		e.list.leave(v.(*entry[*gws.Conn]))
	}
}

// OnMessage publishes a publisher's message; a consumer's is of no interest.
func (e gwsEvents) OnMessage(c *gws.Conn, m *gws.Message) {
	defer func() { _ = m.Close() }()
	if e.sink == nil {
		return
	}
	event := intake.Event{Payload: m.Bytes()}
	if v, ok := c.Session().Load(entryKey); ok && v.(*entry[*gws.Conn]).topic == withTopics {
		event.Topic = intake.Topic(event.Payload)
	}
	e.sink.Publish([]intake.Event{event})
}
