package engine

import (
	"fmt"
	"math"

	"millrace/diskio"
	"millrace/engine/model"
)

// OffsetForTimestamp finds the first record, in order of offsets, that is not older than ts, in
// [log start, high watermark). found is false where there is none. It blocks.
func (sh *Shard) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, found bool, err error) {
	if err := sh.unusable(); err != nil {
		return -1, -1, -1, false, err
	}
	start, end := sh.logStart.Load(), sh.highWatermark.Load()
	for _, s := range sh.list.Load().segments {
		if s.next.Load() <= start || s.maxTimestamp.Load() < ts {
			continue
		}
		if s.base >= end {
			break
		}
		search := timeSearch{from: start, below: end, ts: ts}
		if err := sh.search(s, &search); err != nil {
			return -1, -1, -1, false, fmt.Errorf("offset for timestamp %d: %w", ts, err)
		}
		if search.found {
			return search.offset, search.timestamp, search.epoch, true, nil
		}
	}
	return -1, -1, -1, false, nil
}

// MaxTimestamp finds the first record that has the largest timestamp of all in [log start, high watermark).
// found is false where no record has a time. It blocks.
func (sh *Shard) MaxTimestamp() (offset, timestamp int64, epoch int32, found bool, err error) {
	if err := sh.unusable(); err != nil {
		return -1, -1, -1, false, err
	}
	start, end := sh.logStart.Load(), sh.highWatermark.Load()
	best := timeSearch{timestamp: noTimestamp}
	for _, s := range sh.list.Load().segments {
		if s.next.Load() <= start || s.base >= end || s.maxTimestamp.Load() <= best.timestamp {
			continue
		}
		search := timeSearch{from: start, below: end, ts: s.maxTimestamp.Load()}
		if s.maxTimestampBase.Load() < start {
			// The append that had it may lie below the log start: look at all.
			search.ts, search.largest = math.MinInt64, true
		}
		if err := sh.search(s, &search); err != nil {
			return -1, -1, -1, false, fmt.Errorf("largest timestamp: %w", err)
		}
		if search.found && search.timestamp > best.timestamp {
			best = search
		}
	}
	if !best.found || best.timestamp < 0 {
		return -1, -1, -1, false, nil // -1 is no time
	}
	return best.offset, best.timestamp, best.epoch, true, nil
}

// timeSearch looks through a segment for a record by time, skipping appends by their headers. It reads a
// mapping: run it under diskio.Guard.
type timeSearch struct {
	from, below int64 // offsets
	ts          int64
	largest     bool // look for the largest instead of the first at or above ts

	segment  *segment
	mapping  diskio.Mapping
	limit    int64
	position int64
	loaded   int64

	found             bool
	offset, timestamp int64
	epoch             int32
}

// search runs a search from the index entry before which every record is older.
func (sh *Shard) search(s *segment, t *timeSearch) error {
	h, err := sh.store.handles.openSegment(s)
	if err != nil {
		return err
	}
	defer h.release()
	if err := sh.loadIndex(s); err != nil {
		return err
	}
	t.segment, t.limit = s, s.published.Load()
	if t.mapping, err = h.mapTo(t.limit); err != nil {
		return err
	}
	entry, _ := s.index.floorTime(s.base, t.ts)
	if t.largest {
		entry, _ = s.index.floor(s.base, t.from)
	}
	t.position = entry.position
	if entry.block {
		if t.position, err = t.headerOf(&entry); err != nil {
			t.position = segmentHeaderSize
		}
	}
	err = diskio.Guard(t)
	if err != nil && t.position == entry.position && entry.position != segmentHeaderSize {
		// The entry was wrong.
		t.position, t.loaded = segmentHeaderSize, 0
		err = diskio.Guard(t)
	}
	t.mapping = nil
	return err
}

// headerOf returns the position of the append header of a block entry.
func (t *timeSearch) headerOf(e *indexEntry) (int64, error) {
	w := walk{segment: t.segment, mapping: t.mapping, limit: t.limit, blocking: true, from: *e, offset: e.offset}
	lander := landing{walk: &w}
	if err := diskio.Guard(&lander); err != nil {
		return 0, err
	}
	return lander.position, nil
}

// landing verifies an index entry under diskio.Guard.
type landing struct {
	walk     *walk
	position int64
}

// RunGuarded implements diskio.Guarded.
func (l *landing) RunGuarded() (err error) {
	l.position, err = l.walk.land(&l.walk.from, &l.walk.header)
	return err
}

// RunGuarded implements diskio.Guarded.
func (t *timeSearch) RunGuarded() error {
	for t.position < t.limit {
		var h model.AppendHeader
		if err := t.load(t.position, min(t.position+model.HeaderSize, t.limit)); err != nil {
			return err
		}
		err := h.Parse(t.mapping.Slice(t.position, min(t.position+model.HeaderSize, t.limit)), t.segment.shard.identity)
		if err == nil && t.position+int64(h.Length) > t.limit {
			err = model.ErrShort
		}
		if err != nil {
			return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, t.segment.path, t.position, err)
		}
		if h.BaseOffset >= t.below {
			return nil
		}
		least := t.ts
		if t.largest && t.found {
			least = t.timestamp + 1
		}
		if h.Kind == model.KindData && h.LastOffset >= t.from && h.MaxTimestamp >= least {
			if err := t.scanAppend(&h, least); err != nil {
				return err
			}
			if t.found && !t.largest {
				return nil
			}
		}
		t.position += int64(h.Length)
	}
	return nil
}

// scanAppend looks at the records of an append, whose blocks it verifies.
func (t *timeSearch) scanAppend(h *model.AppendHeader, least int64) error {
	end := t.position + int64(h.Length)
	if err := t.load(t.position, end); err != nil {
		return err
	}
	b := t.mapping.Slice(t.position+model.HeaderSize, end)
	for len(b) > 0 {
		var block model.BlockHeader
		if err := block.Verify(b, t.segment.shard.identity); err != nil {
			return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, t.segment.path, end-int64(len(b)), err)
		}
		for rest := b[model.BlockHeaderSize:block.Size()]; len(rest) > 0; {
			var r model.Record
			n, err := model.ParseRecord(rest, &r)
			if err != nil {
				return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, t.segment.path, end-int64(len(b)), err)
			}
			rest = rest[n:]
			ts := h.BaseTimestamp + r.TimestampDelta
			if h.Flags&model.FlagLogAppendTime != 0 {
				ts = h.MaxTimestamp
			}
			if r.Offset < t.from || r.Offset >= t.below || ts < least {
				continue
			}
			t.found, t.offset, t.timestamp, t.epoch = true, r.Offset, ts, h.LeaderEpoch
			if !t.largest {
				return nil
			}
			least = ts + 1
		}
		b = b[block.Size():]
	}
	return nil
}

func (t *timeSearch) load(from, end int64) error {
	if end <= t.loaded {
		return nil
	}
	from = max(from, t.loaded)
	to := min(max(end, from+residencyStep), t.limit)
	if err := t.mapping.Load(from, to); err != nil {
		return fmt.Errorf("load segment %s at %d: %w: %w", t.segment.path, from, ErrStorage, err)
	}
	t.loaded = to
	return nil
}
