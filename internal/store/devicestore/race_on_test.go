//go:build race

package devicestore

// raceEnabled: SQLite, which is Go code here, is some twenty times slower.
const raceEnabled = true
