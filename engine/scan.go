package engine

import (
	"context"
	"errors"
	"fmt"

	"millrace/diskio"
	"millrace/engine/model"
)

// appendScan verifies the appends of a segment from a position on, for recovery: headers, blocks, records,
// offsets without a gap and epochs that do not fall. It stops before the first append that is not whole, or
// that reaches the limit of offsets. It reads a mapping: run it under diskio.Guard.
type appendScan struct {
	shard    *Shard
	segment  *segment
	mapping  diskio.Mapping
	size     int64 // of the file
	limit    int64 // offsets at and above do not exist, since a later segment begins there
	now      int64
	position int64
	next     int64
	epoch    int32

	loaded int64
	yield  int64 // where to return to the caller, which may report progress
	done   bool
	bad    error // why it stopped, nil at the end of the file or at the limit
	// unreadable: the disk did not give the bytes, or a newer program wrote them. What follows is not known.
	unreadable bool
}

// scanWindow is how far a scan goes between two looks at the caller.
const scanWindow = 64 << 20

// RunGuarded scans up to the yield position.
func (s *appendScan) RunGuarded() error {
	for !s.done && s.position < s.yield {
		s.step()
	}
	return nil
}

func (s *appendScan) step() {
	if s.position >= s.size || s.next >= s.limit {
		s.done = true
		return
	}
	if s.bad = s.load(min(s.position+model.HeaderSize, s.size)); s.bad != nil {
		s.done = true
		return
	}
	var h model.AppendHeader
	err := h.Parse(s.mapping.Slice(s.position, min(s.position+model.HeaderSize, s.size)), s.shard.identity)
	if err == nil && h.LastOffset >= s.limit {
		s.done = true
		return
	}
	s.unreadable = isNewer(err)
	if err == nil {
		err = s.load(min(s.position+int64(h.Length), s.size))
	}
	n := 0
	if err == nil {
		b := s.mapping.Slice(s.position, min(s.position+int64(h.Length), s.size))
		if h, n, err = scanAppend(b, s.segment.generation, s.shard.identity, s.next, s.epoch); err == nil {
			s.take(&h, b)
		}
	}
	if err != nil {
		s.bad, s.done = err, true
		return
	}
	s.position += int64(n)
}

// isNewer tells an append of a newer program from damage: the checksum of its header is right.
func isNewer(err error) bool {
	return errors.Is(err, model.ErrVersion) || errors.Is(err, model.ErrKind) || errors.Is(err, model.ErrFlags) ||
		errors.Is(err, model.ErrBodyCodec)
}

// scanAppend verifies an append. Offsets have gaps only where compaction made them.
func scanAppend(b []byte, generation, identity uint32, next int64, epoch int32) (h model.AppendHeader, n int, err error) {
	expect := next
	if generation > 1 {
		expect = -1
	}
	h, n, err = model.ScanAppend(b, identity, expect, epoch)
	if err == nil && h.BaseOffset < next {
		return h, 0, fmt.Errorf("%w: base offset %d after %d", model.ErrOrder, h.BaseOffset, next-1)
	}
	return h, n, err
}

// take notes a verified append.
func (s *appendScan) take(h *model.AppendHeader, b []byte) {
	sh := s.shard
	e := entry{base: h.BaseOffset, last: h.LastOffset, maxTimestamp: h.MaxTimestamp}
	s.segment.indexAppend(&e, b, s.position)
	sh.epochs = sh.epochs.assign(h.LeaderEpoch, h.BaseOffset)
	if h.ProducerID >= 0 {
		sh.producers.apply(h, s.now, nil)
	}
	s.next, s.epoch = h.LastOffset+1, h.LeaderEpoch
}

func (s *appendScan) load(end int64) error {
	if end <= s.loaded {
		return nil
	}
	from := max(s.position, s.loaded)
	to := min(max(end, from+loadWindow), s.size)
	if err := s.mapping.Load(from, to); err != nil {
		s.unreadable = true
		return fmt.Errorf("load at %d: %w", from, err)
	}
	s.loaded = to
	return nil
}

// scanSegment verifies a segment from a position on and makes what is whole its published content.
func (sh *Shard) scanSegment(ctx context.Context, s *segment, from, next, limit int64, epoch int32) (*appendScan, error) {
	h, err := sh.store.handles.openSegment(s)
	if err != nil {
		return nil, err
	}
	defer h.release()
	size, err := h.file.Size()
	if err != nil {
		return nil, fmt.Errorf("size of segment %s: %w: %w", s.path, ErrStorage, err)
	}
	scan := &appendScan{
		shard: sh, segment: s, size: size, limit: limit, now: sh.store.nowMillis(),
		position: from, next: next, epoch: epoch,
	}
	if from < size {
		if scan.mapping, err = h.mapTo(size); err != nil {
			return nil, err
		}
	}
	for !scan.done {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := scan.position
		scan.yield = start + scanWindow
		if err := diskio.Guard(scan); err != nil {
			scan.bad, scan.done, scan.unreadable = err, true, true
		}
		sh.store.progress.scanned(scan.position - start)
	}
	if scan.unreadable {
		// No end of the log: a later start, another disk or a newer program may read it.
		return nil, fmt.Errorf("read segment %s at %d: %w: %w", s.path, scan.position, ErrStorage, scan.bad)
	}
	s.recorded.Store(false) // what is on record of it may be older than a cut
	s.published.Store(scan.position)
	s.written.Store(scan.position)
	s.tail, s.writtenNext = scan.position, scan.next
	s.next.Store(scan.next)
	return scan, nil
}

// junkBehind tells whether the file holds anything but zeros behind a position.
func (sh *Shard) junkBehind(s *segment, position int64) (bool, error) {
	h, err := sh.store.handles.openSegment(s)
	if err != nil {
		return false, err
	}
	defer h.release()
	size, err := h.file.Size()
	if err != nil {
		return false, fmt.Errorf("size of segment %s: %w: %w", s.path, ErrStorage, err)
	}
	buffer := make([]byte, min(max(size-position, 0), 1<<20))
	for position < size {
		b := buffer[:min(int64(len(buffer)), size-position)]
		if n, err := h.file.ReadAt(b, position); n < len(b) {
			return false, fmt.Errorf("read segment %s at %d: %w: %w", s.path, position, ErrStorage, err)
		}
		for _, c := range b {
			if c != 0 {
				return true, nil
			}
		}
		position += int64(len(b))
	}
	return false, nil
}
