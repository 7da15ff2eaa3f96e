// Package recordbatch turns Kafka's v2 record batches into stored appends and back (KIP-98; "Record
// Batch" in the protocol guide).
//
// Producing: Batch.ParseProduced checks one batch in place, Decoder.Open decompresses it within limits, and
// Decoder.EncodeAppend walks its records once, checks each and writes the neutral form through a
// model.Builder. Fetching: AppendBatches verifies stored blocks and encodes their records as batches, cut
// at record borders; Compressor does the same with a compressed body.
//
// Uncompressed batches allocate nothing in either direction. Nothing is ever allocated by a count or a
// length that a batch merely announces.
package recordbatch
