// Package aep is the behaviour of the AEP relay: its routes, what it takes in,
// and what it tells consumers and emitters over SSE and WebSocket. The pure
// parts (envelope, filters, down-leveling, frames) are codec/aep.
//
// Surface is one relay's state: session buffers and log (the engine's), the
// claims, the sockets that said hello. A socket, an eventStream and a body are
// what one connection or request adds; each belongs to its loop and is called
// on it only. Two structures are shared between loops: the claims, sharded by
// session and locked, and the registry of sockets. A command for a socket of
// another loop travels as mail of that loop.
//
// The way in is one call, Surface.ingest, between admitting an event and
// appending it. Ingest waits for loops that are half a window behind
// (hasRoom), and never for a consumer (R425).
//
// The contract is AEP 0.1; rules are cited as R<n>.
package aep
