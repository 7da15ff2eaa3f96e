package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path/filepath"
	"time"
)

// rollDue tells whether an append of so many bytes opens a new segment: there is none, it would take the
// active one over its size, or that one is old. A segment thus passes segment.bytes only where a single
// append does. (The rule of looking every 10,000 offsets at 90 % is weaker on both sides.)
func (sh *Shard) rollDue(bytes, now int64) bool {
	s := sh.active
	if s == nil || s.mustRoll {
		return true
	}
	if s.tail == segmentHeaderSize {
		return false
	}
	config := sh.config.Load()
	return s.tail+bytes > config.SegmentBytes || sh.tooOld(s, config, now)
}

// tooOld tells whether a segment has passed its age, or holds back for too long what is to be compacted. The
// jitter spreads segments made together; it is taken from the identity of shard and segment, so that it stays.
func (sh *Shard) tooOld(s *segment, config *ShardConfig, now int64) bool {
	age := config.SegmentAge
	if config.SegmentJitter > 0 {
		draw, _ := bits.Mul64(mix(uint64(sh.identity)<<32^s.number), uint64(config.SegmentJitter))
		age -= min(age, time.Duration(draw))
	}
	if config.Compact {
		age = min(age, config.MaxCompactionLag)
	}
	return now-s.begun() >= age.Milliseconds()
}

// begun returns when the segment got its first append, milliseconds; where that was before the start, when it
// was made.
func (s *segment) begun() int64 {
	if first := s.firstWritten.Load(); first != 0 {
		return first
	}
	return s.created
}

// mix spreads a number over all its bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// roll makes a new active segment whose first record will be at base. The old one is sealed when the new
// one is published. It may block; only the shard's writer, or the holder of its exclusive section, calls it.
func (sh *Shard) roll(base, now int64) error {
	if err := sh.makeDir(); err != nil {
		return err
	}
	header := segmentHeader{
		Shard: sh.id, Generation: 1, BaseOffset: base, LeaderEpoch: sh.leaderEpoch.Load(), Created: now,
	}
	store := sh.store
	if err := store.handles.makeRoom(); err != nil {
		return fmt.Errorf("make segment in %s: %w", sh.dir, err)
	}
	for {
		header.Number = sh.nextNumber
		s := newSegment(sh, &header, filepath.Join(sh.dir, segmentName(header.Number)))
		s.index.reset(true)
		file, err := store.fs.Create(s.path)
		if errors.Is(err, fs.ErrExist) {
			// Something that is not ours, or was set aside: its number is taken.
			sh.nextNumber++
			continue
		}
		if err != nil {
			return fmt.Errorf("make segment %s: %w: %w", s.path, ErrStorage, err)
		}
		var frame [segmentHeaderSize]byte
		header.put(frame[:])
		if _, err := file.WriteAt(frame[:], 0); err != nil {
			file.Close()
			store.fs.Remove(s.path)
			return fmt.Errorf("make segment %s: %w: %w", s.path, ErrStorage, err)
		}
		h := &handle{segment: s, file: file}
		s.previous = sh.active
		sh.nextNumber++
		sh.active = s
		sh.noteUnsynced(s)
		store.handles.add(h)
		store.metrics.SegmentsRolled.Add(1)
		return nil
	}
}

// unroll removes a segment that nothing was written to.
func (sh *Shard) unroll(s *segment) {
	s.removed.Store(true)
	sh.active = s.previous
	sh.dropUnsynced(s)
	sh.store.handles.forget(s)
	if err := sh.store.fs.Remove(s.path); err != nil {
		sh.store.log.Warn("segment remove failed", "segment", s.path, "err", err)
	}
}

// makeDir makes the shard's directory before its first segment: a shard that nobody writes costs no file.
func (sh *Shard) makeDir() error {
	if sh.dirMade.Load() {
		return nil
	}
	if err := sh.store.fs.MkdirAll(sh.dir); err != nil {
		return fmt.Errorf("make shard %s: %w: %w", sh.dir, ErrStorage, err)
	}
	if err := sh.makeShardFile(); err != nil {
		return err
	}
	sh.dirMade.Store(true)
	return nil
}

// rollAsked seals the active segment for those who asked, and tells them.
func (w *writer) rollAsked(sh *Shard, rolls []chan struct{}, now int64, can bool) {
	if can {
		w.rollIdle(sh, now)
	}
	sh.mu.Lock()
	sh.rolling = false
	sh.signalLocked()
	sh.mu.Unlock()
	for _, done := range rolls {
		close(done)
	}
}

// rollIdle seals the active segment without an append, for retention.
func (w *writer) rollIdle(sh *Shard, now int64) {
	s := sh.active
	if s == nil {
		return
	}
	if s.tail != segmentHeaderSize {
		// Below the log start there may be nothing to follow.
		if err := sh.roll(max(s.writtenNext, sh.logStart.Load()), now); err != nil {
			w.store.log.Warn("segment roll failed", "shard", sh.id.String(), "topic", sh.topicName, "err", err)
			return
		}
	}
	sh.mu.Lock()
	// While a chunk of the old segment waits for its sync the new one may not enter the log; retention asks
	// again.
	if sh.syncing == 0 {
		sh.enlist(sh.active)
	}
	sh.mu.Unlock()
}

// noteWritten tells that a segment's bytes up to end, and its records below next, are written.
func (sh *Shard) noteWritten(s *segment, end, next, now int64) {
	s.inherited.Store(false)
	s.written.Store(end)
	s.writtenNext = next
	s.lastWritten.Store(now)
	if s.firstWritten.Load() == 0 {
		s.firstWritten.Store(now)
	}
	if end >= s.staleEnd {
		s.staleEnd = 0
	}
	sh.noteUnsynced(s)
	sh.store.allocator.grown(s, end)
}

// noteUnsynced remembers that the segment has bytes to be made durable.
func (sh *Shard) noteUnsynced(s *segment) {
	sh.mu.Lock()
	if !s.unsynced {
		s.unsynced = true
		s.unsyncedOrder.Store(sh.store.handles.order.Add(1))
		sh.unsynced = append(sh.unsynced, s)
	}
	sh.mu.Unlock()
}

func (sh *Shard) dropUnsynced(s *segment) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i, u := range sh.unsynced {
		if u == s {
			sh.unsynced = append(sh.unsynced[:i], sh.unsynced[i+1:]...)
			break
		}
	}
	s.unsynced = false
}
