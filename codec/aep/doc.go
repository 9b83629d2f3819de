// Package aep owns the AEP 0.1 vocabulary: what an event is, which events are
// admitted, what they look like to a filter, how they are down-leveled, and
// the frames of the WebSocket binding. It is pure: bytes in, values out.
//
// The admission half is two steps, both on one Scanner:
//
//   - Scan goes once over one JSON text and checks UTF-8, grammar, escapes,
//     numbers, control characters and depth everywhere, also inside values
//     that nobody will look at, because the text is forwarded as it came. It
//     records where each top-level member lies.
//   - Event checks the envelope (R100 to R118) on those records and makes the
//     immutable Event: one allocation with the WebSocket frame header, the
//     text as received (R194), and after it the decoded form of the few
//     attributes that were written with escapes.
//
// The package never decodes `data`, never compares events with each other and
// never checks a payload (R115).
//
// Thread rule: a Scanner belongs to one loop and holds scratch that its
// results borrow until the next Scan. Everything else is immutable or pure and
// may be used by any goroutine.
//
// Ownership: text given to Scan is borrowed until the next Scan. An Event owns
// all its bytes; strings and slices it returns are shared and immutable, and
// keep the event's one allocation alive.
//
// Invariants:
//
//   - A1: input is never modified, and nothing of it is retained by an Event.
//   - A2: an Event's text is byte for byte what was received, outer white
//     space dropped; if it held CR or LF, all insignificant white space is
//     dropped and nothing else (R194).
//   - A3: cost is linear in the text, for any text: duplicates are found with
//     a keyed hash, numbers are compared by digits and exponent and never
//     expanded (R114, R117).
//   - A4: attributes that a filter may see are stored decoded, so that a
//     lookup neither decodes nor allocates (R118).
//
// Rule numbers are those of the AEP relay's wire contract.
package aep
