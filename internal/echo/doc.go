// Package echo owns a WebSocket echo server that speaks through the relay's own
// parts: engine/netloop reads and writes, engine/serve does HTTP, the handshake
// and the closing, codec/wsframe the frames. So whoever judges the echo, such as
// a public conformance suite, judges the relay's WebSocket code.
//
// Every path is a WebSocket. A text or binary message comes back as one frame
// of its kind, in order; no message is sent that is not an echo. It knows no
// protocol above that: no hello, no subscription, no token. It is a tool for
// tests and benchmarks and not for a public address.
//
// Thread rule: the methods of Server may be called by any goroutine; a peer
// belongs to its loop.
//
// Byte ownership: messages are borrowed from the reader for the time of a
// callback and copied once into the frame that goes out.
//
// Invariants:
//
//   - E1: a peer that does not read is owed at most OwedBytes and one message.
//     Over that its input waits, at most a quarter of the budget of it, and is
//     gone on with once it has read everything; more closes it with 1013.
//   - E2: what unfinished messages and waiting input of all peers together hold
//     is bounded by the budget, max(64 MiB, 16 messages of the limit).
//   - E3: a peer that takes nothing for 90 s while it is owed bytes is closed.
//     One that is owed nothing may be silent for ever: there are no pings of
//     the server's own, which a judge would have to answer.
//
// Specification: RFC 6455.
package echo
