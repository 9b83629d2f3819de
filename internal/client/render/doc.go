// Package render shows events to people: one line an event, escaped for a
// terminal, coloured if asked for, and cut to its width.
//
// It owns three things: the reading of an event with all indulgence (Parse),
// what is worth telling of the payload of each registered type (Summary), and
// the pen that puts foreign text on a terminal (Pen). It does no I/O and
// judges nothing: an event that breaks the envelope's rules has a line too.
//
// What an event holds is written by others (AEP-0001, section 12), so no byte
// of it reaches the terminal as it is:
//
//   - N1: a line holds no control character, no ANSI escape but those of its
//     own colours, no bidi control and no other invisible character, except
//     the two joiners that scripts and emoji need; each is shown as \x1b,
//     \u202e or \U000e0001. Bytes that are not UTF-8 are shown as \xff. A
//     backslash of the text stays single, so this is for the eye and not to be
//     read back.
//   - N2: the text is as wide as counted or narrower. Width is counted by
//     rune and by grapheme cluster (Unicode UAX 29 and 11), the greater counts.
//   - N3: a column of width takes at most maxClusterRunes runes: marks piled on
//     one letter are shown as escapes from there on.
//   - N4: nothing fails. Members that are missing, of another kind or absurd
//     leave their word out.
//
// Thread rule: functions are pure and any goroutine may call them; a Pen
// belongs to one goroutine.
//
// Byte ownership: text is borrowed until return, dst is extended and returned
// as by append.
package render
