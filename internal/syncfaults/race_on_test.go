//go:build race

package syncfaults

// raceEnabled: the program is built without it, and what reads after each kill
// is some ten times slower.
const raceEnabled = true
