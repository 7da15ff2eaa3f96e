package engine

import (
	"fmt"
	"time"
)

// deletedSuffix marks files and directories that left the log and wait for their removal.
const deletedSuffix = ".deleted"

// orphanSuffix marks directories of shards with records whose topic nobody knows. Nothing removes them.
const orphanSuffix = ".orphan"

// clockJump is how much more or less than the time between two looks the clock may have moved; clockHold is
// the number of looks during which nothing is deleted by age after it moved otherwise. A clock that jumps and
// is set right soon after thus takes no data; one that stays where it is rules after the hold.
const (
	clockJump = time.Minute
	clockHold = 3
)

// clockWatch tells jumps of the clock from the passing of time, which it measures by itself.
type clockWatch struct {
	wall time.Time // the store's clock at the last look
	mono time.Time // and the monotonic one
	hold int
}

// trusted is called once a look and tells whether ages can be believed.
func (c *clockWatch) trusted(wall, mono time.Time) bool {
	if !c.wall.IsZero() {
		// Round strips the monotonic reading, so that the difference is the wall clock's.
		moved := wall.Round(0).Sub(c.wall.Round(0)) - mono.Sub(c.mono)
		if moved > clockJump || moved < -clockJump {
			c.hold = clockHold
		} else if c.hold > 0 {
			c.hold--
		}
	}
	c.wall, c.mono = wall, mono
	return c.hold == 0
}

// retain deletes what retention no longer wants, in all shards.
func (k *keeper) retain() {
	now := k.store.opts.Now()
	byAge := k.clock.trusted(now, time.Now())
	if !byAge {
		k.store.metrics.RetentionHeld.Add(1)
		k.store.log.Warn("clock jumped: retention by age waits", "looks", k.clock.hold)
	}
	for _, sh := range k.store.all() {
		if k.store.Failed() != nil || k.store.closing.Load() {
			return
		}
		if err := sh.retain(now.UnixMilli(), byAge); err != nil {
			k.store.log.Warn("retention failed", "shard", sh.id.String(), "err", err)
		}
	}
}

// retain deletes the shard's oldest sealed segments as far as they are too old, too many bytes, or below the
// log start. An active segment whose newest record is too old, or that lies below the log start, is sealed
// first, so that retention holds for idle topics too.
func (sh *Shard) retain(now int64, byAge bool) error {
	list := sh.list.Load()
	active := list.active()
	if active == nil || sh.unusable() != nil {
		return nil
	}
	config := sh.config.Load()
	expired := func(s *segment) bool {
		return byAge && config.RetentionAge >= 0 && now-s.retentionTime() > config.RetentionAge.Milliseconds()
	}
	start := sh.logStart.Load()
	if !active.empty() && (expired(active) || active.next.Load() <= start) {
		sh.rollAndWait()
	}
	sh.maintain.Lock()
	defer sh.maintain.Unlock()
	list = sh.list.Load()
	size := sh.Size()
	n := 0
	for _, s := range list.segments[:max(len(list.segments)-1, 0)] {
		bytes := s.published.Load()
		tooMany := config.RetentionBytes >= 0 && size-bytes >= config.RetentionBytes
		if !expired(s) && !tooMany && s.next.Load() > start {
			break
		}
		size -= bytes
		n++
	}
	if n == 0 {
		return nil
	}
	return sh.deleteSegments(n, list.segments[n].base)
}

// rollAndWait lets the writer seal the active segment.
func (sh *Shard) rollAndWait() {
	done := make(chan struct{})
	sh.mu.Lock()
	if sh.exclusive || sh.deleted.Load() || sh.store.closing.Load() {
		sh.mu.Unlock()
		return
	}
	sh.rollAsked = append(sh.rollAsked, done)
	wake := !sh.queued
	sh.queued = true
	sh.mu.Unlock()
	if wake {
		sh.writer.enqueue(sh)
	}
	<-done
}

