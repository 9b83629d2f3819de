// Package firehose owns the frames of the repository event stream
// (com.atproto.sync.subscribeRepos): it writes them, checks what a producer
// hands in, reads what other hosts send, gives a frame that was read a new
// number, and checks the structure of commits. It is pure: bytes in, bytes
// out. It knows no connection, no log and no account.
//
// Commit, Sync, Identity and Account are messages to publish: Check holds them
// to F14, Append writes the frame. A Scanner reads a message into a Frame,
// which lends its fields and keeps all of them, unknown ones too; its Append
// writes the same frame with another number (F61). Scanner.Verify is the
// structure check of F66, which needs the CAR reader.
//
// A refused message has a ScanError, which says if the connection is to be
// dropped or the frame to be skipped. A skipped frame has its number in
// Frame.Seq where one could be read, so that its host's cursor can pass it.
//
// What the contract leaves open is decided here so:
//
//   - A message whose header has no op, or an op that is no integer, is bad
//     framing. A t that is no text counts as a missing one.
//   - Of the required fields, a frame from another host is skipped without
//     those that the relay works with: seq; repo or did; rev of #commit and
//     #sync; active of #account; name of #info; error of an error. repo, did
//     and rev are held to their syntax. Other missing fields, times and names
//     are passed on as they came: the consumer decides.
//   - Null is a wrong type but where F14 allows it. Unknown fields have any
//     value.
//   - rebase and tooBig may be true, and blobs may have links, when a producer
//     hands in such a frame: they are deprecated and legal.
//   - A body with more than dagcbor.MaxFields fields is skipped.
//   - A block of a commit is canonical: keys out of order are refused there,
//     because a consumer that encodes it again gets another hash. In the header
//     of a CAR they are let pass. A #sync may carry more than the commit.
//
// Thread rule: a Scanner belongs to one goroutine at a time. A Frame, once
// scanned, may be handed to another goroutine with its message; its methods
// but SetAccount only read. Everything else is pure.
//
// Invariants:
//
//   - H1: a message is never modified, and a Frame borrows it until it is
//     scanned into again.
//   - H2: what Append writes is canonical (F10) and has its fields in the order
//     of F14, whatever the order of the input.
//   - H3: a Frame that is appended with a number and scanned again has the same
//     fields and that number.
//
// Rules are cited as F8 to F71 of the stream's contract.
package firehose
