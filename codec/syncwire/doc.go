// Package syncwire owns the bodies, queries and spellings of the encrypted
// sync API: what a push may hold, how an envelope is stored, and what answers
// look like. It is pure: bytes in, values out. It never looks inside a
// ciphertext, never opens a file and knows no owner.
//
// PushDecoder takes a push body in pieces of any size. It checks UTF-8,
// grammar and depth of every byte (S7), tells the owner as soon as its id has
// been read (S16), and hands out each checked envelope in the form that is
// stored (S18, S19). Where an envelope has come in one piece without white
// space it is lent straight from the input.
//
// What the contract leaves open is decided here so:
//
//   - Names are compared decoded: "event\u0049d" is eventId, and eventId beside
//     it occurs twice. Repeated names count in the envelope's own members, not
//     in objects inside it. Of top-level members, ownerId and events may not
//     be repeated; unknown ones may.
//   - The number 1 is any spelling of exactly that value: 1.0 and 10e-1 too.
//   - Nesting is limited to 64 levels, counted from the body's own object.
//   - A 413, and a 400 on an envelope, that is met before ownerId has been read
//     is kept back until it is read: a wrong token is told first (S16).
//     Grammar cannot wait.
//   - A half of a surrogate pair may stand in an escape: it is kept as it is.
//
// Thread rule: a PushDecoder belongs to one goroutine at a time. Everything
// else is pure and may be used by any goroutine.
//
// Invariants:
//
//   - Y1: input is never modified, and nothing of it is retained after a call.
//   - Y2: a stored form is the envelope as sent, minus white space between
//     tokens, and no longer than MaxEventBytes (S19, S20).
//   - Y3: a decoder holds at most one envelope and one owner id, whatever the
//     order of members; cost is linear in the body for any body.
//   - Y4: the verdict on a body and the envelopes handed out do not depend on
//     how it was cut into pieces.
//
// Rule numbers (S1 to S52) are those of the sync relay's contract.
package syncwire
