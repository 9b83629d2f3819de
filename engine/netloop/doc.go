// Package netloop owns the real sockets: listeners, accepting, the event loops
// that read, the writes and the writability watcher. It is the only importer
// of the reactor library (gnet), and it drives engine/loop: one loop.Loop per
// event loop, loop.Transport for each connection.
//
// It knows no protocol. It keeps no output: what the kernel does not take stays
// with the caller, and the reactor's own outbound buffer is never used.
//
// Division of work:
//
//   - Plain net.Listeners and one accept goroutine each. The reactor's own
//     accept ends the whole engine on EMFILE, cannot stop, and with
//     SO_REUSEPORT hides a second live copy on the same port.
//   - A gnet.Client whose event loops read. Accepted sockets are enrolled into
//     the loop with the fewest connections, counted here, so that placement is
//     exact also while enrolments are on their way.
//   - Write is write(2) on the descriptor. A second epoll set, EPOLLOUT and
//     EPOLLONESHOT, owned by one goroutine, tells of writability.
//   - A socket pair in each event loop is its doorbell and nothing more; work
//     waits in the loop's mailbox and in this package's lists.
//
// Thread rule: Handler and Transport methods are loop only. Methods of Server
// may be called by any goroutine. A loop is left only through its lists, which
// hold each connection at most once.
//
// Half-close: the reactor reports a peer's FIN as the end of the connection.
// What the peer sent before is delivered first, then OnClose(nil) follows, and
// output that is not yet with the kernel is lost.
//
// Invariants:
//
//   - N1: connections, those being enrolled included, never exceed the cap, and
//     cap + reserve <= the descriptor limit.
//   - N2: no system call is made on a descriptor after OnClose has begun; a
//     reused descriptor number is never written to by its former owner.
//   - N3: OnClose is called once, last, on the loop, for each connection whose
//     accept function returned a handler.
//   - N4: no event loop is woken after the loops have ended, since the
//     reactor's wake would write to a closed, perhaps reused, descriptor.
//   - L1, L2 and R14 as in the architecture: no panic, no exhausted descriptor
//     table and no peer ends the process; a loop that dies or hangs does, by an
//     error from Serve, since the reactor would stay silent.
package netloop
