// Command benchrivals serves one of the rivals that the bench suite measures
// beside the relay, over the suite's bench protocol.
//
// It owns the table of rivals, the listener and the process: package floor has
// the reference loops of write(2) and io_uring, package hub the hubs of
// goroutines, package intake what they share. It is a module of its own, so
// that the relay's go.mod does not grow by the rivals' libraries, and imports
// nothing of the relay.
//
//	benchrivals list
//	benchrivals NAME -addr 127.0.0.1:PORT [-loops 2]
//
// It ends on SIGTERM or SIGINT. Exit codes: 0 after a signal, 1 for a failure,
// 2 for wrong arguments, 3 when the system does not offer io_uring.
//
// Thread rule: a rival's methods may be called by any goroutine. There is no
// global state between rivals.
//
// README.md describes each rival, its settings and the bytes of the protocol.
package main
