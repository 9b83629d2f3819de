// Package fleet makes up what a fleet of agents publishes: sessions with runs,
// steps, tool calls of which some fail and some take long, progress, messages,
// questions to a human, failures, sub-agents, and restarts after which the
// sequence starts again in a new epoch. It owns the script of the agents and
// their clock, and does no I/O: who sends the events, and when, is the caller's
// business.
//
// A [Fleet] is a state machine with a virtual clock. [Fleet.Due] says when the
// next event is due, [Fleet.Next] makes it, [Fleet.Command] hands a command to
// an agent, which acknowledges it and obeys.
//
// Thread rule: a Fleet belongs to one goroutine.
//
// Invariants:
//
//   - F1: the same Config and the same commands at the same times give the same
//     events, byte for byte.
//   - F2: every event is valid: envelope (R100 to R118), payload schema of its
//     type, and no member of the payload above the event's capture level.
//   - F3: within a session, (epoch, seq) goes up by one event after the other;
//     seq starts at 0 in each epoch.
//   - F4: a command is executed once, however often it is sent; a retry is
//     answered with the recorded acknowledgement, byte for byte.
//   - F5: what is kept is bounded for each agent: the plan is one run long, and
//     pastSessions, ackCount and urgentCount are the other bounds.
//
// Specification: the AEP 0.1 relay contract, sections 5, 6 and 14, and the
// payload schemas of the AEP registry.
package fleet
