package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"millrace/diskio"
	"millrace/engine/model"
)

const (
	// unfinishedSuffix marks the file of a compaction under way. It does not count and goes at the next start.
	unfinishedSuffix = ".new"
	cleanWriteBytes  = 256 << 10
	// cleanSyncBytes is how much compaction writes before it waits until that is on the disk: writers of records
	// are slowed down by the kernel where much waits for that.
	cleanSyncBytes = 32 << 20
)

// errCleanSpace: compaction needs space for what it writes beside the old segments.
var errCleanSpace = fmt.Errorf("%w: too little free space to compact", ErrStorage)

// segmentOutput writes the segment that takes the place of a group.
type segmentOutput struct {
	cleaner  *cleaner
	segment  *segment // nil: not open
	file     diskio.File
	buffer   []byte
	position int64 // in the file of what buffer begins with
	unsynced int64
	next     int64 // offset after the last append
	builder  model.Builder
}

// open makes the file. The segment has the number of the group's last, so that those before it count for
// nothing beside it, and the base offset of its first.
func (o *segmentOutput) open(sh *Shard, g *cleanGroup) error {
	store := sh.store
	if free, err := store.fs.Free(sh.dir); err == nil && free-g.bytes < store.opts.ReserveBytes {
		return fmt.Errorf("%w: %d bytes free, %d to be written", errCleanSpace, free, g.bytes)
	}
	first, last := g.segments[0], g.segments[len(g.segments)-1]
	header := segmentHeader{
		Shard: sh.id, Number: last.number, Generation: last.generation + 1, BaseOffset: first.base,
		LeaderEpoch: first.epoch, Created: first.created,
	}
	path := filepath.Join(sh.dir, segmentFileName(header.Number, header.Generation))
	for _, left := range []string{path, path + unfinishedSuffix} {
		// Of an attempt that failed.
		if err := store.fs.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("compact into %s: %w: %w", path, ErrStorage, err)
		}
	}
	file, err := store.fs.Create(path + unfinishedSuffix)
	if err != nil {
		return fmt.Errorf("compact into %s: %w: %w", path, ErrStorage, err)
	}
	o.segment, o.file = newSegment(sh, &header, path), file
	o.segment.index.reset(true)
	o.segment.lastWritten.Store(last.lastWritten.Load())
	o.position, o.unsynced, o.next = 0, 0, header.BaseOffset
	if cap(o.buffer) < cleanWriteBytes {
		o.buffer = make([]byte, 0, 2*cleanWriteBytes)
	}
	o.buffer = o.buffer[:segmentHeaderSize]
	header.put(o.buffer)
	return nil
}

// add writes an append as it is.
func (o *segmentOutput) add(h *model.AppendHeader, b []byte) error {
	start := len(o.buffer)
	o.buffer = append(o.buffer, b...)
	return o.added(h, start)
}

// addHeader writes an append under another header.
func (o *segmentOutput) addHeader(h *model.AppendHeader, b []byte) error {
	start := len(o.buffer)
	o.buffer = append(o.buffer, b...)
	h.Put(o.buffer[start:])
	return o.added(h, start)
}

// addEmpty writes an append without records for the offsets and the producer's facts of h.
func (o *segmentOutput) addEmpty(h *model.AppendHeader) error {
	h.Kind, h.RecordCount, h.BlockCount, h.Length = model.KindEmpty, 0, 0, model.HeaderSize
	h.BaseTimestamp, h.MaxTimestamp = -1, -1
	start := len(o.buffer)
	o.buffer = append(o.buffer, make([]byte, model.HeaderSize)...)
	h.Put(o.buffer[start:])
	return o.added(h, start)
}

// addKept writes an append with some of its records, the largest of whose timestamps is given as a delta.
func (o *segmentOutput) addKept(h *model.AppendHeader, b []byte, kept []bool, latest int64) error {
	start := len(o.buffer)
	if h.Flags&model.FlagLogAppendTime == 0 {
		h.MaxTimestamp = max(h.BaseTimestamp+latest, -1)
	}
	last := h.LastOffset
	o.builder.Begin(o.buffer, h.Identity, h, h.BaseOffset)
	at := 0
	for rest := b[model.HeaderSize:]; len(rest) > 0; {
		var block model.BlockHeader
		if err := block.Parse(rest); err != nil {
			return o.cleaner.reader.damage(err)
		}
		for records := rest[model.BlockHeaderSize:block.Size()]; len(records) > 0; at++ {
			n := recordSize(records)
			if kept[at] {
				o.builder.AddStored(recordOffset(records), records[:n])
			}
			records = records[n:]
		}
		rest = rest[block.Size():]
	}
	o.buffer = o.builder.Finish(h)
	if h.LastOffset != last {
		return fmt.Errorf("%w: append at offset %d has a record at %d behind its last", ErrCorrupt, h.BaseOffset, h.LastOffset)
	}
	return o.added(h, start)
}

// added notes the append that stands in the buffer from start on.
func (o *segmentOutput) added(h *model.AppendHeader, start int) error {
	e := entry{base: h.BaseOffset, last: h.LastOffset, maxTimestamp: h.MaxTimestamp}
	o.segment.noteAppend(&e, o.buffer[start:], o.position+int64(start))
	o.next = h.LastOffset + 1
	if len(o.buffer) < cleanWriteBytes {
		return nil
	}
	return o.flush()
}

