// Package session owns the session buffers: per session the last events, in
// the order of their sequences, for consumers that resume. It is the step
// between admitting an event and appending it to the log.
//
// It knows no protocol: a session is a string, an event is a stream.Entry with
// a Sequence, and two events are the same when their opaque 16-byte keys are.
// It does no I/O, starts no goroutine and calls nothing of a protocol.
//
// Specification: the relay contract, sections 7 (R160 to R175) and 8 (R190,
// R192, R193), R423 for a replay that trimming overtakes, R470, R471 and R473
// for what things cost.
//
// Thread rule: every method of Buffers may be called by any goroutine. A Replay
// is a value that belongs to one reader.
//
// Locks, in this order, and no more than three at a time:
//
//	Buffers.evict -> shard.mu -> log | record.mu
//
// The last two are never held together. A new session is made, and an old one
// dropped, only with evict held; all else needs one shard's lock.
//
// Invariants:
//
//   - B1: an entry is appended to the log and put into its buffer under one
//     hold of its shard's lock. So a reader that read H = log.Next() and then
//     reads the buffers sees every held entry with Pos < H.
//   - B2: a buffer is ordered by (Sequence, Pos), strictly ascending.
//   - B3: a buffer loses its lowest entry only, or all of them. So while an
//     entry is held, no entry above it has been lost.
//   - B4: the keys of a buffer are exactly those of the entries it holds.
//   - B5: at no moment are there more than Config.Sessions sessions, nor a
//     session with more than Config.EventsPerSession entries.
//   - B6: a session's recency is the Pos of what was last written to it, so
//     recency is ingest order, exact across the shards.
package session
