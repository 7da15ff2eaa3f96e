// Package model is the protocol-neutral form of what a log holds: topic ids, appends, blocks and records,
// and their bytes on disk (docs/format.md). It is pure: no files, no goroutines, no clock.
//
// An append is what one producer batch brought. On disk it is a header frame with a checksum of its own
// (AppendHeader), followed by blocks, each with its own checksum over whole records (BlockHeader):
//
//	append  = header frame | { block }
//	block   = block header | record { record }
//	record  = offset u64 | total_len u32 | metadata_len u32 | metadata | protocol_data_len u32 |
//	          protocol_data | data_len u32 | data
//
// Integers of fixed width are big-endian. Checksums are CRC-32C seeded with the shard's identity, so that
// bytes of another shard never verify.
//
// Builder writes an append, ScanAppend checks a whole one, and AppendHeader.Parse, BlockHeader.Parse,
// VerifyBlock and ParseRecord are the steps of a reader. Parsers take any bytes, never read past the end
// of what they are given and never allocate, except for the text of an error.
package model
