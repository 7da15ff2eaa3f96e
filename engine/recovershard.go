package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"millrace/engine/model"
)

// cutSuffix marks segment files that hold nothing of the log any more, because it was cut before them. They
// are kept for people.
const cutSuffix = ".cut"

// recoverShard finds one shard's log. What is wrong with its files alone costs the shard (quarantine), not
// the start; the error is for what ends the start.
func (s *Store) recoverShard(ctx context.Context, id model.ShardID, k *known) (*Shard, error) {
	sh := newShard(s, id)
	sh.dirMade.Store(true)
	sh.anchored.Store(s.clean)
	r := shardRecovery{ctx: ctx, shard: sh, known: k}
	err := r.run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		sh.setQuarantine(err)
	}
	return sh, nil
}

// shardRecovery is the recovery of one shard.
type shardRecovery struct {
	ctx      context.Context
	shard    *Shard
	known    *known
	segments []*segment
	metas    map[uint64]*segmentMeta
	sizes    map[uint64]int64
	scanned  int64
	// fileStart is the log start in the shard's file.
	fileStart   int64
	fileMissing bool
	cutAt       int64 // offset at which the log was cut before its files' end, -1: nowhere
	cause       error
}

func (r *shardRecovery) run() error {
	sh := r.shard
	r.cutAt = -1
	r.readFile() // first, so that whatever is found names the topic
	if r.known.damaged {
		r.known.distrust()
	}
	err := r.collect()
	if errors.Is(err, errRecordLost) {
		sh.store.log.Error("index store lost part of its records: the whole log is scanned", "shard", sh.id.String(), "err", err)
		r.known.distrust()
		r.segments = nil
		err = r.collect()
	}
	if err != nil {
		return err
	}
	if r.fileMissing && len(r.segments) > 0 {
		sh.fileStale.Store(true) // somebody removed it
	}
	r.findLogStart()
	if err := r.dropSuperseded(); err != nil {
		return err
	}
	if err := r.scan(); err != nil {
		return err
	}
	r.settle()
	if err := r.settleCleaned(); err != nil {
		return err
	}
	if r.scanned > 0 || r.cutAt >= 0 {
		fields := []any{"shard", sh.id.String(), "topic", sh.topicName,
			"log_start_offset", sh.logStart.Load(), "log_end_offset", sh.logEnd.Load(), "segments", len(r.segments),
			"scanned_bytes", r.scanned, "cut", r.cutAt >= 0}
		if r.cause != nil {
			fields = append(fields, "cause", r.cause.Error())
		}
		level := slog.LevelInfo
		if r.cutAt >= 0 {
			level = slog.LevelWarn
			if sh.active != nil {
				fields = append(fields, "segment", sh.active.path)
			}
		}
		sh.store.log.Log(r.ctx, level, "shard recovered", fields...)
	}
	return nil
}

