// Package scenario has the loads of the benchmark suite as data, and runs
// them: the relay and each rival as a process of its own, the same client in
// front of all of them.
//
// A [Scenario] is a set of consumers and the loads that are put on it, one
// after another, over the same connections. A round runs a scenario once
// against each of its targets, next to each other in time, so that a ratio of
// two targets is one of the same minute: the machines that benchmarks run on
// have other things to do.
//
// What is measured, and how:
//
//   - CPU of a server: its process's CPU clock, read by the client right
//     before the first and right after the last event that counts.
//   - Latency: from the intended time of an event, also when the client was
//     late with it, to each delivery.
//   - Memory of a connection: resident memory of the process with its idle
//     connections, less that of the process without any, by their number.
//   - Allocations of the relay: its own counter of the runtime, less what
//     asking for it costs.
//   - Loss, repetition and disorder: each event carries its number, and each
//     consumer's events are checked against those that are owed to it.
//
// Thread rule: a [Runner] is used by one goroutine.
package scenario
