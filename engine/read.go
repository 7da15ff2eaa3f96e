package engine

import (
	"errors"
	"fmt"

	"millrace/diskio"
)

// Read leases the stored bytes from the append or block that holds offset, or, where that was removed, from
// the next one: at most about maxBytes, rounded to the end of a block, at least one block, and only what is
// published. Where nothing is published at or above offset, or offset is not below upTo, the span is empty.
// The bytes may hold records at and above upTo, and below offset: the reader cuts.
//
// Read may be called on event loops: it does not block and does not allocate. Errors: ErrOffsetOutOfRange,
// ErrNeedsLoad (call ReadBlocking elsewhere), ErrCorrupt, ErrStorage, ErrShardDeleted. sp is released first.
func (sh *Shard) Read(sp *Span, offset, upTo int64, maxBytes int) error {
	return sh.read(sp, offset, upTo, maxBytes, false)
}

// ReadBlocking is Read that brings into memory what is not there. After it sp.Load loads the bytes
// themselves.
func (sh *Shard) ReadBlocking(sp *Span, offset, upTo int64, maxBytes int) error {
	err := sh.read(sp, offset, upTo, maxBytes, true)
	if errors.Is(err, errBadLanding) || errors.Is(err, errThinIndex) {
		err = sh.repairAndRead(sp, offset, upTo, maxBytes, err)
	}
	return err
}

func (sh *Shard) read(sp *Span, offset, upTo int64, maxBytes int, blocking bool) error {
	sp.Release()
	if err := sh.unusable(); err != nil {
		return err
	}
	start := sh.logStart.Load()
	sp.LogEnd = sh.logEnd.Load()
	if offset < start || offset > sp.LogEnd {
		return ErrOffsetOutOfRange
	}
	sp.Offset = offset
	if offset >= min(upTo, sp.LogEnd) {
		return nil
	}
	list := sh.list.Load()
	i := list.find(offset)
	if i == len(list.segments) {
		return nil
	}
	err := sh.readSegment(sp, list.segments[i], max(maxBytes, 1), blocking)
	for blocking && err != nil && sh.replaced(&list, err) {
		// At most once for each compaction that ends meanwhile.
		if i = list.find(offset); i == len(list.segments) {
			return nil
		}
		err = sh.readSegment(sp, list.segments[i], max(maxBytes, 1), true)
	}
	if err != nil && !blocking && !errors.Is(err, ErrCorrupt) {
		sh.store.metrics.ReadsNotResident.Add(1)
		return ErrNeedsLoad
	}
	if errors.Is(err, ErrOffsetOutOfRange) && offset >= sh.logStart.Load() {
		// The segment left the log for another reason than the log start: the next look finds its successor.
		return fmt.Errorf("read offset %d: %w", offset, ErrStorage)
	}
	return err
}

// replaced tells whether an error is of a segment that left the list since list was taken, and takes the list
// anew: compaction has put another segment there.
func (sh *Shard) replaced(list **segmentList, err error) bool {
	now := sh.list.Load()
	if now == *list || !errors.Is(err, ErrOffsetOutOfRange) {
		return false
	}
	*list = now
	return true
}

// readSegment plans the read in one segment.
func (sh *Shard) readSegment(sp *Span, s *segment, maxBytes int, blocking bool) error {
	h := s.acquire()
	if h == nil {
		if !blocking {
			return ErrNeedsLoad
		}
		var err error
		if h, err = sh.store.handles.openSegment(s); err != nil {
			return err
		}
	}
	w := &sp.walk
	if err := sh.planRead(sp, s, h, maxBytes, blocking); err != nil {
		w.mapping, w.segment = nil, nil
		h.release()
		return err
	}
	sp.handle, sp.mapping = h, w.mapping
	sp.start, sp.end = w.start, w.end
	sp.Header, sp.AtBlock = w.header, w.atBlock
	sp.Offset = max(sp.Offset, w.header.BaseOffset)
	sp.resident = w.residentFrom <= sp.start && sp.end <= w.resident
	w.mapping, w.segment = nil, nil
	return nil
}

func (sh *Shard) planRead(sp *Span, s *segment, h *handle, maxBytes int, blocking bool) error {
	w := &sp.walk
	// next before published: an end remembered with it is then at most too low, which is found out.
	next := s.next.Load()
	limit := s.published.Load()
	mapping := h.mapped(limit)
	if mapping == nil {
		if !blocking {
			return ErrNeedsLoad
		}
		var err error
		if mapping, err = h.mapTo(limit); err != nil {
			return err
		}
	}
	*w = walk{segment: s, mapping: mapping, limit: limit, blocking: blocking, offset: sp.Offset, most: int64(maxBytes)}
	hinted := false
	if w.from, hinted = sh.cursors.find(s, sp.Offset); !hinted {
		if err := sh.indexFloor(w, blocking); err != nil {
			return err
		}
	}
	err := diskio.Guard(w)
	if hinted && errors.Is(err, errBadLanding) {
		*w = walk{segment: s, mapping: mapping, limit: limit, blocking: blocking, offset: sp.Offset, most: int64(maxBytes)}
		if err = sh.indexFloor(w, blocking); err == nil {
			err = diskio.Guard(w)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case w.end == limit && !s.sealed.Load():
		sh.cursors.note(s, indexEntry{offset: next, position: limit})
	case w.floors && w.end == w.floor.position:
		sh.cursors.note(s, w.floor)
	}
	return nil
}

// indexFloor finds the index entry to begin at, from the index store where it is not in memory.
func (sh *Shard) indexFloor(w *walk, blocking bool) error {
	var ok bool
	if w.from, ok = w.segment.index.floor(w.segment.base, w.offset); ok {
		return nil
	}
	if !blocking {
		return ErrNeedsLoad
	}
	if err := sh.loadIndex(w.segment); err != nil {
		return err
	}
	w.from, _ = w.segment.index.floor(w.segment.base, w.offset)
	return nil
}
