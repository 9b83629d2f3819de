// Package agent is a subscriber and a publisher of the aep-0.1 WebSocket
// binding: it follows a subscription through cuts of the connection and
// restarts of either side, and publishes lines of JSON until each is
// acknowledged.
//
// Follow owns the session, the cursor from which it resumes, the cursor file
// and the acknowledgements. It never prints: events and notices go to a Sink.
// Line makes an event readable. Publish owns the window of events that are not
// acknowledged yet.
//
// How nothing is missed and nothing comes twice: the cursor is that of the last
// event that was handed on, and a connection resumes behind it (B51). An event
// whose number is not above the last one is left out: it is one that the relay
// sends again because its acknowledgement came late (B58), and it is
// acknowledged again. When the relay says that it does not know the cursor, its
// log may be another one, whose numbers begin anew: then events may come twice.
//
// How a publish is safe: what was not acknowledged when a connection ended is
// sent again with the same id, source, type and payload, in its old order; the
// relay knows it again (B56). Two lines of one id are never under way together,
// since an answer names the id alone. A line of mode best_effort has no
// acknowledgement (B55): it is sent once.
//
// All memory is bounded: one message, what waits between connection and taker
// (maxWaitingBytes and a message), one line of the input, the window of
// unacknowledged lines, what is read of an answer.
//
// Thread rule: Follow and Publish run in the caller's goroutine and call Sink
// and functions only from there. Their goroutines have ended when they return,
// but that which reads Publish's input: it ends with the call of Read that is
// under way.
//
// Invariants:
//
//   - G1: an event is acknowledged, and its cursor written to the file, only
//     after the Sink was flushed with it.
//   - G2: the cursor never passes an event that may still come.
//   - G3: no byte of a message reaches a notice, an error or a line unescaped.
//   - G4: a line is counted as acknowledged only after its event.acknowledged,
//     and each line is counted once.
//
// Rules are cited as B1 to B64 of the binding's contract.
package agent