// copyPrefix takes over a segment's appends below a position, which all stay.
func (o *segmentOutput) copyPrefix(s *segment, position int64) error {
	reader := appendReader{cleaner: o.cleaner}
	if err := reader.open(s); err != nil {
		return err
	}
	defer reader.close()
	for reader.position < position {
		var h model.AppendHeader
		b, err := reader.read(&h)
		if err == nil {
			err = o.add(&h, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flush writes what is in the buffer.
func (o *segmentOutput) flush() error {
	store := o.cleaner.store
	n := len(o.buffer)
	if err := o.cleaner.pause(o.segment.shard, n); err != nil {
		return err
	}
	if _, err := o.file.WriteAt(o.buffer, o.position); err != nil {
		return fmt.Errorf("write segment %s at %d: %w: %w", o.segment.path, o.position, ErrStorage, err)
	}
	o.position += int64(n)
	o.buffer = o.buffer[:0]
	store.metrics.CleanWrittenBytes.Add(int64(n))
	store.space.wrote(int64(n))
	if o.unsynced += int64(n); o.unsynced >= cleanSyncBytes {
		return o.sync()
	}
	return nil
}

func (o *segmentOutput) sync() error {
	o.unsynced = 0
	// Where this fails the file is given up: nothing else depends on what the disk has of it.
	if err := o.file.Sync(); err != nil {
		return fmt.Errorf("sync segment %s: %w: %w", o.segment.path, ErrStorage, err)
	}
	return nil
}

// finish makes the file whole and durable under its unfinished name.
func (o *segmentOutput) finish() error {
	if err := o.flush(); err != nil {
		return err
	}
	if err := o.sync(); err != nil {
		return err
	}
	err := o.file.Close()
	o.file = nil
	if err != nil {
		return fmt.Errorf("close segment %s: %w: %w", o.segment.path, ErrStorage, err)
	}
	s := o.segment
	s.published.Store(o.position)
	s.written.Store(o.position)
	s.synced.Store(o.position)
	s.tail, s.writtenNext = o.position, o.next
	s.next.Store(o.next)
	s.anchored.Store(true)
	s.recorded.Store(true)
	s.sealed.Store(true)
	return nil
}

// abandon removes what was not finished. It does nothing where there is nothing.
func (o *segmentOutput) abandon() {
	s := o.segment
	if s == nil {
		return
	}
	if o.file != nil {
		o.file.Close()
	}
	o.segment, o.file, o.buffer = nil, nil, o.buffer[:0]
	if err := o.cleaner.store.fs.Remove(s.path + unfinishedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.cleaner.store.log.Warn("unfinished segment stays until the next start", "segment", s.path+unfinishedSuffix, "err", err)
	}
}

// replace puts the finished output into the place of its group. The order is such that every crash leaves files
// that can be judged: the new one gets its name when it is durable, it counts when the index store says so, and
// only then do the old ones go.
func (c *cleaner) replace(p *cleanPass) error {
	o := &c.output
	sh, store := p.plan.shard, c.store
	if o.next != p.group.end() {
		return fmt.Errorf("%w: appends of %s end at offset %d instead of %d", ErrCorrupt, o.segment.path, o.next, p.group.end())
	}
	if err := o.finish(); err != nil {
		return err
	}
	sh.maintain.Lock()
	defer sh.maintain.Unlock()
	if !sh.holds(p.group) {
		return errCleanStopped
	}
	s := o.segment
	if err := store.fs.Rename(s.path+unfinishedSuffix, s.path); err != nil {
		return fmt.Errorf("rename segment %s: %w: %w", s.path, ErrStorage, err)
	}
	o.segment = nil
	if err := store.fs.SyncDir(sh.dir); err != nil {
		return store.fail(err)
	}
	if err := sh.commitReplaced(p.group.segments, s); err != nil {
		return err
	}
	for _, old := range p.group.segments {
		sh.letGo(old)
	}
	return nil
}

// holds tells whether the group's segments are part of the log as they were. The caller holds maintain.
func (sh *Shard) holds(g *cleanGroup) bool {
	if sh.deleted.Load() || sh.store.Failed() != nil {
		return false
	}
	list := sh.list.Load().segments
	at := -1
	for i, s := range list {
		if s == g.segments[0] {
			at = i
		}
	}
	if at < 0 || len(list)-at <= len(g.segments) {
		return false // retention took some, or one is active
	}
	for i, s := range g.segments {
		if list[at+i] != s || s.next.Load() != g.next[i] {
			return false
		}
	}
	return true
}

// commitReplaced records, durably, that a segment stands for others, and publishes it.
func (sh *Shard) commitReplaced(old []*segment, s *segment) error {
	store := sh.store
	store.catalogue.Lock()
	defer store.catalogue.Unlock()
	b := store.index.db.NewBatch()
	for _, o := range old {
		b.Delete(appendSegmentKey(nil, sh.id, o.number), nil)
		dropIndex(b, o, 0)
	}
	meta := s.meta()
	b.Set(appendSegmentKey(nil, sh.id, s.number), meta.append(nil), nil)
	dropIndex(b, s, 0) // of an attempt that failed
	sh.checkpoint.version.Add(1)
	if err := store.index.commit(b, true); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	sh.mu.Lock()
	sh.list.Store(sh.list.Load().replace(old, s))
	sh.mu.Unlock()
	for _, o := range old {
		o.removed.Store(true) // no flush brings its index entries back
	}
	store.indexer.enqueue(s)
	return nil
}
