// Package aepws owns the vocabulary of the aep-0.1 WebSocket binding: which
// messages are events, what the relay reads of control events, what it writes
// itself, how an event is stored and delivered, filters and cursors. It is
// pure: bytes in, bytes out. It knows no session, no subscription and no log.
//
// Scanner.Scan goes once over a message and checks UTF-8, grammar, depth and
// the envelope. What is no event at all is a *MessageFault, which ends the
// connection (B15); what is a faulty event has its faults listed in the
// Envelope, which never does (B25). StoredForm makes of an accepted event the
// text that the log keeps, up to and into its delivery member; AppendDelivery
// completes it for one subscription. A Filter is compiled once. An Author
// writes the relay's own events.
//
// What the contract leaves open is decided here so:
//
//   - Nesting is counted from the envelope's own object, which is level 1.
//   - A control event may leave out its payload, which then counts as an empty
//     object; a payload of null is refused (B18, B22).
//   - Faults come in this order: members that occur twice, version, type, the
//     rest. The list ends at MaxFaults.
//   - Of members named twice inside `delivery`, `authorization` or a control
//     payload the last counts, as for most readers; a member of a filter that
//     is named twice is refused.
//   - An id of more than 512 bytes is answered as null, and then the answer has
//     no causation_id: a refusal stays small.
//   - Half of a surrogate pair in an escape is read as U+FFFD, and forwarded as
//     it came.
//   - `expires_at` of a filter may be null; no other known member may.
//   - A filter value is at most 512 bytes, the longest identity (B20). An empty
//     one is legal and matches nothing.
//   - The id in a cursor has to be an event id (B20). A number beyond 64 bits
//     in 19 digits is the largest number there is.
//   - `authorization` of a domain event is forwarded like any other member.
//
// Thread rule: a Scanner, an IDs and an Author belong to one loop. All else is
// pure or immutable and may be used by any goroutine.
//
// Byte ownership: a message is borrowed until the next Scan, and so is what an
// Envelope and the control requests made of it hold. A stored form belongs to
// the caller; Attributes read from it share its bytes.
//
// Invariants:
//
//   - E1: input is never modified; numbers and spellings of what is forwarded
//     stay byte for byte (B17).
//   - E2: the cost of any message is linear in its bytes, and a good one costs
//     no allocation.
//   - E3: a stored form with a delivery has the members of the event in their
//     order, and delivery as its last.
//   - E4: an event that a filter matches yields at least one key of each of the
//     filter's candidate sets; equal canonical texts match the same events.
//   - E5: whatever is written is one valid JSON text in UTF-8.
//
// Rule numbers are those of the binding's contract, docs/protocols.
package aepws
