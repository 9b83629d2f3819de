// Package sse owns the text of server-sent events (WHATWG HTML, section 9.2,
// "Server-sent events"): the blocks that the relay writes, the event ids and
// Last-Event-ID of the aep-0.1 binding, and an incremental decoder for clients.
//
// It does no I/O, knows nothing of HTTP framing and starts no goroutine.
//
// Thread rule: functions are pure. A Decoder belongs to one stream and one
// goroutine at a time.
//
// Byte ownership: arguments are borrowed until return; dst is extended and
// returned as by append. What a Decoder hands to its callback is borrowed until
// the callback returns.
//
// Invariants:
//
//   - E1: whatever the arguments, what an Append function adds is whole blocks
//     of the stream; no text can end its own line or begin a field.
//   - E2: what a Decoder reports does not depend on how the input was cut.
//   - E3: the unfinished line and event that a Decoder holds never exceed
//     MaxLineBytes and MaxEventBytes; its buffers grow with what arrives.
package sse
