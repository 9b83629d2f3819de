// Package follow reads a relay's events for as long as one likes: over SSE or
// WebSocket, through cuts of the connection and restarts of the relay and of
// the reader itself.
//
// It owns the connection, the positions from which it resumes, what it
// remembers of the events it has handed on, and the state file. It never
// prints: events, and everything that a reader should know besides (gaps, shed
// events, restarts), go to a Sink.
//
// How nothing is missed and nothing comes twice:
//
//   - For each session the position is kept up to which everything has been
//     seen, and the few events seen above it. From there a connection resumes
//     (R165). A filter on more than sessions hides which numbers are missing;
//     then the position lags the newest event by a few.
//   - The first event of a session may have overtaken others. Where these are
//     owed, the position begins before the epoch's first event.
//   - Of such a position, and of everything, the relay does not say what is gone
//     (R168, R171). The reader does if the first event that comes tells so.
//   - Events are told apart by (source, id). The newest of those, and all that
//     lie above a session's position, are remembered, so that what comes again
//     is not handed on again.
//   - More positions than fit into one request are asked for in requests of
//     their own with live=0, beside the live connection. Live events of these
//     sessions wait meanwhile.
//   - A session that began while there was no connection has no position. One
//     more request with from=all and live=0 (R171) finds it. Of sessions that
//     were silent since before the reader began, it shows what the events' own
//     time puts after the loss of the connection, unless everything is wanted.
//   - A new boot id (R55) tells that the relay has forgotten what it held, and
//     that positions mean nothing to it: everything of their sessions is asked
//     for, and known again by its identity.
//
// All memory is bounded: events remembered, sessions with a position, events
// that wait, the length of an event, and what a search for sessions may read.
// A bound that is reached and costs something is told.
//
// Thread rule: Follow runs in the caller's goroutine and calls the Sink only
// from there. It has goroutines for reading, which have ended when it returns.
//
// Invariants:
//
//   - F1: an event is handed to the Sink before its position is advanced, and
//     the Sink is flushed before a position is written to the state file.
//   - F2: a position never passes an event of its session that may still come,
//     but for the bound of events above it.
//   - F3: of the events that wait at the end of a connection none is dropped:
//     they are handed on, and their positions stay behind. At the reader's end
//     those are left to the next one that a state file tells a position of.
//
// Specification: the AEP 0.1 relay contract, sections 7, 8, 11, 12 and 15.
package follow
