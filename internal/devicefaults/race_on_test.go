//go:build race

package devicefaults

// raceEnabled: SQLite takes 50 times as long.
const raceEnabled = true
