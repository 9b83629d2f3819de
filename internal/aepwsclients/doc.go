// Package aepwsclients runs clients that are not ours against the aep-0.1 binding:
// the npm package ws, and a browser. It has tests only and is imported by nothing.
//
// What is shown is section 10 of the contract: a client that opens a socket with
// the one subprotocol and sends JSON text can open a session, subscribe, emit and
// acknowledge; after its connection broke, was cut in mid-frame, or ended with the
// relay, it resumes from its last cursor and gets every event once (B51, B52); what
// it emits again is not stored twice (B56); a handshake that is refused is one for
// it too (B3, B7, B8).
//
// Both run the same script, testdata/agent.mjs, which tells what it sees as lines
// of JSON. The package comes by npm as internal/nodetest says; the browser is
// chromium in PATH. Without the variable that "make test-clients" sets, or without
// either of them, the tests are skipped.
//
// Thread rule: tests only. Relays run in the test's process; each test ends the
// processes and connections that it started.
package aepwsclients
