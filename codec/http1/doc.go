// Package http1 owns HTTP/1.1 and HTTP/1.0 on the wire: an incremental, strict
// request parser, the heads and chunks of responses, and the reading of query
// strings as HTML form data.
//
// It does no I/O, starts no goroutine, knows no route and keeps no body: input
// is fed in, steps come out, and body bytes are handed on as slices of the
// input. It imports no other package of the relay and is the only home of
// fasthttp.
//
// How a request is read:
//
//   - The end of the head is found by a scan that resumes where it stopped, so
//     the cost is linear however the bytes arrive. Parsing from the start on
//     each read was tried and is quadratic: 16 MiB in reads of 16 KiB took 9.5 s
//     against 14 ms.
//   - The complete head is checked strictly on its raw bytes: line ends, names,
//     values, target, Host and framing. fasthttp alone takes a length together
//     with chunked coding, bare LF, folded lines and HTTP/2.0.
//   - fasthttp then reads exactly the same block once. A head on which the two
//     readings differ is refused, because some proxy may differ as well.
//   - The body is a state machine: fixed length, or chunked with extensions
//     checked and dropped and trailers checked and dropped.
//
// Thread rule: a Parser and the Scratch it is fed with belong to one loop.
// Everything else is a pure function and may be called by any goroutine.
//
// Invariants:
//
//   - H1: the steps, the concatenated body, and the error do not depend on how
//     the input was split into calls.
//   - H2: a Parser holds memory only between the first byte of a head and its
//     last, at most HeadBytes of content; nothing is allocated from a size that
//     the peer declared.
//   - H3: after an error every call returns the same error: nothing that
//     follows a request of doubtful framing is ever read as a request.
//   - H4: no response head holds a CR or LF that came from a field value.
//
// Specifications: RFC 9112 (messages), RFC 9110 (fields, Expect, Upgrade), RFC
// 3986 (authority), WHATWG URL (form data), and rules R32 to R34, R47, R48, R76
// and R300 of the relay's contract.
package http1
