// Package store keeps what the encrypted sync relay holds: owners, events,
// blob chunks, the one counter of sequence numbers and its epochs, in one
// SQLite database. Package sqldb below it has the connection.
//
// It knows no HTTP and does not look inside an envelope: it gets routing fields
// and bytes that were checked before, and gives the same bytes back.
//
// Specification: the sync relay's contract, rules S12 to S15 and S20 to S51.
//
// Thread rule: every method of Store may be called by any goroutine that may
// block; a loop calls them in jobs only. The ...Async methods block on nothing
// but a short lock, so a loop may call them; they answer through a callback
// on the writer's goroutine.
//
// One goroutine, the writer, owns the writing connection. It takes waiting
// requests in groups: one transaction, a savepoint for each request, one commit,
// then the answers. Work that may touch many rows (compaction, deletion after a
// close) is cut into slices which take turns with the groups. Reads use
// their own connections and snapshots and wait for nobody.
//
// An operator's commands use no Store: an Inspector reads the database beside the
// relay, and CompactOffline writes only where no process has it open.
//
// Invariants, checked by Store.Check and Inspector.Check on a live database:
//
//   - D1: owners.stored_bytes is the sum of the owner's events.bytes and
//     blobs.bytes; event_count, blob_count and stream_count are what a count
//     would give. A closed owner has zero in all of them (S49, S44).
//   - D2: relay_meta.total_bytes is the sum of owners.stored_bytes (S49).
//   - D3: every events.seq lies in an epoch, and relay_meta.last_seq is the
//     newest epoch's last (S49).
//   - D4: a number is issued in the transaction that stores its event, by the
//     one writer, so a reader that saw n never finds a new event below n (S28).
//   - D5: an answer of success follows the commit (S25).
package store
