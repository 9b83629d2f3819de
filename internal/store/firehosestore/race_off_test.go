//go:build !race

package firehosestore

const raceEnabled = false
