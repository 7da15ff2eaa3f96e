package engine

import (
	"fmt"

	"millrace/diskio"
	"millrace/engine/model"
)

// headerScan walks all appends of a segment by their headers, from a position to the published end, and
// notes what the index needs. It blocks; run it under diskio.Guard.
type headerScan struct {
	segment    *segment
	mapping    diskio.Mapping
	limit      int64
	position   int64 // of the append that is looked at
	loaded     int64
	index      segmentIndex
	latest     int64 // largest timestamp so far
	latestBase int64 // base offset of the first append that has it
	next       int64 // offset after the last append
	started    bool
}

// loadWindow is how much is brought into memory at once by long scans.
const loadWindow = 4 << 20

// RunGuarded implements diskio.Guarded.
func (s *headerScan) RunGuarded() error {
	if !s.started {
		s.started, s.latest, s.latestBase = true, noTimestamp, -1
	}
	for s.position < s.limit {
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *headerScan) step() error {
	if s.position+model.HeaderSize > s.limit {
		return fmt.Errorf("%w: %w", ErrCorrupt, model.ErrShort)
	}
	if err := s.load(s.position + model.HeaderSize); err != nil {
		return err
	}
	var h model.AppendHeader
	if err := h.Parse(s.mapping.Slice(s.position, s.position+model.HeaderSize), s.segment.shard.identity); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	end := s.position + int64(h.Length)
	if end > s.limit {
		return fmt.Errorf("%w: %w", ErrCorrupt, model.ErrShort)
	}
	s.index.add(indexEntry{offset: h.BaseOffset, position: s.position, maxBefore: s.latest})
	if h.Length > indexStride {
		if err := s.load(end); err != nil {
			return err
		}
		b := s.mapping.Slice(s.position, end)
		before := max(s.latest, h.MaxTimestamp)
		for pos := nextBlock(b, 0); pos != 0; pos = nextBlock(b, pos) {
			s.index.add(indexEntry{offset: firstOffset(b[pos:]), position: s.position + int64(pos), maxBefore: before, block: true})
		}
	}
	if h.MaxTimestamp > s.latest {
		s.latest, s.latestBase = h.MaxTimestamp, h.BaseOffset
	}
	s.position, s.next = end, h.LastOffset+1
	return nil
}

func (s *headerScan) load(end int64) error {
	if end <= s.loaded {
		return nil
	}
	from := max(s.position, s.loaded)
	to := min(max(end, from+loadWindow), s.limit)
	if err := s.mapping.Load(from, to); err != nil {
		return fmt.Errorf("load segment %s at %d: %w: %w", s.segment.path, from, ErrStorage, err)
	}
	s.loaded = to
	return nil
}
