// Package devicefaults holds what hurts a device of the sync relay from
// outside: relays that lie, lose and scramble, processes that are killed, and
// the hard cases of the device's contract. Relays and devices run; what lies
// stands between them. It has tests only.
//
// Specification: the device's contract, rules D11, D20, D21, D30 to D39 and D50
// to D52; TestHardCase07... is case 7 of its section 7.
//
// What a device is held to, whatever a relay does to it:
//
//   - H1: no row is ever applied that was not written so by a device of the
//     owner.
//   - H2: once the relay is honest, all devices come to hold the same.
//   - H3: no lie makes a device spin: requests are bounded for each Sync, and
//     for each minute of Follow.
//   - H4: what is refused is counted, with its reason, and status shows it.
//   - H5: the bearer token goes to no host but the relay's.
//   - H6: no answer, however long, is held in memory beyond the bound of its
//     kind.
//
// And when its process is killed:
//
//   - H7: no row is lost that Put returned, and no HLC is used twice.
//   - H8: no write is sealed under two event ids, and all that the relay has
//     opens.
//
// SLUICE_KILLS is how often the tests that kill do so; "make kills" sets it.
// What is random comes from a seed that is printed; -devicefaults.seed repeats
// it.
//
// Thread rule: what a test starts in a goroutine is waited for before it ends.
package devicefaults
