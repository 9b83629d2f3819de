// Package synccrypt owns what a device of the encrypted sync does with keys and
// bytes: the identity behind a credential, its clock, the canonical form of
// JSON, payloads, envelopes, the chunks of a blob and its manifest. It is pure:
// bytes in, bytes out. It opens no file, keeps no row and knows no relay.
//
// Rule numbers (D1 to D52) are those of the device's contract. Followed
// besides: RFC 5869 (HKDF), SLIP-21, BIP39 (English list), RFC 8785 for the
// order of members and the spelling of strings, RFC 4648 section 5 without
// padding.
//
// What the contract leaves open is decided here so:
//
//   - Canonical JSON keeps the spelling of numbers, so that 64-bit integers
//     lose no digits: 1 and 1.0 are two texts.
//   - A phrase's streamKey is expanded with the salt of D2.
//   - An envelope's streamId that is null counts as absent. Unknown members are
//     ignored; no name may occur twice. Its version is any spelling of 1.
//   - A manifest's sha256 is spelled as the hash of a chunk is: base64url, 43
//     characters. Its unknown members are ignored. A blob of no bytes has no
//     chunk, or one that is empty.
//   - A table is 1 to 64 characters of [A-Za-z0-9_.-]; a row id is 1 to 256
//     bytes of UTF-8 without control characters.
//
// Thread rule: an Identity may be used by any goroutine, by many at once.
// Everything else is a pure function or a value.
//
// Invariants:
//
//   - K1: derivations never change (D4). testdata/locked.json guards them.
//   - K2: no error and no printed form holds a credential, a key, a token or a
//     row.
//   - K3: input is never modified, and is not retained, except by what says
//     that it shares it.
//   - K4: a failed call appends nothing to what it was given.
//   - K5: canonical text of canonical text is itself.
//   - K6: what Seal writes, Open takes, and its size is at most
//     MaxEnvelopeBytes.
//   - K7: event ids sort as bytes as their clocks sort in time (D12).
package synccrypt