// collect lists the shard's segments by their files, and finds out which that should be there are not.
func (r *shardRecovery) collect() error {
	sh := r.shard
	store := sh.store
	names, err := store.fs.List(sh.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", sh.dir, err)
	}
	r.metas, r.sizes = make(map[uint64]*segmentMeta), make(map[uint64]int64)
	for i := range r.known.segments {
		m := &r.known.segments[i]
		r.metas[m.number] = m
		sh.nextNumber = max(sh.nextNumber, m.number+1)
	}
	files := make(map[uint64][]segmentFile)
	for _, name := range names {
		path := filepath.Join(sh.dir, name)
		number, generation, ok := parseSegmentName(name)
		if !ok {
			r.other(name, path)
			continue
		}
		sh.nextNumber = max(sh.nextNumber, number+1)
		files[number] = append(files[number], segmentFile{number, generation, path})
	}
	if err := r.recordBehind(files); err != nil {
		return err
	}
	for _, generations := range files {
		if err := r.choose(generations); err != nil {
			return err
		}
	}
	for number := range r.metas {
		return fmt.Errorf("segment %s is missing; `millrace inspect --repair` brings the shard back without it", filepath.Join(sh.dir, segmentFileName(number, r.metas[number].generation)))
	}
	slices.SortFunc(r.segments, func(a, b *segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return nil
}

// segmentFile is a file by its name.
type segmentFile struct {
	number     uint64
	generation uint32
	path       string
}

// choose adopts of a segment's files the one that counts: the generation on record, or, where none is, the
// highest. A file gets its name only when it is whole and durable, and loses it only when the generation after
// it is on record, so that either is right. The others are what compaction left.
func (r *shardRecovery) choose(files []segmentFile) error {
	slices.SortFunc(files, func(a, b segmentFile) int { return int(b.generation) - int(a.generation) })
	number := files[0].number
	recorded := r.metas[number]
	chosen := -1
	for i, f := range files {
		if recorded != nil && f.generation != recorded.generation {
			continue
		}
		s, err := r.adopt(f)
		if err != nil {
			return err
		}
		if s != nil {
			r.segments = append(r.segments, s)
			delete(r.metas, number)
			chosen = i
			break
		}
	}
	for i, f := range files {
		if chosen >= 0 && i != chosen {
			if err := r.removeLeft(f.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeLeft removes a file that compaction left and that does not count.
func (r *shardRecovery) removeLeft(path string) error {
	r.shard.store.log.Info("segment left by compaction removed", "segment", path)
	if err := r.shard.store.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove segment %s: %w", path, err)
	}
	return nil
}

// compacted tells whether what a file that is not on record holds is in a later segment that compaction made.
func (r *shardRecovery) compacted(number uint64, base int64) bool {
	for i := range r.known.segments {
		if m := &r.known.segments[i]; m.number > number && m.generation > 1 && m.base <= base {
			return true
		}
	}
	return false
}

// other looks at a file that is no segment: leftovers of our own go, what is not ours stays.
func (r *shardRecovery) other(name, path string) {
	sh := r.shard
	first, suffix, _ := strings.Cut(name, ".")
	if number, _, ok := parseSegmentName(first + segmentSuffix); ok {
		sh.nextNumber = max(sh.nextNumber, number+1)
		switch "." + suffix {
		case segmentSuffix + deletedSuffix:
			sh.store.janitor.remove(path, false, 0)
		case segmentSuffix + unfinishedSuffix:
			// At once: the next compaction takes the name again.
			if err := sh.store.fs.Remove(path); err != nil {
				sh.store.log.Warn("unfinished segment stays", "path", path, "err", err)
			}
		}
		return
	}
	if name != shardFileName && name != shardFileName+".new" {
		sh.store.log.Warn("file in a shard's directory is not known and left alone", "path", path)
	}
}

// adopt makes a segment of a file, from what is on record of it or from its header.
func (r *shardRecovery) adopt(f segmentFile) (*segment, error) {
	sh := r.shard
	store := sh.store
	number, path := f.number, f.path
	size, err := store.fs.Size(path)
	if err != nil {
		return nil, fmt.Errorf("size of segment %s: %w", path, err)
	}
	r.sizes[number] = size
	if m := r.metas[number]; m != nil {
		s := newSegment(sh, &segmentHeader{
			Shard: sh.id, Number: number, Generation: m.generation, BaseOffset: m.base, LeaderEpoch: m.epoch, Created: m.created,
		}, path)
		s.restore(m)
		if size < m.bytes {
			store.log.Error("segment is shorter than it was", "segment", path, "bytes", size, "recorded_bytes", m.bytes)
		}
		return s, nil
	}
	header, err := readSegmentHeader(store.fs, path)
	if err == nil && (header.Shard != sh.id || header.Number != number || header.Generation != f.generation) {
		err = fmt.Errorf("%w: header is of shard %s segment %d generation %d", ErrCorrupt, header.Shard, header.Number,
			header.Generation)
	}
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, model.ErrVersion) {
		return nil, err // the disk did not give it: that says nothing of what is in it
	}
	if err != nil {
		if size <= segmentHeaderSize {
			// Its making was cut short by a crash; nothing was in it.
			store.log.Info("unfinished segment removed", "segment", path, "bytes", size)
			return nil, store.fs.Remove(path)
		}
		store.log.Error("segment file is not used: its header is damaged or foreign", "segment", path, "err", err)
		return nil, nil
	}
	if c := r.known.checkpoint; c != nil && number < c.segment {
		if r.compacted(number, header.BaseOffset) {
			return nil, r.removeLeft(path)
		}
		if r.recordLost(number, header.BaseOffset) {
			return nil, fmt.Errorf("%w: segment %s", errRecordLost, path)
		}
		if header.BaseOffset < r.known.logStart {
			// A power cut brought it back.
			store.log.Warn("deleted segment is there again and removed", "segment", path, "base_offset", header.BaseOffset)
			return nil, store.fs.Remove(path)
		}
		store.log.Warn("segment file is not on record and left alone", "segment", path, "base_offset", header.BaseOffset)
		return nil, nil
	}
	return newSegment(sh, &header, path), nil
}

// restore fills a segment from its record. The file and its entry are durable up to there.
func (s *segment) restore(m *segmentMeta) {
	s.published.Store(m.bytes)
	s.written.Store(m.bytes)
	s.synced.Store(m.bytes)
	s.anchored.Store(true)
	s.next.Store(m.end)
	s.tail, s.writtenNext = m.bytes, m.end
	s.maxTimestamp.Store(m.maxTimestamp)
	s.maxTimestampBase.Store(m.maxTimestampBase)
	s.lastWritten.Store(m.lastWritten)
	s.recorded.Store(m.sealed)
	s.index.reset(false)
}

// readFile takes the topic's name and the copy of the log start from the shard's file.
func (r *shardRecovery) readFile() {
	sh := r.shard
	content, err := readShardFile(sh.store.fs, sh.dir, sh.id)
	switch {
	case err == nil:
		sh.topicName, r.fileStart = content.Topic, content.LogStart
	case errors.Is(err, fs.ErrNotExist):
		r.fileMissing = true
	default:
		sh.fileStale.Store(true)
		sh.store.log.Warn("shard file cannot be read", "shard", sh.id.String(), "err", err)
	}
}

// findLogStart takes the highest of the index store's, the shard file's copy and the first segment's.
func (r *shardRecovery) findLogStart() {
	sh := r.shard
	start := max(r.known.logStart, r.fileStart, 0)
	if len(r.segments) > 0 {
		// Not the first by number: what a later one has below does not count.
		first := int64(math.MaxInt64)
		for _, s := range r.segments {
			first = min(first, s.base)
		}
		start = max(start, first)
	}
	if r.fileStart < start && !r.fileMissing {
		sh.fileStale.Store(true)
	}
	sh.logStart.Store(start)
}

// dropSuperseded takes out segments that begin at or above the base of a later one: the log was cut before
// them and what they hold does not exist, or compaction brought them together in the later one.
func (r *shardRecovery) dropSuperseded() error {
	limit, generation := int64(math.MaxInt64), uint32(0)
	for i := len(r.segments) - 1; i >= 0; i-- {
		s := r.segments[i]
		if s.base < limit {
			limit, generation = s.base, s.generation
			continue
		}
		if err := r.setAside(s, generation > 1); err != nil {
			return err
		}
		r.segments = slices.Delete(r.segments, i, i+1)
	}
	return nil
}

// setAside renames a segment's file so that it is no longer part of the log, or removes one whose records
// compaction put into a later one.
func (r *shardRecovery) setAside(s *segment, compacted bool) error {
	store := r.shard.store
	if !compacted {
		store.log.Warn("segment is set aside: the log was cut before it", "segment", s.path, "base_offset", s.base)
	}
	s.removed.Store(true)
	store.handles.forget(s)
	// Off the record first, or the next start would miss it.
	b := store.index.db.NewBatch()
	b.Delete(appendSegmentKey(nil, r.shard.id, s.number), nil)
	dropIndex(b, s, 0)
	if err := store.index.commit(b, true); err != nil {
		return err
	}
	if compacted {
		return r.removeLeft(s.path)
	}
	if err := store.fs.Rename(s.path, s.path+cutSuffix); err != nil {
		return fmt.Errorf("set segment %s aside: %w", s.path, err)
	}
	return nil
}

// scan verifies what was written after the checkpoint, or everything where there is none, and cuts the log
// where it is not whole.
func (r *shardRecovery) scan() error {
	sh := r.shard
	first, position, next := r.begin()
	if first == len(r.segments) {
		return nil
	}
	if sh.store.clean && r.trusted(first, position) {
		r.activate(r.segments[first], position, next)
		return nil
	}
	for i := first; i < len(r.segments); i++ {
		s := r.segments[i]
		if i > first {
			position, next = segmentHeaderSize, s.base
		}
		last := i == len(r.segments)-1
		limit := int64(math.MaxInt64)
		if !last {
			limit = r.segments[i+1].base
		}
		scan, err := r.scanOne(s, position, next, limit)
		if err != nil {
			return err
		}
		if last {
			return r.endAt(s, scan)
		}
		if scan.next < limit && limit > sh.logStart.Load() {
			if !r.longDurable(i) {
				return r.cutBehind(i, scan)
			}
			r.bridge(s, scan, limit)
		}
	}
	return nil
}

// begin finds where to scan from: the checkpoint, or the first segment that is not below the log start.
func (r *shardRecovery) begin() (first int, position, next int64) {
	sh := r.shard
	if c := r.known.checkpoint; c != nil {
		first = -1
		for i, s := range r.segments {
			if s.number <= c.segment {
				first = i
			}
		}
		if first >= 0 {
			s := r.segments[first]
			position, next = c.position, c.next
			whole := false
			if s.number != c.segment || !r.fits(first, c) {
				// A cut that was not recorded any more, or a file that lost its end.
				sh.store.log.Warn("segment does not reach its checkpoint: it is scanned whole", "segment", s.path,
					"bytes", r.sizes[s.number], "checkpoint_segment", c.segment, "checkpoint_position", c.position)
				position, next, whole = segmentHeaderSize, s.base, true
			}
			sh.epochs = slices.Clone(c.epochs)
			for n := len(sh.epochs); whole && n > 0 && sh.epochs[n-1].start >= next; n-- {
				sh.epochs = sh.epochs[:n-1]
			}
			sh.restoreProducers(r.known.producers, next)
			return first, position, next
		}
		sh.store.log.Warn("checkpoint does not fit the files: the whole log is scanned", "shard", sh.id.String(),
			"segment", c.segment, "position", c.position)
	}
	for i := range r.segments {
		if i+1 < len(r.segments) && r.segments[i+1].base <= sh.logStart.Load() {
			continue
		}
		return i, segmentHeaderSize, r.segments[i].base
	}
	return len(r.segments), 0, 0
}

// fits tells whether a checkpoint lies within its segment as it is now.
func (r *shardRecovery) fits(i int, c *checkpointValue) bool {
	s := r.segments[i]
	return c.next >= s.base && r.sizes[s.number] >= c.position &&
		(i+1 == len(r.segments) || c.next <= r.segments[i+1].base)
}

// trusted tells whether a clean stop left the file just as the checkpoint says.
func (r *shardRecovery) trusted(first int, position int64) bool {
	return r.known.checkpoint != nil && first == len(r.segments)-1 && r.sizes[r.segments[first].number] == position
}

// activate takes a segment as the checkpoint left it.
func (r *shardRecovery) activate(s *segment, position, next int64) {
	s.published.Store(position)
	s.written.Store(position)
	s.synced.Store(position)
	s.tail, s.writtenNext = position, next
	s.next.Store(next)
}

func (r *shardRecovery) scanOne(s *segment, position, next, limit int64) (*appendScan, error) {
	sh := r.shard
	if position == segmentHeaderSize {
		s.index.reset(true)
		s.maxTimestamp.Store(noTimestamp)
		s.maxTimestampBase.Store(-1)
	} else {
		s.index.reset(false)
	}
	// Index entries behind the checkpoint may point to bytes that were lost.
	b := sh.store.index.db.NewBatch()
	dropIndex(b, s, next)
	if err := sh.store.index.commit(b, false); err != nil {
		return nil, err
	}
	s.inherited.Store(true)
	scan, err := sh.scanSegment(r.ctx, s, position, next, limit, math.MinInt32)
	if err != nil {
		return nil, err
	}
	r.scanned += scan.position - position
	if scan.position > position {
		s.lastWritten.Store(max(s.lastWritten.Load(), s.created))
	}
	sh.noteUnsynced(s)
	return scan, nil
}

// endAt ends the log in its last segment. Where something other than zeros follows, the segment is sealed
// there: the first append makes a new one rather than write over what is not understood.
func (r *shardRecovery) endAt(s *segment, scan *appendScan) error {
	if scan.bad == nil {
		return nil
	}
	junk, err := r.shard.junkBehind(s, scan.position)
	if err != nil {
		return err
	}
	if junk {
		r.cutAt, r.cause = scan.next, scan.bad
		s.mustRoll = true
	}
	return nil
}

// cutBehind ends the log in a segment that others follow: what is between was lost, and what is behind a hole
// is no log.
func (r *shardRecovery) cutBehind(i int, scan *appendScan) error {
	r.cutAt, r.cause = scan.next, scan.bad
	if r.cause == nil {
		r.cause = fmt.Errorf("offsets %d to %d are missing", scan.next, r.segments[i+1].base)
	}
	for _, s := range r.segments[i+1:] {
		if err := r.setAside(s, false); err != nil {
			return err
		}
	}
	r.segments = r.segments[:i+1]
	r.segments[i].mustRoll = true
	return nil
}

// settleCleaned takes over how far compaction came. Where the log ends below it now, offsets come again that it
// never saw.
func (r *shardRecovery) settleCleaned() error {
	sh := r.shard
	v := r.known.cleaned
	lower := v.upTo > sh.next
	v.upTo = min(v.upTo, sh.next)
	sh.cleaned.upTo.Store(v.upTo)
	sh.cleaned.horizon.Store(v.horizon)
	if !lower {
		return nil
	}
	b := sh.store.index.db.NewBatch()
	sh.setCleaned(b, v)
	return sh.store.index.commit(b, true)
}

// settle puts the shard together.
func (r *shardRecovery) settle() {
	sh := r.shard
	next := sh.logStart.Load()
	for i, s := range r.segments {
		s.sealed.Store(i < len(r.segments)-1)
	}
	if n := len(r.segments); n > 0 {
		sh.active = r.segments[n-1]
		end := sh.active.next.Load()
		if end < next {
			// The tail below the log start was lost; what follows begins at the log start.
			sh.active.mustRoll = true
		}
		next = max(next, end)
	}
	if c := r.known.checkpoint; c != nil && next < c.next {
		sh.store.lost.Store(true)
	}
	sh.list.Store(&segmentList{r.segments})
	sh.next = next
	sh.logEnd.Store(next)
	sh.highWatermark.Store(next)
	for len(sh.epochs) > 0 && sh.epochs[len(sh.epochs)-1].start > next {
		sh.epochs = sh.epochs[:len(sh.epochs)-1]
	}
	sh.epochs = sh.epochs.truncateStart(sh.logStart.Load())
	sh.leaderEpoch.Store(sh.epochs.latest())
	sh.producers.expire(sh.store.opts.Now().Add(-sh.store.upkeep.Load().ProducerExpiration).UnixMilli())
	if r.scanned > 0 || r.cutAt >= 0 || r.known.checkpoint == nil {
		sh.noteChanged(r.scanned)
	}
}
