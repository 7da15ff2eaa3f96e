package engine

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"millrace/engine/model"
)

// segment is one file of a shard's log. What readers use is atomic; the fields of the writer belong to
// whoever appends to the shard: its writer, or a holder of its exclusive section.
type segment struct {
	shard      *Shard
	number     uint64
	generation uint32
	base       int64 // offset of the first record
	epoch      int32 // leader epoch when it was made
	created    int64 // milliseconds
	path       string

	// Readers may see [segmentHeaderSize, published) and the offsets [base, next). published is stored
	// before next.
	published atomic.Int64
	next      atomic.Int64
	// maxTimestamp is the largest timestamp of what is published, math.MinInt64 where there is nothing, and
	// maxTimestampBase the base offset of the first append that has it.
	maxTimestamp     atomic.Int64
	maxTimestampBase atomic.Int64
	lastWritten      atomic.Int64 // time of the last append, milliseconds
	firstWritten     atomic.Int64 // time of the first append since the file was opened, 0: none
	sealed           atomic.Bool
	removed          atomic.Bool // no longer part of the log

	synced     atomic.Int64 // bytes known to be durable
	anchored   atomic.Bool  // the file's directory entry is durable
	inherited  atomic.Bool  // what waits for a sync was all written before the start
	recorded   atomic.Bool  // as sealed in the index store
	allocated  atomic.Int64 // end of the preallocated space
	allocating atomic.Bool  // waits for the allocator
	handle     atomic.Pointer[handle]
	pins       int        // writes under way, for which the file stays open; guarded by the cache's mu
	opening    sync.Mutex // held by who opens the file; never taken on an event loop
	index      segmentIndex

	// The writer's.
	written     atomic.Int64 // end of what is written, published or not
	staleEnd    int64        // a failed write may have left bytes up to here
	tail        int64        // where the next append goes, written or not
	writtenNext int64        // offset after the last written record
	previous    *segment     // the active one before it
	mustRoll    bool         // nothing may be appended: what follows the end is not understood
	unsynced    bool         // in the shard's list; guarded by the shard's mu

	unsyncedOrder atomic.Int64 // when the oldest bytes that wait for a sync came, counted by the cache
}

func newSegment(sh *Shard, h *segmentHeader, path string) *segment {
	s := &segment{
		shard: sh, number: h.Number, generation: h.Generation, base: h.BaseOffset,
		epoch: h.LeaderEpoch, created: h.Created, path: path,
	}
	s.published.Store(segmentHeaderSize)
	s.written.Store(segmentHeaderSize)
	s.next.Store(h.BaseOffset)
	s.tail, s.writtenNext = segmentHeaderSize, h.BaseOffset
	s.maxTimestamp.Store(noTimestamp)
	s.maxTimestampBase.Store(-1)
	s.lastWritten.Store(h.Created)
	return s
}

// noTimestamp is below every timestamp of a record.
const noTimestamp = -1 << 63

// empty tells whether nothing is published in the segment.
func (s *segment) empty() bool { return s.published.Load() == segmentHeaderSize }

// dirty tells whether written bytes are not known to be durable.
func (s *segment) dirty() bool { return s.synced.Load() < s.written.Load() || !s.anchored.Load() }

// held tells whether the file has to stay open: what waits for a sync was written through it, so that it is
// told of a failed writeback. Of what was written before the start no descriptor is left that was.
func (s *segment) held() bool { return s.dirty() && !s.inherited.Load() }

// noteTimestamp takes an append's largest timestamp into account.
func (s *segment) noteTimestamp(ts, base int64) {
	if ts > s.maxTimestamp.Load() {
		s.maxTimestamp.Store(ts)
		s.maxTimestampBase.Store(base)
	}
}

// retentionTime is the time by which the segment ages: its largest timestamp, or, where producers gave none
// that is one, the time of its last append.
func (s *segment) retentionTime() int64 {
	if ts := s.maxTimestamp.Load(); ts >= 0 {
		return ts
	}
	return s.lastWritten.Load()
}

// segmentList is a shard's log in order of offsets: an immutable snapshot. The last is the active one.
type segmentList struct{ segments []*segment }

// replace returns the list with s instead of the segments from old's first to its last, which stand in it one
// after the other.
func (l *segmentList) replace(old []*segment, s *segment) *segmentList {
	i := slices.Index(l.segments, old[0])
	out := make([]*segment, 0, len(l.segments)-len(old)+1)
	out = append(append(out, l.segments[:i]...), s)
	return &segmentList{append(out, l.segments[i+len(old):]...)}
}

// find returns the position of the segment that holds offset, or of the first above it where it was
// removed; len where there is none.
func (l *segmentList) find(offset int64) int {
	lo, hi := 0, len(l.segments)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if l.segments[mid].next.Load() > offset {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// with returns the list with another segment at its end.
func (l *segmentList) with(s *segment) *segmentList {
	out := make([]*segment, 0, len(l.segments)+1)
	return &segmentList{append(append(out, l.segments...), s)}
}

// active returns the last segment, nil where there is none.
func (l *segmentList) active() *segment {
	if len(l.segments) == 0 {
		return nil
	}
	return l.segments[len(l.segments)-1]
}

// indexAppend notes an append at a position in the index and in the segment's largest timestamp, and has the
// index stored. b is the stored append.
func (s *segment) indexAppend(e *entry, b []byte, position int64) {
	if s.noteAppend(e, b, position) {
		s.shard.store.indexer.enqueue(s)
	}
}

// noteAppend is indexAppend in memory only. It tells whether the segment has to be queued for a flush.
func (s *segment) noteAppend(e *entry, b []byte, position int64) (queue bool) {
	before := s.maxTimestamp.Load()
	queue = s.index.add(indexEntry{offset: e.base, position: position, maxBefore: before})
	if len(b) > indexStride {
		before = max(before, e.maxTimestamp)
		for pos := nextBlock(b, 0); pos != 0; pos = nextBlock(b, pos) {
			at := indexEntry{offset: firstOffset(b[pos:]), position: position + int64(pos), maxBefore: before, block: true}
			queue = s.index.add(at) || queue
		}
	}
	s.noteTimestamp(e.maxTimestamp, e.base)
	return queue
}

// nextBlock returns the position in the append b of the block after the one at pos, 0 after the last. With
// pos 0 it begins after the first block, which the append's own header stands for.
func nextBlock(b []byte, pos int) int {
	if pos == 0 {
		pos = model.HeaderSize
	}
	var block model.BlockHeader
	if pos >= len(b) || block.Parse(b[pos:]) != nil || block.Last {
		return 0
	}
	if pos += block.Size(); pos+model.BlockHeaderSize+8 > len(b) {
		return 0
	}
	return pos
}

// firstOffset returns the offset of the first record of the block that b begins with.
func firstOffset(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b[model.BlockHeaderSize:]))
}
