package engine

import "millrace/engine/model"

// Append is one append on its way through a shard: the facts that come with it and, when it is done, what
// became of it. Its owner may reuse it as soon as its Sink gave it back.
type Append struct {
	// Loop is the event loop that it came from and whose Sink it goes to.
	Loop int
	// ExpectedEpoch is the leader epoch that the caller knows; -1 leaves it unchecked.
	ExpectedEpoch int32
	// RequireHighWatermark asks for completion only when the high watermark has passed the append.
	RequireHighWatermark bool
	// Header holds kind, flags, codec, producer facts and the range of offsets (LastOffset-BaseOffset is the
	// number of records less one; the shard moves the range). The encoder completes the timestamps in the
	// Builder's header; when Submit has returned nil, Header is what was stored.
	Header model.AppendHeader
	// User and Slot are the caller's.
	User any
	Slot int32

	// BaseOffset and LastOffset are the offsets that the append was given, both inclusive; of a duplicate
	// those that it was given first. -1 after an error.
	BaseOffset, LastOffset int64
	// MaxTimestamp is the largest timestamp of what is stored.
	MaxTimestamp int64
	// LogStartOffset and LeaderEpoch are the shard's when the append was done.
	LogStartOffset int64
	LeaderEpoch    int32
	// Duplicate: the append had been stored before.
	Duplicate bool
	// Err is why nothing was stored; nil after success.
	Err error
	// Next links appends that a Sink is given.
	Next *Append
}

// Encoder writes an append's records. It is called under the shard's lock: pure CPU work, no waiting.
type Encoder interface {
	// SizeBound returns the bytes that the append takes at most (model.SizeBound).
	SizeBound() int
	// EncodeAppend adds the records to b, on which Begin was called and Finish will be, the first with
	// offset baseOffset, and sets the timestamps in b.Header. An error gives the append up; Submit returns it
	// untouched.
	EncodeAppend(b *model.Builder, baseOffset int64) error
}

// Sink takes what finished for one event loop.
type Sink interface {
	// Complete is called by a writer or syncer goroutine once for each batch: done is a list, linked by
	// Next, in the order of each shard's log, which the sink takes over; advanced are the shards watched by
	// the loop whose high watermark, log start, epoch or existence changed. advanced is valid during the
	// call only. Complete must not block.
	Complete(done *Append, advanced []*Shard)
}