// DeleteRecords moves the log start up to before, durably, and deletes the segments that lie below it. It
// returns the log start, which may be higher already. ErrOffsetOutOfRange: before is above the high
// watermark. It blocks.
func (sh *Shard) DeleteRecords(before int64) (logStart int64, err error) {
	if err := sh.unusable(); err != nil {
		return -1, err
	}
	if before > sh.highWatermark.Load() || before < 0 {
		return -1, fmt.Errorf("delete records below %d: %w: high watermark %d", before, ErrOffsetOutOfRange,
			sh.highWatermark.Load())
	}
	sh.maintain.Lock()
	defer sh.maintain.Unlock()
	if start := sh.logStart.Load(); before <= start {
		return start, nil
	}
	list := sh.list.Load()
	n := 0
	for n < len(list.segments)-1 && list.segments[n].next.Load() <= before {
		n++
	}
	if err := sh.deleteSegments(n, before); err != nil {
		return -1, err
	}
	return sh.logStart.Load(), nil
}

// deleteSegments moves the log start and takes the first n segments out of the log, with the log start and
// the list of segments durable before any file goes. The caller holds maintain.
func (sh *Shard) deleteSegments(n int, start int64) error {
	store := sh.store
	if err := store.Failed(); err != nil {
		return err
	}
	if sh.deleted.Load() {
		return ErrShardDeleted // while maintain was waited for: its directory is not there any more
	}
	list := sh.list.Load()
	if n > 0 {
		// The header of what stays must be durable before what was before it goes, and so must what only the
		// deleted records tell of producers.
		if err := store.keeper.checkpointSome([]*Shard{sh}); err != nil {
			return err
		}
	}
	if err := sh.commitStart(list.segments[:n], start); err != nil {
		return err
	}
	sh.mu.Lock()
	sh.logStart.Store(max(start, sh.logStart.Load()))
	sh.epochs = sh.epochs.truncateStart(start)
	// The writer may have added a segment since.
	sh.list.Store(&segmentList{append([]*segment(nil), sh.list.Load().segments[n:]...)})
	sh.mu.Unlock()
	for _, s := range list.segments[:n] {
		sh.discard(s)
	}
	if n > 0 {
		// Or a power cut brings the files back.
		if err := store.fs.SyncDir(sh.dir); err != nil {
			return store.fail(err)
		}
	}
	if sh.dirMade.Load() {
		if err := sh.writeShardFile(start, true); err != nil {
			store.log.Warn("second copy of the log start is old", "shard", sh.id.String(), "err", err)
		}
	}
	sh.notify()
	return nil
}

// commitStart makes the new log start durable, and that some segments are no longer part of the log.
func (sh *Shard) commitStart(gone []*segment, start int64) error {
	store := sh.store
	store.catalogue.Lock()
	defer store.catalogue.Unlock()
	b := store.index.db.NewBatch()
	setLogStart(b, sh.id, start)
	for _, s := range gone {
		b.Delete(appendSegmentKey(nil, sh.id, s.number), nil)
		dropIndex(b, s, 0)
	}
	sh.checkpoint.version.Add(1)
	if err := store.index.commit(b, true); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return nil
}

// discard lets go of a segment that left the log with its records.
func (sh *Shard) discard(s *segment) {
	sh.store.metrics.SegmentsDeleted.Add(1)
	sh.letGo(s)
	sh.store.log.Info("segment deleted", "segment", s.path, "base_offset", s.base, "end_offset", s.next.Load(),
		"bytes", s.published.Load())
}

// letGo parts with a segment that left the log. Its file stays for readers and goes after a delay.
func (sh *Shard) letGo(s *segment) {
	store := sh.store
	s.removed.Store(true)
	sh.dropUnsynced(s)
	sh.cursors.forget(s)
	store.handles.forget(s)
	aside := s.path + deletedSuffix
	if err := store.fs.Rename(s.path, aside); err != nil {
		store.log.Warn("segment rename failed", "segment", s.path, "err", err)
		aside = s.path
	}
	store.janitor.remove(aside, false, sh.config.Load().FileDeleteDelay)
}
