// Package intake is how events come into a rival: by a publisher's WebSocket
// connection or by NDJSON bodies over HTTP. All rivals share it, so that they
// differ in their fan-out only.
//
// It owns the reading of a publisher's frames, the splitting and decoding of
// NDJSON bodies and the histories in which duplicates are found. It never
// writes to a consumer: what it read goes to the rival's [Sink].
//
// Thread rule: [ServePublisher] runs on the goroutine of its connection, an
// [Ingest] handler on the goroutines of its requests. A Sink is therefore
// called by any number of goroutines at once.
//
// Invariants:
//
//   - I1: events of one publisher connection, and of one body, reach the sink
//     in their order.
//   - I2: a body is either admitted whole or refused whole.
//   - I3: memory is bounded: maxMessageBytes a message, maxBodyBytes a body,
//     maxHistory keys a session, maxSessions sessions.
//
// Specification: RFC 6455, section 5 (frames); the bench protocol in the
// module's README.md.
package intake
