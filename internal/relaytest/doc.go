// Package relaytest holds clients that test a relay from outside: over TCP,
// with the bytes that a real peer sends, and by nothing else.
//
// It owns:
//
//   - Conn: a raw TCP connection with a parser for HTTP/1 answers that is as
//     strict as a suspicious client. Any bytes can be sent, a receive buffer
//     can be made small, a connection can be reset.
//   - Stream: a client for text/event-stream that keeps blocks in order with
//     their raw text, and tells a clean end from a torn one.
//   - WS: a WebSocket client that can also break every rule of RFC 6455.
//   - Event: a builder of valid AEP envelopes.
//   - ControlTarget: the cooperating target of AEP commands, which claims a
//     session, declares what it accepts, dedupes on (source, id) and repeats
//     its recorded acknowledgement on a retry.
//
// It never imports a server package of this module, so that a fault cannot
// hide by being on both sides, and never imports testing: clients return
// errors, tests judge them.
//
// Thread rule: each client is used by one goroutine at a time, ControlTarget
// excepted, which may be used from any goroutine. Reads happen only inside a
// call that reads, so a client that is left alone is a stalled reader. Every
// read has a timeout, and a timeout loses no bytes: the call can be repeated.
//
// Specifications: RFC 9112 (HTTP/1.1), RFC 6455 (WebSocket), the HTML
// standard's section on server-sent events, AEP 0.1.
package relaytest
