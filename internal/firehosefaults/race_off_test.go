//go:build !race

package firehosefaults

const raceEnabled = false
