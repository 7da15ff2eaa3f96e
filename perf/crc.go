package perf

import "hash/crc32"

// castagnoli is written once, by its initialiser.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C returns the Castagnoli checksum of b.
func CRC32C(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// UpdateCRC32C adds b to a running checksum.
func UpdateCRC32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }
