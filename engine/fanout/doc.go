// Package fanout moves entries of the log to the connections of one loop, in
// batches. It owns members, groups, the selector index, lag and replay, and each
// connection's one output order. It knows no protocol and no reactor: selectors
// and frames come through interfaces, sockets are a loop.Transport.
//
// A Set is the state of one loop. It reads the log in passes from its cursor:
// the index finds the groups that an entry touches, each touched group gets one
// batch, and the same bytes are written to each of its members. A Member is one
// connection:
//
//	Idle -> CatchUp -> Live -> CatchUp -> ... -> Ended
//
// In CatchUp it replays from the session buffers and reads the log on its own,
// a window at a time and only as fast as its socket takes it, until it stands
// where the loop stands; then it joins the group of its subscription list. Every
// change of its subscriptions takes it out of there again. A live member whose
// socket does not take everything lags: it keeps its place in the batch and
// queues references to what it misses.
//
// Replay and live are divided by one position H, read when a subscription is
// registered: what the buffers hold below H is replayed, what the log holds from
// H on is live (R192). An Output is a sequence of whole frames: replies, urgent
// frames and the last frame go in between frames. Replies keep their own order.
//
// Doorbell: a set becomes active before it reads H, and the loop clears its
// pending flag before it reads the log's next position. So an append that is not
// in the replay sees the set active and rings.
//
// Thread rule: everything is loop only, except Set.Active and Set.Reached.
// Selectors and events are asked on the loop. A panic of theirs ends the members
// of the group it happened in, and no others.
//
// Specification: the relay contract, sections 8, 12.4 (R324 to R329) and 15.
//
// Invariants:
//
//   - S2: what a subscription is delivered is strictly increasing, replay in
//     session order and live in ingest order, each selected entry once, or a
//     gap, shed events, or a cut is reported. A replay that is broken off is
//     followed by nothing of its subscription.
//   - L1: a pass looks at the clock every LookWrites writes and every few
//     hundred selectors; so does a catch-up after each window.
//   - L2: a member is bounded by HardBytes, one item and one window; by 1,024
//     positions told and twice as many kept; by 256 ended subscriptions that
//     wait for their last events. A frame costs constant time to queue.
//   - P1: what may not be shed is delivered, or the member is cut and its owner
//     told. Delivered names for each subscription and session the last event of
//     which the peer has all bytes, or will have before anything else: the frame
//     that is partly written is always finished.
package fanout
