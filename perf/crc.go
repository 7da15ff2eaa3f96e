package perf

import (
	"hash/crc32"
	"runtime"
)

// castagnoli is written once, by its initialiser.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C returns the Castagnoli checksum of b.
func CRC32C(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// UpdateCRC32C adds b to a running checksum.
func UpdateCRC32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

const (
	cacheLine = 64
	farPiece  = 4 << 10
)

// UpdateFarCRC32C is UpdateCRC32C for bytes that are likely in no cache. The checksum waits for each line in turn; here a load
// of each line of a piece goes first, and those wait together.
func UpdateFarCRC32C(crc uint32, b []byte) uint32 {
	for len(b) > 0 {
		piece := b[:min(len(b), farPiece)]
		var seen byte
		for i := 0; i < len(piece); i += cacheLine {
			seen ^= piece[i]
		}
		runtime.KeepAlive(seen) // or the loads are left out
		crc, b = UpdateCRC32C(crc, piece), b[len(piece):]
	}
	return crc
}
