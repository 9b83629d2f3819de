//go:build !race

package devicefaults

const raceEnabled = false
