// Package devicestore keeps what a device of the sync relay must not forget, in
// one SQLite database: its rows, its clock, the events that relays have to get,
// how far each relay was read, and what waits for later.
//
// It knows no HTTP and no cryptography: events come in opened, and the
// functions that seal and decode are passed in. It starts no goroutine, and
// asks a clock only for when something was refused.
//
// Specification: the device's contract, rules D20, D21, D30 to D36, D38 and
// D39.
//
// Thread rule: any goroutine that may block may call any method of Store, and
// several processes may have one database open. Writes take turns on one
// connection under SQLite's lock; reads are on another and wait for no write.
// Lock order: Store.mu, then database.mu.
//
// An event that this device wrote is in outbox until every relay has it. owed
// has an entry for each relay and event: to be pushed (ack 0), or acknowledged
// with that number and not yet seen in a pull. What a relay has to get
// otherwise, since it is new or was wiped, is a current row; such an entry is a
// seed and has the row's number only, so that 100,000 of them are one
// statement.
//
// Invariants:
//
//   - V1: a method that returns nil has stored all that it says, on the medium;
//     one that returns an error has changed nothing, but for the slices that
//     Seal, ApplyDue and EndDrain say they have done.
//   - V2: whatever is decided is decided inside BEGIN IMMEDIATE, from what the
//     database says. Nothing read before counts, since another process may
//     write.
//   - V3: last_hlc is at least the HLC of every row, and of every event written
//     here. It never goes down (D20, D21), so no event id is given twice.
//   - V4: an entry of owed is a seed, and then a row has its number and HLC; or
//     its event is in outbox, and every event there is owed to some relay.
//   - V5: an event counts as delivered to a relay when a pull brought it back;
//     one only acknowledged is kept, since the relay may be restored to a time
//     before, and no cursor would tell.
//   - V6: a row changes only to a strictly greater HLC; which relay gave it in
//     what order does not matter (D32, D38).
//   - V7: seen, deferred, refusals, relays, purges and old owners are bounded,
//     as is every list that is returned, in count and in bytes. rows, outbox,
//     owed and blobs are as large as what the user wrote.
//   - V8: the counts of state and relays are those of the tables, changed in
//     the same transaction.
package devicestore
