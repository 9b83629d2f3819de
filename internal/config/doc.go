// Package config turns environment variables into one validated Config.
//
// It owns the names, defaults and least values of all settings (the table of
// [Variables]), the rules for reading them, the bind rules that follow from
// them, and their printing with secrets masked. The command line is laid
// over the environment by the caller's lookup function, so that flags and
// variables go through the same checks. Below both lie the values of the
// profile that SLUICE_PROFILE names (package profiles): they go through the
// same checks too, and stand only for what is unset.
//
// It never opens a socket, never resolves a name, and never prints a token:
// [Secret] has no formatting that shows its text (R15). It opens no file but
// the token file, and that only when [Config.Tokens] is called, at start and
// at each reload; all else is fixed from the start on.
//
// Rules:
//
//   - A set but empty variable counts as unset (R11).
//   - A number is plain decimal: digits only. Anything else, a value below
//     the least one or one over 63 bits is an error of one line that names
//     the variable (R11). Other values have such errors too.
//   - Without a token and without AEP_HOST only loopback is bound (R13). A
//     Unix socket counts as loopback: its file mode says who may connect.
//   - A limit that cannot have an effect is an error, since whoever set it
//     believes in it (C54).
//
// Thread rule: Config and Secret are values without mutable state; every
// function may be called from any goroutine.
//
// Specification: the AEP 0.1 relay contract, rules R10, R11, R13, R15, R38,
// R175.
package config
