package engine

import (
	"fmt"

	"millrace/diskio"
	"millrace/engine/model"
)

// Bounds of a walk over mapped bytes.
const (
	// residencyStep is how much is asked for at once whether it is resident; one question costs 0.4 us.
	residencyStep = 256 << 10
	// walkMax is the distance after which a walk gives up on a thin index; entries stand a stride apart, and
	// an append or block beyond that is stepped over whatever its size.
	walkMax  = 4 * indexStride
	stepsMin = 4
)

// walk finds the append or block that holds an offset, and the end of the bytes to serve. It runs under
// diskio.Guard, since it reads mapped bytes. It is part of a Span, so that it costs no allocation.
type walk struct {
	segment  *segment
	mapping  diskio.Mapping
	limit    int64 // published bytes
	blocking bool  // may load what is not resident

	from   indexEntry // where to begin
	offset int64      // what to find
	most   int64      // bytes wished
	ending int64      // position wished for the end
	floor  indexEntry // an entry at or below ending
	floors bool       // there is one

	resident       int64 // [residentFrom, resident) is known to be in memory
	residentFrom   int64
	header         model.AppendHeader
	headerPosition int64
	start, end     int64
	atBlock        bool
	nextHeader     model.AppendHeader
}

// RunGuarded carries the walk out. Errors: ErrNeedsLoad, errBadLanding, errThinIndex, ErrCorrupt.
func (w *walk) RunGuarded() error {
	if err := w.seek(); err != nil {
		return err
	}
	if err := w.measure(); err != nil {
		return err
	}
	if w.segment.generation > 1 {
		return w.widen()
	}
	return nil
}

// widen adds the block after the first where that is all there is and its append goes on: compaction may have removed
// the offset and all behind it from the first, and a reader would find nothing to go on with.
func (w *walk) widen() error {
	first, err := w.unitEnd(w.start, w.headerPosition, &w.header)
	if err != nil || w.end > first || first >= w.headerPosition+int64(w.header.Length) {
		return err
	}
	w.end, err = w.unitEnd(first, w.headerPosition, &w.header)
	return err
}

// bytes returns [pos, pos+n) after making sure that touching it does not stall, nil with ok where the
// segment ends before.
func (w *walk) bytes(pos, n int64) ([]byte, error) {
	end := pos + n
	if end > w.limit {
		return nil, fmt.Errorf("%w: %s at %d: %d bytes wanted, %d published", ErrCorrupt, w.segment.path, pos, n, w.limit)
	}
	if pos < w.residentFrom || end > w.resident {
		ahead := min(w.limit, max(end, pos+residencyStep))
		if !w.mapping.Resident(pos, ahead) {
			// The pages ahead may be cold while these are not.
			ahead = end
			if !w.mapping.Resident(pos, end) {
				if !w.blocking {
					return nil, ErrNeedsLoad
				}
				ahead = min(w.limit, max(end, pos+residencyStep))
				if err := w.mapping.Load(pos, ahead); err != nil {
					return nil, fmt.Errorf("load segment %s at %d: %w: %w", w.segment.path, pos, ErrStorage, err)
				}
			}
		}
		if pos > w.resident || pos < w.residentFrom {
			w.residentFrom = pos
		}
		w.resident = ahead
	}
	return w.mapping.Slice(pos, end), nil
}

// parseHeader reads the append header at a position.
func (w *walk) parseHeader(pos int64, h *model.AppendHeader) error {
	b, err := w.bytes(pos, model.HeaderSize)
	if err != nil {
		return err
	}
	if err := h.Parse(b, w.segment.shard.identity); err != nil {
		return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, w.segment.path, pos, err)
	}
	if pos+int64(h.Length) > w.limit {
		return fmt.Errorf("%w: %s at %d: append of %d bytes, %d published", ErrCorrupt, w.segment.path, pos,
			h.Length, w.limit)
	}
	return nil
}

// land verifies the bytes that an index entry points to, and finds their append's header.
func (w *walk) land(e *indexEntry, h *model.AppendHeader) (position int64, err error) {
	position = e.position
	if e.block {
		b, err := w.bytes(e.position, model.BlockHeaderSize+8)
		if err != nil {
			return 0, err
		}
		var block model.BlockHeader
		if err := block.Parse(b); err != nil {
			return 0, fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, w.segment.path, e.position, err)
		}
		if position -= int64(block.Back); position < segmentHeaderSize || firstOffset(b) != e.offset {
			return 0, fmt.Errorf("%w: %s at %d: block %d back with offset %d instead of %d", ErrCorrupt,
				w.segment.path, e.position, block.Back, firstOffset(b), e.offset)
		}
	}
	if err := w.parseHeader(position, h); err != nil {
		return 0, err
	}
	// Of a segment's first appends compaction may have removed some.
	before := e.offset < h.BaseOffset && position != segmentHeaderSize
	if before || e.offset > h.LastOffset || e.position >= position+int64(h.Length) {
		return 0, fmt.Errorf("%w: %s at %d: append of offsets %d to %d instead of %d", ErrCorrupt,
			w.segment.path, e.position, h.BaseOffset, h.LastOffset, e.offset)
	}
	return position, nil
}

