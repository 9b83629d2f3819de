// Package demo plays a fleet of agents (package fleet) against a relay, in real
// time. It owns the sending: a WebSocket for each agent, which claims the
// agent's sessions and brings its commands, or one HTTP connection for all.
//
// What was sent is kept until it is known to be in: a ping of the application
// follows, and its pong tells that all before it was processed (R309). After a
// lost connection the rest is sent again with the same ids, which the relay
// recognises (R161). While nothing is taken the fleet stands still; its clock
// is set forward afterwards.
//
// Thread rule: [Run] starts goroutines and returns when they have ended.
//
// Invariants:
//
//   - D1: what waits is bounded: queueCount events and heldCount sent ones for
//     each agent, commandCount commands, one body.
//   - D2: an event goes again only with the same bytes, and no event of an agent
//     overtakes another.
//   - D3: Run ends within endTimeout after its context, whatever the relay does,
//     and at once when nothing listens any more.
//
// Specification: the AEP 0.1 relay contract, sections 4, 12 and 14.
package demo
