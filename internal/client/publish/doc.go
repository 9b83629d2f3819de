// Package publish sends events to a relay: lines of JSON by HTTP or over a
// WebSocket, and single commands to agents.
//
// It owns the cutting of a stream of lines into batches, the sending of each
// batch until it is known to be in, and the reading of what a relay says about
// the lines that it refuses. It never looks into an event that is sent by HTTP:
// the relay alone judges it. What is sent over a WebSocket is looked at so far
// that no line can be a frame.
//
// How a batch is sent by HTTP: one request at a time over one connection, so
// that events keep their order (R79), while the next batch is being read. A
// request without an answer, or with one that says "later", is sent again with
// the same bytes. It may have been taken in already; that is harmless, since
// the relay dedupes on the pair of source and id in each session (R161), and
// live subscribers, which may see an event twice, do so too (R190). A batch is
// refused as a whole (R71) and the answer names the first bad line, so the
// lines before it are sent, it is reported and left out, and the rest follows.
//
// How it is sent over a WebSocket: an event has no answer there, but messages
// of one connection take effect in the order sent and replies keep that order
// (R309, R329). So a ping behind the batch is the barrier: its pong tells that
// each event before it was taken or refused, and the errors that came before
// the pong are about them. What no pong has covered is sent again on the next
// connection.
//
// Thread rule: Run and Command may be called from any goroutine; the callbacks
// of one call come one at a time.
//
// Invariants:
//
//   - P1: a batch is given up only with an error, and counted as in only after
//     a 202 or a pong.
//   - P2: lines of one input are sent in the order read, and a bounded number of
//     batches is held: two by HTTP, four by WebSocket.
//   - P3: a line is refused once, and everything else of its batch still sent.
//
// Rule numbers are those of the relay's wire contract.
package publish
