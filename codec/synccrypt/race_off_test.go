//go:build !race

package synccrypt

const raceEnabled = false
