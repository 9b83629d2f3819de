// Package aepwsload measures the aep-0.1 WebSocket binding: what a delivery costs
// beside one of the AEP surface of the same relay, how many events a second are
// acknowledged with group commit and with a commit for each, what the heartbeats
// of idle sessions cost, and how fast a subscriber gets a long replay and what
// that does to the others.
//
// The relay runs in a process of its own and is measured from outside, by its CPU
// clock. What is compared is measured in one run, in turns, and each figure is the
// median of the rounds. Only the event log's own figures, of stores that differ
// by the size of their commits, come from a log in this process.
//
// Thread rule: Run uses goroutines of its own and returns when these have ended.
// The types belong to one goroutine.
//
// Invariants:
//
//   - B1: each subscriber gets what it is owed, in order and once, or the run
//     fails. No figure comes from a run that lost an event.
//   - B2: the numbers of acknowledged events rise on each connection, and those
//     of all connections together are dense, or the run fails.
//   - B3: both surfaces deliver as many bytes an event, up to 1.5 percent, or
//     the run fails: else their costs could not be compared.
//
// Rules of the binding's contract are cited with its name.
package aepwsload
