// Package stream owns the log: an append-only sequence of entries with dense
// positions and bounded retention, and the entry itself, one event with a
// position and the bytes that go to the wires. It owns the ring too: the log of
// a protocol whose frames carry a number of their own, which keeps a frame past
// its bounds while an open stream has yet to send it.
//
// It knows no protocol: an event is opaque and only says how it is indexed and
// how its frames are built. It does no I/O and starts no goroutine.
//
// Thread rule: appending takes the log's mutex, or the ring's, and so does joining
// a ring; reading takes none. Entries and
// frames belong to nobody: they are immutable once appended and the collector
// frees them.
//
// Invariants:
//
//   - S1: positions are dense and never reused within a run; oldest <= next.
//   - S3: a frame's bytes never change after append.
package stream
