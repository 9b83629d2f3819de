//go:build race

package firehosefaults

// raceEnabled: the program is built without it, and what reads is some ten times
// slower.
const raceEnabled = true
