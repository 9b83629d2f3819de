// Package floor is the reference for every server: what the kernel alone costs
// when the same bytes go to many sockets.
//
// A few threads, locked to the operating system's, share the consumers. Each
// thread writes an event's prebuilt frame to each of its consumers by write(2)
// on the non-blocking descriptor, without a runtime, poller or queue between.
// There are four floors: one write an event and consumer, or all events that
// wait at that moment joined in one write; by write(2) or by SENDs of io_uring.
//
// It owns its descriptors (duplicates of those that net/http accepted), its
// epoll sets and rings. It reads nothing from consumers and keeps no history.
//
// Thread rule: a [Floor]'s methods may be called by any goroutine. What a
// thread owns (consumers, ring, epoll set) is touched by it alone; events and
// new consumers come to it by a bounded channel and a list.
//
// Invariants:
//
//   - F1: a consumer that was answered 101 gets every event published later.
//   - F2: frames are never torn or reordered: once a write fell short, the rest
//     and all that follows wait in the consumer's backlog until epoll says that
//     it is writable.
//   - F3: backlogs refer to shared, immutable bytes. A consumer whose backlog
//     exceeds maxBacklogBytes is disconnected, with a line on stderr.
//   - F4: a loop with room in all sockets makes no system call but its writes.
//
// Specification: send(2), epoll(7), io_uring_enter(2).
package floor
