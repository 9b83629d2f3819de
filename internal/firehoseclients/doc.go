// Package firehoseclients runs the public clients of the repository event
// stream against the relay: the npm packages @skyware/firehose, @atproto/sync
// with signatures verified, and @ipld/dag-cbor and @atproto/xrpc-server as
// decoders that share nothing with ours. It has tests only and is imported by
// nothing.
//
// What is shown is section 11 of the contract: every message vector arrives
// with all its fields, in order; a client goes on at its cursor after its
// connection broke, was cut in mid-frame, or ended with the relay, which
// drops connections without a close frame so that clients come back (F48,
// case 42); the answers to cursors reach the application (F3, F22, F23); and
// each frame that is sent is canonical DAG-CBOR (F10).
//
// "make test-clients" sets SLUICE_CLIENTS to a directory in
// which npm installs the packages once, at versions that are pinned here; the
// packages that they need are pinned by a date. Without the variable, without
// Node 20 or npm, or without a registry that answers, the tests are skipped. A
// registry that answers and has no such version is a failure.
//
// The clients are started from scripts in testdata, each in a process of its own
// that writes what it sees as lines of JSON. A connection that is to be cut goes
// through a proxy of the test, which also notes with which query a client comes.
//
// Thread rule: tests only. Relays run in the test's process; each test ends the
// processes and connections that it started.
package firehoseclients
