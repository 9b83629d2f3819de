// Package wsframe owns WebSocket framing (RFC 6455, version 13): the checks and
// the answer of the opening handshake, an incremental frame reader, and the
// bytes of frames that go out. It is the only importer of gobwas/ws, which does
// the header parsing, the protocol checks, the masking and the close codes.
// What that library does not do is done here: minimal lengths (section 5.2),
// limits decided from the header, reassembly without blocking, and UTF-8 over
// the whole message.
//
// It does no I/O, starts no goroutine, accepts no extension and never panics on
// what a peer sent.
//
// Thread rule: functions are pure. A Reader belongs to one connection and a
// Scratch to one loop; both are loop only.
//
// Byte ownership: input is borrowed until return and is never written to. The
// payload of a Message is borrowed until the next Feed with the same Scratch.
//
// Invariants:
//
//   - W1: what a Reader holds is at most twice the payload that arrived of
//     the unfinished message, or 512 bytes if that is more, and 128 bytes for
//     an unfinished control frame. It does not depend on a declared length.
//   - W2: a Reader between messages holds no buffer.
//   - W3: what a Reader delivers, and the error it ends with, do not depend on
//     how the input was cut.
//   - W4: the bytes of a message never exceed the limit that was in force when
//     the header of its last frame arrived.
//   - W5: after an error or a close frame a Reader delivers nothing more.
package wsframe
