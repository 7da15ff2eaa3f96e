//go:build !race

package group

// raceEnabled tells tests that measure the heap that allocations are padded.
const raceEnabled = false
