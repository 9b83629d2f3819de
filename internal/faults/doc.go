// Package faults breaks connections to a relay in every way it knows, and
// proves that nobody else notices.
//
// It owns the tests of the kind "what if the network, a client or the process
// fails": connections killed in the middle of a frame, a chunk or a head,
// half-closes, resets, stalls, floods, herds that reconnect at once, thousands
// of slow heads, publishers that vanish, kills of the relay itself, leaks, and
// a soak of any length. The relay runs in a process of its own, so that its
// memory, descriptors and goroutines can be counted, and so that it and its
// clients do not share one limit of descriptors.
//
// The driver can be used by other tests:
//
//   - Process: a relay as a child process, with what /proc and the admin
//     listener tell of it.
//   - Seal and Unseal: events that carry a SHA-256 over their own text, so that
//     a reader needs nothing else to tell that no octet of one was changed.
//   - Consumer: a lean reader of a stream or a socket, for thousands at once.
//   - View: what one consumer may see next. It fails at the first event that is
//     altered, repeated, out of order, or missing without a word.
//   - Publisher: posts batches and remembers what was acknowledged.
//   - Fault: one way of misusing a connection; Faults has them all.
//
// It never imports a package of the relay outside its tests, and never imports
// testing outside them: the driver returns errors, tests judge them.
//
// Thread rule: a Process may be used by any goroutine; a Consumer, View,
// Publisher or Rand by one at a time, except that Consumer.Reset and Close may
// be called by any goroutine to end a read.
//
// Invariants:
//
//   - F1: whatever is random comes from a seed that a failing test prints.
//   - F2: a gap in a view is an error unless the relay announced it
//     (replay-exhausted, shed), or a new boot id told that positions were
//     forgotten.
//   - F3: every wait has a deadline.
//
// Specification: the AEP 0.1 relay contract, sections 7, 8, 15 and 16, and
// rules R14, R46, R47, R71, R78, R281, R334 and R473.
package faults
