// Package device is a device of the encrypted sync: it holds one owner's rows
// in a directory, and keeps them equal with the owner's other devices through
// one or more relays, which see ciphertext only. It follows the device's
// contract (rules D1 to D52) against the relay's (S1 to S52), and shares no
// code with the relay.
//
// A write is one transaction of the store and asks no relay. Sync brings every
// relay up to date once; Follow does so until it is told to end. Both are built
// from the same steps, which lean on the store alone: nothing that matters is
// kept in memory between two transactions, so that several processes may hold
// one directory.
//
//	push   seal what is written, send what is owed, note what was taken
//	pull   fetch a page, open it, apply it and its cursor in one step (D32)
//	check  has the relay lost the owner? then owe it every row anew (D35)
//
// Pushing to and pulling from a relay are two lanes, each with a back-off of
// its own in the store (D34): a refused push never stops pulls, and one relay's
// failure never stops another.
//
// A relay is not trusted with more than it has to be. Its answers are bounded,
// an envelope is opened before anything is believed of it, and what it
// acknowledged counts as delivered only when a pull brings it back.
//
// A blob is a manifest, which is a row of the table "blob", and sealed chunks:
// files here and at the relays that are named by their hash (D50, D51). Whoever
// holds chunks owes them to the relays, beside the events and never before them
// in importance: a relay without room for chunks gets its rows all the same.
//
// A re-key (D39) gives the database another owner in one transaction. The file
// "credential" follows it: settle has the points at which a crash may cut that.
// What is left is done by syncs, relay by relay: everything is pushed anew, the
// blobs that are held are sealed anew under their ids, and then the old owner
// is closed with "credential.old", which is removed after the last. There is
// never more than one old owner.
//
// Thread rule: any goroutine may use a Device. Sync runs a goroutine per relay,
// up to eight at once, Follow up to three per relay and three more; a page that
// is large is opened by one goroutine per core, and four move chunks. All have
// ended when the call returns.
//
// Invariants:
//
//   - L1: nothing leaves the device but envelopes, sealed chunks, stream names
//     and the token; the token goes to configured relays only, never along a
//     redirect.
//   - L2: a cursor is stored in the transaction that applies its page, and only
//     if cursor and generation are still those the page was asked with.
//   - L3: an event that cannot be opened is counted and skipped, and stops
//     nothing (D11). It is not remembered as seen.
//   - L4: a drain ends: at a page without events, at a cursor that it had
//     before, or after idlePages pages without anything new.
//   - L5: a relay is owed every row anew only after it said that it has lost
//     the owner, at most once in a call of Sync, and in Follow not before its
//     pause is over.
//   - L6: an answer holds at most maxPageBytes, maxAnswerBytes where it is no
//     page, and a drain holds two pages at a time.
//   - L7: no secret is in an error, a log line or a status.
//   - L8: the credential's owner is the database's, or the next Open makes it
//     so; credentials change under the directory's lock only.
//   - L9: a chunk's bytes have its hash before they are opened, and a blob its
//     SHA-256 before it has a name or a byte of it is written to a caller
//     (D52).
//   - L10: a chunk is removed here only if it is older than sweepAge, no
//     manifest names it and nobody makes a blob, or if it cannot be opened.
//   - L11: an old owner is closed at a relay only when that has every row and
//     blob of the new one, but for blobs it has no room for, and no blob here
//     needs the old key; or, before a further re-key, when that has closed the
//     new one too, or by force.
package device
