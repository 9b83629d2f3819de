// Package repos is a consumer and a publisher of the repository event stream
// (com.atproto.sync.subscribeRepos): it follows a stream through cuts of the
// connection and restarts of either side, and posts frames to a relay.
//
// Follow owns the connection, the cursor from which it resumes and the cursor
// file. It never prints: frames and notices go to a Sink. Line makes a frame
// readable, Splitter and Lines take the frames of a file apart, Publish posts
// them.
//
// How nothing is missed and nothing comes twice: the cursor is the number of
// the last frame that was handed on, and a connection resumes behind it (F24).
// A frame whose number is not above the last one of its connection is left out
// and told (F60). After an #info OutdatedCursor the numbers may begin anew,
// since a relay that lost its state sends all that it holds (F26). A frame that
// cannot be read is told and passed over; one that was cut with the connection
// comes again.
//
// A publish is not repeated if the relay may have taken it: only an answer that
// says that nothing was taken (503, 429) and a connection that was never made
// are tried again.
//
// All memory is bounded: one frame and its copy, what waits between connection
// and Sink (batchBytes and a frame), what is read of an answer, the notices
// about bad frames.
//
// Thread rule: Follow and Publish run in the caller's goroutine and call Sink
// and functions only from there. Their goroutines have ended when Follow
// returns; Publish's ends with the call of its reader's Read that is under way.
// A Splitter and a Lines belong to one goroutine.
//
// Invariants:
//
//   - T1: a number is written to the cursor file only after the Sink was
//     flushed with its frame in it.
//   - T2: the cursor never passes a frame that may still come.
//   - T3: no byte of a frame reaches a notice, an error or a line unescaped.
//
// Rules are cited as F1 to F71 of the stream's contract.
package repos
