// Package auth decides who may talk to the relay: the shared tokens of a
// relay that has some, and the web-page guard of a relay that has none.
//
// It owns three decisions:
//
//   - [Auth]: does a request carry one of the valid tokens (R40 to R43)?
//   - [Guard]: may a request with this Origin and this Host be served by a
//     relay without a token (R38)?
//   - [Loopback]: does a host name or address mean this machine?
//
// and the form of the file that tokens come from ([ReadTokenFile]). Several
// tokens are valid at once and are replaced while the relay runs, so that a
// token can be rotated: add the new one, move the clients, take the old one
// out. What can never happen at run time is that authentication ends.
//
// It never reads a request, never writes an answer, never logs, and keeps no
// token: [Auth] holds digests only (R15). What a refusal looks like on the
// wire is the protocol's business; the errors here are texts that say which
// setting would let the request in, or which line of a file is wrong.
//
// Thread rule: [Auth.Set] replaces the set of tokens atomically, all else is
// immutable after construction; every function may be called from any
// goroutine, those that read a file not from a loop. [Auth.Allow] and
// [Guard.Check] do not allocate on the usual paths (an IPv6 literal other
// than [::1] costs one small allocation).
//
// Specification: the AEP 0.1 relay contract, rules R15, R38, R40, R42 and
// R43; RFC 6454 section 6 (serialised origins), RFC 6761 section 6.3
// (localhost names), RFC 6750 section 2 (bearer tokens), RFC 9110 section 7.2
// (Host).
package auth
