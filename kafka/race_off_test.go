//go:build !race

package kafka

// raceEnabled tells tests that measure the heap that allocations are padded.
const raceEnabled = false
