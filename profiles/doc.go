// Package profiles holds the named tuning presets: what the relay's settings
// mean on a kind of machine while nothing else was said.
//
// A preset is a file NAME.env of this directory, embedded in the program and
// chosen by --profile NAME or SLUICE_PROFILE. It names the variables of the
// relay, and GOGC and GOMEMLIMIT of the Go runtime. Later wins: preset, then
// environment, then flag. What the values mean and whether they are allowed is
// the business of internal/config, whose tests read every preset.
//
// Format, checked line by line:
//
//   - P1: a line is empty, a comment that begins with #, or NAME=value. NAME is
//     of A-Z, 0-9 and underscores, and begins with a letter. The value is not
//     empty and is printable ASCII without spaces and quotes.
//   - P2: a value has its reason in a comment on the line above it.
//   - P3: a variable is set once.
//
// A preset exists where two real machines need different values and a
// measurement or a sum tells which; else the value is a constant in the code.
// It holds no addresses, names, limits that guard against clients, or secrets:
// those are of a site, not of a kind of machine.
//
// It never reads a file or the environment. Thread rule: no mutable state;
// every function may be called from any goroutine.
package profiles
