//go:build !race

package devicestore

const raceEnabled = false
