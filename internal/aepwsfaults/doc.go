// Package aepwsfaults holds what hurts the aep-0.1 binding from outside: the real
// program is killed at random moments under load, its log is taken away or
// damaged, its disk fills up, subscribers take nothing, and those of the
// contract's hard cases are played on raw sockets that need a whole relay. It has
// tests only.
//
// Specification: the binding's contract, rules B37, B38, B41, B43 to B45, B51 to
// B56, B58 to B62, hard cases 20, 21, 25 to 28, 31 to 34, 36 to 39 and 41.
//
// What a relay is held to, whatever happens to it:
//
//   - K1: a number that anybody has seen, in an acknowledgement or a delivery, is
//     that of one event for ever, and an event that is kept has one (B51, B55).
//   - K2: what was acknowledged or delivered is in the log after a restart, unless
//     retention took it (B55, B62).
//   - K3: a subscriber that comes back with its last cursor gets every event after
//     it once, ascending, with no gap that it is not told of (B51, B52).
//   - K4: an event that is sent again because its answer was lost is acknowledged
//     and takes no second number (B56).
//
// SLUICE_KILLS is how often the tests that kill do so; "make kills" sets it.
//
// Thread rule: what a test starts in a goroutine is waited for before it ends.
package aepwsfaults
