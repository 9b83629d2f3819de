// Package eventlog keeps the events of the aep-0.1 binding in one SQLite
// database: one ordered log for all tenants, with numbers that are never given
// twice, bounded by count, age and bytes; and, in a table of their own, the
// dead letters.
//
// It decides nothing about events: who appends has admitted them, and gives what
// is to be kept. Types, filters and the text itself are opaque. It delivers
// nothing: what was committed is handed on in order of its numbers, and read
// again in pages. A relay whose binding nobody uses leaves no trace: the file
// and its directory are made with the first append or dead letter.
//
// One goroutine, the writer, makes all transactions. It takes what waits into
// one of them (group commit) until the group is full or has taken a few times
// as long as its commit will, so that a lone event waits for nobody and a flood
// shares the medium's syncs. Retention goes along with the appends in the same
// transaction, a few rows for each new one, and in short transactions of its
// own where that is not enough.
//
// Specification: the binding's contract, rules B51, B55, B56, B58 and B60 to
// B62.
//
// Thread rule: Append, DeadLetter, State and Stats may be called by any
// goroutine, loops included: they take a short lock or none. All others block.
// Callbacks run on the writer's goroutine and must neither block nor wait for
// the log. Lock order: none of the package's locks is held with another.
//
// Invariants:
//
//   - E1: an answer without an error follows the commit, which is on the medium;
//     an answer with one has changed nothing (B55).
//   - E2: the numbers of the log are dense and rise; the newest one given is
//     stored in the transaction that gives it, so neither a crash nor the
//     eviction of all events lowers it (B51).
//   - E3: Config.Committed gets each event once, in order of the numbers, before
//     any answer of its group (B55).
//   - E4: what was evicted is all below what is kept: evicted < oldest <= newest
//     (B62).
//   - E5: a page has every event that followed its start, or the error
//     ErrEvicted: both are decided on one state of the database (B60).
//   - E6: (tenant, source, id) is unique among the events kept (B56).
//   - E7: a file that is there and cannot be read stops the start, since numbers
//     would repeat.
package eventlog
