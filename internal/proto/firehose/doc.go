// Package firehose is the pure part of the repository event stream
// (com.atproto.sync.subscribeRepos): numbers that survive restarts, and the
// producer that holds commits until their log is synced and then gives each
// frame its number.
//
// It knows nothing of a frame but its kind and how to ask for its bytes. Where
// the records of the numbers are kept is behind Marks; where the frames are
// kept is engine/stream.
//
// Thread rule: every method may be called by any goroutine. Lock order:
// producer, numbers, ring. Join and Phase may be called on a loop, because
// they take no lock that is held during I/O. Numbers are reserved ahead by a
// goroutine of the Numbers, and the producer has one that syncs the log while
// something is held; both have ended when Stop or Close returns.
//
// Invariants:
//
//   - N1: a number is used only when a durable record says that it is taken
//     and no clean mark stands (F25, F28).
//   - N2: numbers ascend; a failed publish uses none.
//   - P1: frames leave in the order in which their calls entered (F44, F51).
//   - P2: a commit's frame is published only when the log is synced through
//     the commit's position (F43).
//
// The contract's rules are cited as F<n>.
package firehose
