package engine

import (
	"errors"
	"fmt"

	"millrace/diskio"
)

// enter keeps appends out and waits until nothing is under way. leave lets them in again.
func (sh *Shard) enter() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.deleted.Load() {
		return ErrShardDeleted
	}
	for sh.exclusive {
		sh.idle.Wait()
	}
	sh.exclusive = true
	for sh.busyLocked() {
		sh.idle.Wait()
	}
	return nil
}

func (sh *Shard) leave() {
	sh.mu.Lock()
	sh.exclusive = false
	sh.idle.Broadcast()
	sh.mu.Unlock()
}

// Truncate ends the log at the append that holds offset: that append and all behind it are gone, also from
// producer states and leader epochs; appends under way are finished first and new ones answered
// ErrBackpressure meanwhile. At or above the log end it does nothing. No file is made shorter: the segment is
// sealed at the cut, and a new one, durable before Truncate returns, holds the base offset by which the rest
// does not exist. ErrOffsetOutOfRange: offset is below the log start. It blocks.
func (sh *Shard) Truncate(offset int64) error {
	if err := sh.unusable(); err != nil {
		return err
	}
	sh.maintain.Lock()
	defer sh.maintain.Unlock()
	if err := sh.enter(); err != nil {
		return err
	}
	defer sh.leave()
	if offset >= sh.logEnd.Load() {
		return nil
	}
	if offset < sh.logStart.Load() {
		return fmt.Errorf("truncate to %d: %w: log start %d", offset, ErrOffsetOutOfRange, sh.logStart.Load())
	}
	if err := sh.store.markUnclean(); err != nil {
		return err
	}
	return sh.truncateTo(offset)
}

func (sh *Shard) truncateTo(offset int64) error {
	list := sh.list.Load()
	i := list.find(offset)
	s := list.segments[i]
	cut, position, err := sh.findCut(s, offset)
	if err != nil {
		return fmt.Errorf("truncate to %d: %w", offset, err)
	}
	latest, latestBase, end, err := sh.measure(s, position)
	if err != nil {
		return fmt.Errorf("truncate to %d: %w", offset, err)
	}
	if s.generation > 1 {
		// Between two appends there may be nothing: the log ends with the one below.
		cut = min(cut, end)
	}
	// An append that reaches over the log start is cut whole, but no offset below the log start comes again.
	cut = max(cut, sh.logStart.Load())
	if err := sh.roll(cut, sh.store.nowMillis()); err != nil {
		return fmt.Errorf("truncate to %d: %w", offset, err)
	}
	var group syncGroup
	group.add(sh)
	if err := group.sync(sh.store); err != nil {
		return err // for good
	}
	kept, gone := list.segments[:i+1], list.segments[i+1:]
	if position == segmentHeaderSize {
		kept, gone = list.segments[:i], list.segments[i:]
	}
	sh.mu.Lock()
	s.sealed.Store(true)
	s.next.Store(cut)
	s.published.Store(position)
	s.written.Store(position)
	s.maxTimestamp.Store(latest)
	s.maxTimestampBase.Store(latestBase)
	sh.next = cut
	sh.producers.truncate(cut)
	sh.epochs = sh.epochs.truncateEnd(cut)
	sh.highWatermark.Store(min(sh.highWatermark.Load(), cut))
	sh.logEnd.Store(cut)
	sh.active.previous = nil
	sh.list.Store(&segmentList{append(append([]*segment(nil), kept...), sh.active)})
	sh.mu.Unlock()
	s.index.truncate(position)
	sh.cursors.forget(s)
	err = sh.commitCut(s, cut, kept, gone)
	for _, g := range gone {
		if err == nil {
			sh.discard(g)
		}
	}
	sh.noteChanged(0)
	sh.notify()
	return err
}

// findCut returns base offset and position of the append that holds offset.
func (sh *Shard) findCut(s *segment, offset int64) (cut, position int64, err error) {
	for range 2 {
		var sp Span
		sp.Offset = offset
		err = sh.readSegment(&sp, s, 1, true)
		if err == nil {
			defer sp.Release()
			if sp.AtBlock {
				return sp.Header.BaseOffset, sp.walk.headerPosition, nil
			}
			return sp.Header.BaseOffset, sp.start, nil
		}
		if !errors.Is(err, errBadLanding) && !errors.Is(err, errThinIndex) {
			return 0, 0, err
		}
		if err := sh.rebuildIndex(s); err != nil {
			return 0, 0, err
		}
	}
	return 0, 0, err
}

// commitCut records the cut as a checkpoint at the start of the new segment: recovery begins there.
func (sh *Shard) commitCut(s *segment, cut int64, kept, gone []*segment) error {
	store := sh.store
	store.catalogue.Lock()
	defer store.catalogue.Unlock()
	b := store.index.db.NewBatch()
	value := checkpointValue{segment: sh.active.number, position: segmentHeaderSize, next: cut, highWatermark: cut}
	sh.mu.Lock()
	value.epochs = append(value.epochs, sh.epochs...)
	sh.mu.Unlock()
	b.Set(appendShardKey(nil, keyCheckpoint, sh.id), value.append(nil), nil)
	for _, k := range append(append([]*segment(nil), kept...), sh.active) {
		meta := k.meta()
		b.Set(appendSegmentKey(nil, sh.id, k.number), meta.append(nil), nil)
	}
	sh.cleaned.cuts.Add(1)
	if sh.cleaned.upTo.Load() > cut {
		sh.cleaned.upTo.Store(cut)
		sh.setCleaned(b, cleanedValue{cut, sh.cleaned.horizon.Load()})
	}
	dropIndex(b, s, cut)
	for _, g := range gone {
		b.Delete(appendSegmentKey(nil, sh.id, g.number), nil)
		dropIndex(b, g, 0)
	}
	sh.checkpoint.version.Add(1)
	if err := store.index.commit(b, true); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return nil
}

// measure finds the largest timestamp of a segment below a position, and the offset after its last append there.
func (sh *Shard) measure(s *segment, position int64) (latest, latestBase, end int64, err error) {
	if position == segmentHeaderSize {
		return noTimestamp, -1, s.base, nil
	}
	h, err := sh.store.handles.openSegment(s)
	if err != nil {
		return 0, 0, 0, err
	}
	defer h.release()
	mapping, err := h.mapTo(position)
	if err != nil {
		return 0, 0, 0, err
	}
	scan := headerScan{segment: s, mapping: mapping, limit: position, position: segmentHeaderSize}
	if err := diskio.Guard(&scan); err != nil {
		return 0, 0, 0, fmt.Errorf("segment %s at %d: %w", s.path, scan.position, err)
	}
	return scan.latest, scan.latestBase, scan.next, nil
}
