// Package autobahn holds the relay's WebSocket code to RFC 6455 from outside,
// case by case in the groups of the public Autobahn test suite that apply to a
// server without extensions:
//
//	1 framing        2 pings and pongs    3 reserved bits    4 reserved opcodes
//	5 fragmentation  6 UTF-8              7 closing          9 limits
//	10 automatic fragmentation
//
// It has tests only. They run against internal/echo, which is made from the same
// parts as the relay, over real sockets, with a client that shares no code with
// the server and refuses whatever a server must not send. The cases are this
// project's own; what the suite asks for is their measure, and they go further:
// each is also sent octet by octet, and verdicts are strict.
//
//   - V1: what comes back is what is due, in order, and nothing else.
//   - V2: a case that breaks no rule ends with a closing handshake by the
//     client, which the server answers with the same code.
//   - V3: a case that breaks a rule is answered with the code of that rule as
//     soon as the octet that breaks it has arrived, whatever else was announced.
//   - V4: the server ends the TCP connection, within dropTime.
//
// Where they are installed, two outside judges are asked too: the public suite
// itself, and the ws package of npm (judges_test.go).
package autobahn