// seek finds the append that holds the offset, or the first above it, and in it the block.
func (w *walk) seek() error {
	pos, err := w.land(&w.from, &w.header)
	if err != nil {
		if isNeedsLoad(err) {
			return err
		}
		return fmt.Errorf("%w: %w", errBadLanding, err)
	}
	block := w.from.block && w.header.LastOffset >= w.offset
	for steps := 0; w.header.LastOffset < w.offset; steps++ {
		next := pos + int64(w.header.Length)
		if next-w.from.position > walkMax && steps > stepsMin {
			return errThinIndex
		}
		expect := w.header.LastOffset + 1
		if err := w.parseHeader(next, &w.header); err != nil {
			return err
		}
		if w.header.BaseOffset < expect {
			return fmt.Errorf("%w: %s at %d: offset %d after %d", ErrCorrupt, w.segment.path, next,
				w.header.BaseOffset, expect-1)
		}
		pos = next
	}
	w.headerPosition, w.start, w.atBlock = pos, pos, false
	if w.header.BlockCount < 2 || w.offset <= w.header.BaseOffset {
		return nil
	}
	first := pos + model.HeaderSize
	if block {
		first = w.from.position
	}
	return w.seekBlock(first)
}

// seekBlock steps over the blocks of the append that end before the offset. What a block begins with is not
// verified here; the reader verifies the block that it serves, and a wrong choice cannot pass that.
func (w *walk) seekBlock(pos int64) error {
	first := w.headerPosition + model.HeaderSize
	for {
		var block model.BlockHeader
		b, err := w.bytes(pos, model.BlockHeaderSize)
		if err != nil {
			return err
		}
		if err := block.Parse(b); err != nil {
			return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, w.segment.path, pos, err)
		}
		next := pos + int64(block.Size())
		if block.Last || next >= w.headerPosition+int64(w.header.Length) {
			break
		}
		if b, err = w.bytes(next, model.BlockHeaderSize+8); err != nil {
			return err
		}
		if firstOffset(b) > w.offset {
			break
		}
		pos = next
	}
	if pos != first {
		w.start, w.atBlock = pos, true
	}
	return nil
}

// measure finds the end: the last border of a block that is not behind the wished one, but at least one
// block.
func (w *walk) measure() error {
	w.ending = w.start + min(w.most, w.limit-w.start)
	if w.ending >= w.limit {
		w.end = w.limit
		return nil
	}
	w.floor, w.floors = w.segment.index.floorPosition(w.segment.base, w.ending)
	if w.floors && w.floor.position > w.start+(w.ending-w.start)/2 {
		w.end = w.floor.position
		return nil
	}
	pos, headerPosition, header := w.start, w.headerPosition, &w.header
	if w.floors && w.floor.position > w.start {
		hp, err := w.land(&w.floor, &w.nextHeader)
		if err == nil {
			pos, headerPosition, header = w.floor.position, hp, &w.nextHeader
		} else if isNeedsLoad(err) {
			w.end = w.floor.position
			return nil
		}
	}
	w.end = pos
	for w.end < w.limit {
		end, err := w.unitEnd(pos, headerPosition, header)
		if err != nil {
			if w.end > w.start {
				return nil // what there is up to here can be served
			}
			return err
		}
		if end > w.ending && w.end > w.start {
			return nil
		}
		w.end, pos = end, end
		if end >= w.ending {
			return nil
		}
		if end == headerPosition+int64(header.Length) && end < w.limit {
			header, headerPosition = &w.nextHeader, end
			if w.parseHeader(end, header) != nil {
				return nil
			}
		}
	}
	return nil
}

// unitEnd returns the end of the block at a position, together with the header frame where that stands
// there.
func (w *walk) unitEnd(pos, headerPosition int64, header *model.AppendHeader) (int64, error) {
	if pos == headerPosition {
		if header.BlockCount < 2 {
			return pos + int64(header.Length), nil
		}
		pos += model.HeaderSize
	}
	b, err := w.bytes(pos, model.BlockHeaderSize)
	if err != nil {
		return 0, err
	}
	var block model.BlockHeader
	if err := block.Parse(b); err != nil {
		return 0, fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, w.segment.path, pos, err)
	}
	end := pos + int64(block.Size())
	if end > headerPosition+int64(header.Length) {
		return 0, fmt.Errorf("%w: %s at %d: block passes its append's end", ErrCorrupt, w.segment.path, pos)
	}
	return end, nil
}
