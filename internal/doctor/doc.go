// Package doctor checks a running relay from outside, as an operator would, and
// says what to do about what it finds: is it reachable, does it speak AEP 0.1,
// who may use it, do streams and sockets pass what is in front of it, and has
// it room.
//
// It owns the checks and their verdicts. It changes nothing at the relay, but
// for the test event that [Options.Publish] allows, and sends its token to the
// relay alone. Texts that came from outside are escaped before they are part of
// a finding, and no finding holds the token.
//
// Thread rule: [Run] runs one check after the other and starts goroutines of
// its own, which have ended when it returns. Options.Each is called by Run's
// goroutine.
//
// Invariants:
//
//   - DR1: every check ends: within Options.Timeout, and what is waited for a
//     heartbeat within heartbeatSlack over its interval.
//   - DR2: what is read of an answer is bounded by maxBody, of a stream by what
//     its decoder holds.
//   - DR3: nothing is followed elsewhere: a redirect is a finding.
//
// Specification: the AEP 0.1 relay contract, sections 2, 3, 11 and 12; RFC 9110
// for dates; WHATWG Fetch for preflights.
package doctor
