// Package timeline makes a tree of the events of one session, and a text of
// the tree: runs with their steps, tools and what they took, questions to
// people with their answers, delegations, commands, failures, restarts, and
// what is missing.
//
// It owns how events belong together, which AEP 0.1 says by `run` and `step`,
// by the call id of a tool, by `subject` (attention) and by `cause` (tools
// without a call id, acknowledgements). It does no I/O, but for Fetch and Read
// which fill a Builder from a relay and from a file.
//
//   - T1: the timeline does not depend on the order in which events with a
//     position were added, nor on events added twice: they are sorted by
//     (epoch, seq) and known by (source, id). Events without a position
//     (commands, attention.routed) are put in by their time, after their cause
//     and before their effects.
//   - T2: every event of the session is told: as the start or the end of a
//     thing, or as a line of its own. An end without a start makes a thing
//     whose start was not seen, a start that comes after its end completes it,
//     a second end is an event in it.
//   - T3: a thing without an end is open, and unended when what it is in has
//     ended.
//   - T4: a missing seq is told as a gap, a new epoch as a restart. A gap is
//     what the events show; whether the relay has announced it is told beside.
//   - T5: memory is bounded: maxEvents and maxTextBytes for all, maxWordBytes
//     for each text kept. What is left out is counted.
//   - T6: cost is n log n.
//
// Thread rule: a Builder belongs to one goroutine; a Timeline is its caller's.
package timeline
