//go:build !race

package broker

// raceEnabled tells whether the race detector is built in.
const raceEnabled = false
