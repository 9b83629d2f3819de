// Package syncmodel tests the encrypted sync relay from outside, over HTTP,
// with relays that run: in the test's own process, and in processes of their
// own that are killed. It holds tests only.
//
// Specification: the sync relay's contract. Three kinds of tests:
//
//   - The model: two or three devices of one owner with outbox, cursor and seen
//     set, as the contract's section 11 describes clients, and under them a
//     relay that is restarted, killed, wiped, restored from older copies and
//     compacted at random. The seed is printed; -syncmodel.seed repeats it.
//   - The hard cases of section 12: TestHardCase17... is case 17.
//   - Envelopes that were sealed with AES-256-GCM, which must still open after
//     they went through the relay (S19).
//
// What the model holds the relay to:
//
//   - M1: when faults are over, a bounded number of rounds makes all devices
//     hold the same: for each stream the greatest event id of all written.
//   - M2: no event is lost that its device pushed and then pulled past. One
//     that was acknowledged but not pulled past when the relay lost its
//     history may be missed by others until its device repairs: nothing tells
//     that device. See TestRestoreBeforePull.
//   - M3: a number is never given to two events, and a cursor never goes back.
//   - M4: a device repairs at most once for each time history was lost.
//   - M5: what is pulled is byte for byte what was pushed.
//   - M6: the store's invariants hold whenever the relay is stopped (S49).
//
// With SEQ_FLOOR=auto these hold for cursors above 2^40 only: see TestAutoGap
// for those that a store issued in its first ten minutes (S35).
//
// The same model runs with devices of internal/device, TestRealModel: real
// encryption, databases and clocks that are up to an hour off, under one or
// more relays, which are wiped, restored, killed, added and removed; devices
// are opened again, made from the phrase alone in mid-run, and one loses its
// disk. It holds both sides to more, since these devices keep an event until
// they have seen it come back:
//
//   - R1: when faults are over and the clocks agree, a bounded number of rounds
//     makes all devices hold exactly the winner by HLC of all writes ever made,
//     and owe nobody anything. A Sync whose relays are well never fails.
//   - R2: no device ever holds, and no relay stores, what nobody wrote.
//   - R3: each relay then has the winner of each row, and compacted nothing
//     else; all of it opens.
//   - R4: a device re-seeds a relay at most once for each time it lost history.
package syncmodel
