package engine

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Metrics are the counters and gauges of a store. All may be read at any time.
type Metrics struct {
	Appends           atomic.Int64 // published
	Records           atomic.Int64 // published
	AppendBytes       atomic.Int64 // published, stored form
	AppendErrors      atomic.Int64 // appends that failed after they were gathered
	DuplicateAppends  atomic.Int64
	Backpressured     atomic.Int64 // appends refused because too much waited to be written
	GatheredBytes     atomic.Int64 // gauge: wait to be written or synced
	WriteBatches      atomic.Int64 // rounds of the writers
	Writes            atomic.Int64 // segment writes in them
	WriteErrors       atomic.Int64
	WriteBatchBytes   Histogram    // bytes of a round
	WriteDuration     Histogram    // microseconds of a round's submission
	Syncs             atomic.Int64 // files made durable
	SyncErrors        atomic.Int64
	EarlySyncs        atomic.Int64 // batches of syncs to make room for open files
	SyncDuration      Histogram    // microseconds of a batch of syncs
	SpaceLow          atomic.Int64 // 1 while appends are refused for want of space
	SegmentsOpen      atomic.Int64 // gauge
	SegmentEvictions  atomic.Int64 // closed to keep the bound
	Mappings          atomic.Int64 // gauge
	SegmentsRolled    atomic.Int64
	SegmentsDeleted   atomic.Int64
	IndexEntries      atomic.Int64 // written to the index store
	IndexFlushes      atomic.Int64
	IndexRebuilds     atomic.Int64 // segments whose index was made again by a scan
	Checkpoints       atomic.Int64 // of shards
	RetentionHeld     atomic.Int64 // looks that deleted nothing by age because the clock jumped
	ProducersEvicted  atomic.Int64 // forgotten because of ProducersMax
	ReadsNotResident  atomic.Int64 // reads that answered ErrNeedsLoad
	RecoveryNanos     atomic.Int64 // of the last Open
	RecoveredBytes    atomic.Int64 // scanned by it
	QuarantinedShards atomic.Int64 // gauge
	Cleanings         atomic.Int64 // shards compacted
	CleanErrors       atomic.Int64 // compactions that failed
	CleanNanos        atomic.Int64 // spent in compactions
	CleanReadBytes    atomic.Int64
	CleanWrittenBytes atomic.Int64
	CleanedRecords    atomic.Int64 // removed
	CleanMapFull      atomic.Int64 // compactions cut short because their keys filled the memory
	CleanMapBytes     atomic.Int64 // gauge: memory for keys
	UncleanableShards atomic.Int64 // gauge: not compacted any more, because of damage
	DirtiestPermille  atomic.Int64 // gauge: largest part that was written since the last compaction, at the last look
}

// Histogram counts values in buckets of powers of two. It is safe for concurrent use.
type Histogram struct {
	Buckets [40]atomic.Int64 // bucket i counts values below 1<<i and not below 1<<(i-1)
	Sum     atomic.Int64
}

// Observe counts one value; negative ones count as 0.
func (h *Histogram) Observe(v int64) {
	v = max(v, 0)
	h.Buckets[min(bits.Len64(uint64(v)), len(h.Buckets)-1)].Add(1)
	h.Sum.Add(v)
}

// Count returns the number of values.
func (h *Histogram) Count() int64 {
	var n int64
	for i := range h.Buckets {
		n += h.Buckets[i].Load()
	}
	return n
}

func (h *Histogram) observeSince(start time.Time) { h.Observe(time.Since(start).Microseconds()) }
