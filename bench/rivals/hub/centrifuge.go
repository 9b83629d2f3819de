package hub

import (
	"bytes"
	"context"
	"log"
	"net/http"
	"time"

	"github.com/centrifugal/centrifuge"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-relay/sluice/bench/rivals/intake"
)

const (
	// allChannel is the channel of all events.
	allChannel = "all"
	// topicPrefix stands before a topic in the name of its channel.
	topicPrefix = "s:"
	// maxQueueBytes is what may wait for one consumer. The library's own bound,
	// 1 MiB, would disconnect consumers in the saturating scenarios.
	maxQueueBytes = 1 << 30
	// joinedDelay is how long the joined hub collects pushes for a consumer: the
	// example of the library's documentation. With 5 to 50 ms it delivered less,
	// saturated, and used more CPU for it.
	joinedDelay = 100 * time.Millisecond
	// shutdownTime is how long consumers have for the closing handshake.
	shutdownTime = time.Second
)

// noPings: the bench protocol's consumers send nothing.
var noPings = centrifuge.PingPongConfig{PingInterval: -1, PongTimeout: -1}

// CentrifugeConfig says how pushes are put into frames.
type CentrifugeConfig struct {
	// Joined collects pushes for joinedDelay and writes them in one write, over
	// a transport of ours. Else each push is written at once, by the library's
	// own WebSocket handler.
	Joined bool
}

// Centrifuge is the library github.com/centrifugal/centrifuge as a hub: its
// node, memory broker, clients and (unless joined) WebSocket handler. Any
// goroutine.
type Centrifuge struct {
	// immutable after construction
	mux        *http.ServeMux
	node       *centrifuge.Node
	publishers *publishers
}

// NewCentrifuge makes the hub and starts the node.
func NewCentrifuge(c CentrifugeConfig) (*Centrifuge, error) {
	node, err := centrifuge.New(centrifuge.Config{
		ClientQueueMaxSize: maxQueueBytes,
		Metrics:            centrifuge.MetricsConfig{RegistererGatherer: prometheus.NewRegistry()},
	})
	if err != nil {
		return nil, err
	}
	reply := centrifuge.ConnectReply{MaxMessagesInFrame: 1}
	if c.Joined {
		reply.MaxMessagesInFrame, reply.WriteDelay, reply.WriteWithTimer = -1, joinedDelay, true
	}
	reply.Credentials = &centrifuge.Credentials{UserID: ""}
	node.OnConnecting(func(context.Context, centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		return reply, nil
	})
	node.OnConnect(func(client *centrifuge.Client) {
		client.OnSubscribe(func(_ centrifuge.SubscribeEvent, cb centrifuge.SubscribeCallback) {
			cb(centrifuge.SubscribeReply{}, nil)
		})
	})
	if err := node.Run(); err != nil {
		return nil, err
	}
	h := &Centrifuge{mux: http.NewServeMux(), node: node}
	h.publishers = newPublishers(h)
	if c.Joined {
		h.mux.HandleFunc("GET /ws", h.consumeJoined)
	} else {
		h.mux.Handle("GET /ws", centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{
			UseWriteBufferPool:         true,
			ProcessCommandsOffReadLoop: true,
			WriteTimeout:               -1, // none: nobody is disconnected as slow
			PingPongConfig:             noPings,
		}))
	}
	h.mux.Handle("GET /pub", h.publishers)
	h.mux.Handle("POST /events", intake.NewIngest(h))
	return h, nil
}

// ServeHTTP answers /ws, /pub and /events.
func (h *Centrifuge) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close disconnects all and stops the node.
func (h *Centrifuge) Close() {
	h.publishers.close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	_ = h.node.Shutdown(ctx)
}

// Publish publishes each event on the channel of all, if it has subscribers or
// the event has no topic, and on its topic's channel.
func (h *Centrifuge) Publish(batch []intake.Event) {
	for i := range batch {
		// The node's queues refer to the data until the last write.
		data := bytes.Clone(batch[i].Payload)
		topic := batch[i].Topic
		if topic == "" || h.node.Hub().NumSubscribers(allChannel) > 0 {
			h.publish(allChannel, data)
		}
		if topic != "" {
			h.publish(topicPrefix+topic, data)
		}
	}
}

func (h *Centrifuge) publish(channel string, data []byte) {
	if _, err := h.node.Publish(channel, data); err != nil {
		log.Printf("centrifuge: publish: %v", err)
	}
}
