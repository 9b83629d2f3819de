// Package syncfaults holds what hurts an encrypted sync relay from outside: the
// real program is killed at random moments, its disk fills up, another process
// holds its database, and the files are taken away or damaged. It has tests only.
//
// Specification: the sync relay's contract, rules S4, S21, S25, S27, S29, S34,
// S42, S48 and S49, hard cases 19 and 43.
//
// What a killed relay is held to, after each start:
//
//   - K1: what was acknowledged is there with the same bytes, unless a rule
//     deleted it (S25).
//   - K2: of a push whose answer was not seen all is there, or nothing (S21).
//   - K3: new numbers lie above every one that was seen before, and cursors that
//     were given out stay valid (S27, S34).
//   - K4: an owner whose close was acknowledged stays closed (S42).
//   - K5: the invariants of the database hold (S49).
package syncfaults
