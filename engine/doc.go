// Package engine keeps shards: the log of one topic's partition each, made of append-only segment files of
// protocol-neutral records (docs/format.md), with sparse indexes, watermarks, leader epochs and producer
// states. It knows neither sockets nor any wire protocol.
//
// Appends and reads come from event loops and never wait for the disk there. Submit encodes an append into
// the shard's gathered chunk; a writer goroutine writes what gathered in all shards as one batch, publishes
// it and hands the finished appends to the Sink of the loop that each came from. Where the flush policy asks
// for it, a syncer goroutine makes them durable first, as one group commit for all shards. Read plans from
// an immutable list of segments and an index in memory, and gives a Span: a lease on mapped bytes.
//
// What a crash leaves is found again by Open: it verifies what was written after the last checkpoint and
// ends each log after the last append that is whole.
package engine
