// Package firehosestore keeps what the firehose must not forget, in one SQLite
// database: which sequence numbers are taken, the other hosts with how far they
// were read, and the state of each repository.
//
// It decides nothing about frames: who calls it has checked them, and gives what
// is to be kept. It knows no HTTP and starts no goroutine. A relay whose
// firehose nobody uses leaves no trace: the file and its directory are made with
// the first reservation, host or batch.
//
// Specification: the firehose's contract, rules F25, F28, F53, F63, F64, F67
// and F71.
//
// Thread rule: every method of Store may be called by any goroutine that may
// block; a loop calls them in jobs only. Writes take turns on one connection,
// reads on another: a read waits for no write. Lock order: Store.mu, then
// database.mu.
//
// Invariants:
//
//   - K1: a write that returns nil is on the medium; one that returns an error
//     has changed nothing (F25, F28, F63).
//   - K2: the reserved number never goes down, and no clean mark stands beside a
//     later reservation. What another relay has reserved is never given out: then
//     ErrTwoRelays.
//   - K3: a host's cursor and the repositories up to it are stored together
//     (F63, F64).
//   - K4: a file that is there and cannot be read stops the start, since numbers
//     would repeat.
package firehosestore
