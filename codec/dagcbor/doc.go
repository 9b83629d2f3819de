// Package dagcbor owns the canonical form of CBOR that the repository event
// stream is written in (DAG-CBOR): it checks values, reads them in place,
// writes them, and brings map keys into order. It is pure: bytes in, bytes
// out. It knows no message of the stream, and it builds no tree: a value is
// the span of bytes that it was read from, so what nobody looks at is never
// copied and keeps its bytes.
//
// Scanner.Value and Scanner.Map check every byte of a value, and each breach of
// the form has an error of its own. The one breach that a caller may let pass
// is the order of map keys: it is reported beside the value, and AppendSorted
// puts it right.
//
// What the contract leaves open is decided here so:
//
//   - Containers may be nested MaxDepth deep. A link counts as a leaf.
//   - Integers have the whole range of CBOR, -2^64 to 2^64-1. Int reads what
//     fits an int64.
//   - Negative zero is a float like others; NaN and the infinities are refused.
//   - A CID is of version 1, with the shortest varints. The digest has the
//     length that its hash function gives, and at most 128 bytes for functions
//     that are not known here. Version 0 is refused.
//
// Thread rule: a Scanner belongs to one goroutine at a time. Everything else
// is pure and may be used by any goroutine.
//
// Invariants:
//
//   - C1: input is never modified. What is lent points into the input and is
//     valid as long as it.
//   - C2: no length is believed before it is compared with the bytes that are
//     there; scratch grows with the keys that were read, not with a head.
//   - C3: a value that is accepted and reported as sorted is canonical: another
//     encoder of the same form writes the same bytes.
//   - C4: cost is linear in the input, but for sorting the keys of maps that
//     are out of order.
//   - C5: functions that read a value in place expect one that a Scanner has
//     accepted. On other bytes they give no answer or a wrong one, and never
//     panic.
//
// Rules are cited as F10 to F12 of the stream's contract, and as RFC 8949.
package dagcbor
