//go:build race

package diskio_test

// raceEnabled says that allocations are not to be counted: the race detector makes some of its own.
const raceEnabled = true
