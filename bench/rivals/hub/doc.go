// Package hub has the rivals that stand for how event hubs are written in Go:
// goroutines of a connection over net/http, with three WebSocket stacks.
//
// It owns the lists of consumers and each rival's way from a publisher to them;
// the events come by package intake. The libraries own their connections.
//
// Thread rule: the hubs' methods may be called by any goroutine.
//
// Invariants:
//
//   - H1: a consumer that was answered (101, or the subscribe reply in the
//     protocol of centrifuge) gets every event published later.
//   - H2: a consumer gets the events of one publisher in order, each as it was
//     published, or is disconnected; none is dropped.
//   - H3: what waits for a slow consumer is bounded where the library lets it:
//     queueFrames for gobwas, after which the hub waits, and maxQueueBytes for
//     centrifuge, after which the consumer is disconnected. gws has no bound.
//
// Specification: RFC 6455; the bench protocol in the module's README.md.
package hub
