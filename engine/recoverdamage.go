package engine

import (
	"fmt"
	"slices"
)

// recordLost tells whether the index store lost what it had on record of a segment, as where damage took it back
// to an older state. What was deleted or cut has a successor on record that begins at or below the log start, or
// where the segment does.
func (r *shardRecovery) recordLost(number uint64, base int64) bool {
	for i := range r.known.segments {
		if m := &r.known.segments[i]; m.number > number && m.base <= max(base, r.known.logStart) {
			return false
		}
	}
	return true
}

// recordBehind tells whether a segment that is on record has no file any more because of a compaction that is not on
// record, as where damage took the index store back to an older state. Nothing has been removed yet.
func (r *shardRecovery) recordBehind(files map[uint64][]segmentFile) error {
	for number, m := range r.metas {
		there := func(f segmentFile) bool { return f.generation == m.generation }
		if slices.ContainsFunc(files[number], there) {
			continue
		}
		for later, generations := range files {
			for _, f := range generations {
				recorded := r.metas[later]
				if later >= number && f.generation > 1 && (recorded == nil || f.generation > recorded.generation) {
					return fmt.Errorf("%w: segment %d, which %s may stand for", errRecordLost, number, f.path)
				}
			}
		}
	}
	return nil
}

// checkpointsUntilDurable is after how many intervals of checkpoints a sealed segment is taken for durable.
const checkpointsUntilDurable = 10

// longDurable tells, where no index store does, whether a hole in a segment that others follow is damage and not
// what a power cut tore: the next segment is so much older than the newest that checkpoints have passed since.
func (r *shardRecovery) longDurable(i int) bool {
	age := r.segments[len(r.segments)-1].created - r.segments[i+1].created
	store := r.shard.store
	return store.indexLost && age > checkpointsUntilDurable*max(store.opts.CheckpointInterval.Milliseconds(), 1)
}

// bridge keeps what is behind a hole in a segment that was durable: one flipped bit must not cost all that came
// after. Reads of the offsets between answer ErrCorrupt.
func (r *shardRecovery) bridge(s *segment, scan *appendScan, limit int64) {
	size := r.sizes[s.number]
	r.shard.store.log.Error("segment is damaged: its offsets from there on cannot be read", "segment", s.path,
		"position", scan.position, "offset", scan.next, "end_offset", limit, "err", scan.bad)
	s.published.Store(size)
	s.written.Store(size)
	s.tail, s.writtenNext = size, limit
	s.next.Store(limit)
}
