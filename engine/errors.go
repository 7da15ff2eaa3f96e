package engine

import "errors"

// What Submit, Read and the methods of a shard answer. Errors that are returned wrap one of these.
var (
	// ErrStorage: the disk did not take or give the bytes: it is full, it failed, or the shard's files are
	// damaged or missing. Nothing was appended.
	ErrStorage = errors.New("storage error")
	// ErrFencedEpoch: the caller's leader epoch is older than the shard's.
	ErrFencedEpoch = errors.New("leader epoch is fenced")
	// ErrUnknownEpoch: the caller's leader epoch is newer than the shard's.
	ErrUnknownEpoch = errors.New("leader epoch is not known yet")
	// ErrOutOfOrderSequence: the sequence does not follow the producer's last one.
	ErrOutOfOrderSequence = errors.New("producer sequence is out of order")
	// ErrInvalidProducerEpoch: a newer epoch of the same producer has written.
	ErrInvalidProducerEpoch = errors.New("producer epoch is fenced")
	// ErrUnknownProducer: the shard has no state of the producer and needs it.
	ErrUnknownProducer = errors.New("producer is not known")
	// ErrShardDeleted: the shard was dropped.
	ErrShardDeleted = errors.New("shard is deleted")
	// ErrBackpressure: more bytes wait to be written than allowed, or the shard is busy with a truncation.
	// Trying again later helps.
	ErrBackpressure = errors.New("too much waits to be written")
	// ErrClosed: the store is closing.
	ErrClosed = errors.New("store is closed")
	// ErrOffsetOutOfRange: the offset is below the log start or above the log end.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrNeedsLoad: what the read needs is not in memory; ReadBlocking on a helper goroutine brings it there.
	ErrNeedsLoad = errors.New("not in memory")
	// ErrCorrupt: stored bytes do not verify. It comes with the segment and the position.
	ErrCorrupt = errors.New("stored bytes are damaged")
	// ErrNotEmpty: a data directory belongs to something else.
	ErrNotEmpty = errors.New("directory is not empty")
)

// What a walk finds wrong with the index rather than with the data.
var (
	errBadLanding = errors.New("index entry does not point to an append or block")
	errThinIndex  = errors.New("index entries are missing")
	errRecordLost = errors.New("a segment that should be on record is not")
)

func isNeedsLoad(err error) bool { return errors.Is(err, ErrNeedsLoad) }
