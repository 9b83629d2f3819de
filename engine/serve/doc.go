// Package serve owns what a connection speaks: HTTP/1.1 and HTTP/1.0 with
// pipelining, SSE streams, and WebSocket, on top of a loop.Transport. It turns
// input into exchanges and messages for a Handler, and output of the fan-out
// core into a connection's one sequence of whole frames.
//
// It knows no protocol and no route, opens no socket, starts no goroutine of
// its own and keeps no body: octets are handed on as they come. Output is owed
// by fanout.Output, never copied per connection.
//
// How a connection lives, by phase:
//
//	HTTP -> Stream -> HTTP | Flush     HTTP -> Socket -> Flush
//	Flush (nothing more is read) -> Linger (FIN is out) -> Gone
//
// A connection that is to be closed first gets out what it is owed, then a FIN,
// and its input is dropped for a short time, so that the peer can read the
// answer before a reset could overtake it (R76).
//
// Thread rule: a Worker, its connections, exchanges and peers belong to one
// loop; every method is loop only unless it says otherwise. Budget may be used
// by any goroutine. Work that may block goes through Exchange.Go; its result is
// dropped when the exchange is over by then.
//
// Byte ownership: input is borrowed until return, and so are the slices that
// handlers get. Frames handed to a Peer are shared and must not change.
//
// Invariants:
//
//   - C1: answers leave in request order; one exchange is under way at a time,
//     and what follows it waits, at most HeldBytes and HeldRequests (R49).
//   - C2: what a request or a message comes to does not depend on how the input
//     was cut.
//   - C3: each request is answered once at most. After input of doubtful
//     framing nothing is read as a request any more.
//   - C4: Body.Done, StreamHandler.OnClose and the release of a lent body are
//     called exactly once for each body and peer, and whatever was reserved of
//     the Budget for the connection is given back, at the latest when the
//     connection closes (R46, R334).
//   - C5: a panic in a handler ends that handler's connection and is counted;
//     no other connection notices (R14). In Done and OnClose it is only counted.
//   - C6: wherever the connection waits for its peer a deadline runs: for a
//     head from its first octet (R47), for a body by its rate, for output by
//     its progress (R424), for a close by patience (R428, R462). It waits for
//     its handler without one.
//   - C7: a connection at rest holds no buffer, and nothing that it does not
//     need until its next input: 0.2 KB, with a peer 0.4 KB.
//
// Specifications: RFC 9110 (Expect, Upgrade), RFC 9112 (keep-alive, pipelining,
// closing), RFC 6455 (handshake, control frames, closing), and rules R30 to
// R49, R76, R271, R300 to R303, R329 to R334, R420 to R430 and R460 to R464 of
// the relay's contract.
package serve
