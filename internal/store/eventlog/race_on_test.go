//go:build race

package eventlog

// raceEnabled: SQLite, which is Go code here, is some twenty times slower.
const raceEnabled = true
