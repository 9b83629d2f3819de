// Package conformance runs the public live checker of the Agent Event
// Protocol against the built binary. It has tests only and is imported by
// nothing.
//
// It owns the expected scores of section 20 of the contract: 12 checks
// passed and 7 skipped on a plain relay; 14 and 5 with a token and the
// eviction flood against a buffer of 64; 18 and 1 when there is a control
// target besides. Nothing may fail, and delivered events must be byte for
// byte what was posted, which the checker calls byte-identical.
//
// The checker is a program of its own project and is not kept here. "make
// conformance" fetches it and sets AEP_LIVE_JS to its path and SLUICE_BIN to
// the binary; without them the tests are skipped. Node 22 runs it; Node 20
// with its flag for WebSocket does too.
//
// Thread rule: tests only. Each case starts a relay process on a port of its
// own and ends it with SIGTERM, after which it must exit with 0 (R464).
package conformance
