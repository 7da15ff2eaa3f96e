package engine

import (
	"math"
	"sort"
	"sync"
)

// indexStride is the distance of index entries in bytes. A floor seek is followed by a walk of at most so
// much and one append or block.
const indexStride = 64 << 10

// indexEntry points to the first byte of an append or block. It serves seeks by offset and by time.
type indexEntry struct {
	offset   int64 // of the append's or block's first record
	position int64
	// maxBefore is at least the largest timestamp of the segment's records before the position.
	maxBefore int64
	block     bool
}

// segmentIndex is the sparse index of a segment, or the part of it that is in memory: all entries at and
// above the position from. Its lock is held for a search or an append in memory only.
type segmentIndex struct {
	mu      sync.Mutex
	entries []indexEntry
	from    int64
	flushed int   // entries[:flushed] are in the index store
	last    int64 // position of the newest entry, in memory or not
	queued  bool  // waits to be flushed
}

// reset makes the index of a segment of which nothing, or everything from its start on, is in memory.
func (x *segmentIndex) reset(complete bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries, x.flushed = nil, 0
	x.from, x.last = segmentHeaderSize, segmentHeaderSize
	if !complete {
		x.from, x.last = math.MaxInt64, math.MinInt64/2
	}
}

// add notes an append or block if the last entry is a stride away. It tells whether the segment has to be
// queued for a flush.
func (x *segmentIndex) add(e indexEntry) (queue bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.position-x.last < indexStride {
		return false
	}
	if x.from == math.MaxInt64 {
		x.from = e.position
	}
	x.entries = append(x.entries, e)
	x.last = e.position
	queue = !x.queued
	x.queued = true
	return queue
}

// floor returns the last entry at or below offset; ok is false where it may be in the index store only.
func (x *segmentIndex) floor(base, offset int64) (e indexEntry, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].offset > offset })
	if i > 0 {
		return x.entries[i-1], true
	}
	return segmentStart(base), x.from == segmentHeaderSize
}

// floorPosition returns the last entry at or below a position.
func (x *segmentIndex) floorPosition(base, position int64) (e indexEntry, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].position > position })
	if i > 0 {
		return x.entries[i-1], true
	}
	return segmentStart(base), x.from == segmentHeaderSize
}

// floorTime returns the last entry before which every record is older than ts.
func (x *segmentIndex) floorTime(base, ts int64) (e indexEntry, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].maxBefore >= ts })
	if i > 0 {
		return x.entries[i-1], true
	}
	return segmentStart(base), x.from == segmentHeaderSize
}

// segmentStart is the entry that every segment has without storing it.
func segmentStart(base int64) indexEntry {
	return indexEntry{offset: base, position: segmentHeaderSize, maxBefore: noTimestamp}
}

// complete tells whether the whole index is in memory.
func (x *segmentIndex) complete() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.from == segmentHeaderSize
}

// loaded puts entries from the index store, or from a scan, below those in memory.
func (x *segmentIndex) loaded(entries []indexEntry, stored bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.from == segmentHeaderSize {
		return
	}
	n := sort.Search(len(entries), func(i int) bool { return entries[i].position >= x.from })
	merged := make([]indexEntry, 0, n+len(x.entries))
	merged = append(append(merged, entries[:n]...), x.entries...)
	if stored {
		x.flushed += n
	} else {
		x.flushed = 0
	}
	if len(merged) > 0 {
		x.last = max(x.last, merged[len(merged)-1].position)
	}
	x.entries, x.from = merged, segmentHeaderSize
}

// unload lets go of the entries if all are in the index store.
func (x *segmentIndex) unload() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.flushed < len(x.entries) {
		return
	}
	x.entries, x.flushed, x.from = nil, 0, math.MaxInt64
}

// truncate drops the entries at and above a position.
func (x *segmentIndex) truncate(position int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].position >= position })
	x.entries = x.entries[:n]
	x.flushed = min(x.flushed, n)
}

// unflushed appends the entries to dst that are not in the index store yet, and counts them as flushed;
// unflush takes that back.
func (x *segmentIndex) unflushed(dst []indexEntry) []indexEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	dst = append(dst, x.entries[x.flushed:]...)
	x.flushed = len(x.entries)
	x.queued = false
	return dst
}

// replace takes over the entries of a scan of the whole segment up to a position. What was added meanwhile,
// between there and the end of what is written, is kept.
func (x *segmentIndex) replace(scan *segmentIndex, scanned, written int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	merged := scan.entries
	for _, e := range x.entries {
		if e.position >= scanned && e.position < written {
			merged = append(merged, e)
		}
	}
	x.entries, x.from, x.flushed, x.queued = merged, segmentHeaderSize, 0, true
	x.last = segmentHeaderSize
	if n := len(merged); n > 0 {
		x.last = merged[n-1].position
	}
}
