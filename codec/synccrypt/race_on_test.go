//go:build race

package synccrypt

// raceEnabled: the program is built with the race detector, under which a
// sync.Pool drops what it is given now and then.
const raceEnabled = true
