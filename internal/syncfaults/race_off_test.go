//go:build !race

package syncfaults

const raceEnabled = false
