// Package firehoseload measures the repository event stream: what a delivery
// costs beside the floor of bare write(2) calls, what consumers that stall cost
// the others, and how fast another host's stream is taken in.
//
// The relay, the floor and the host whose stream is taken run in processes of
// their own. What is compared is measured in one run, in turns, and each figure
// is the median of the rounds. All frames have the same length, so that each
// consumer's frames are checked while they are read: length, number and bytes.
//
// Thread rule: Run, Floor and Source use goroutines of their own and return when
// these have ended. The types belong to one goroutine.
//
// Invariants:
//
//   - B1: a consumer's frames have the numbers first, first+1, ... without a
//     gap, or the run fails. No figure comes from a run that lost a frame.
//   - B2: the floor makes the writes that it is told to, and nothing else while
//     it is measured: a write of all bytes of a blob to each consumer.
//
// Rules are cited as F1 to F71 of the stream's contract.
package firehoseload
