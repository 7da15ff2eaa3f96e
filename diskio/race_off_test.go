//go:build !race

package diskio_test

const raceEnabled = false
